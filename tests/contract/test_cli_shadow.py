"""Shadow mode on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.cli import Cli

ANYWHERE = True


def test_shadow_mode_is_turned_on_off_and_listed(cli: Cli) -> None:
    assert cli.ok("shadow", "ls").startswith("shadow mode was never on")
    said = cli.ok("shadow", "on")
    assert said.endswith(" on, due times of all schedules are recorded, not run\n")
    cli.ok("shadow", "off", "--label", "canary=yes", "--at", "2098-03-01T20:00:00Z")
    said = cli.ok("shadow", "off", "job", "--at", "2h")
    assert said.endswith(' on, due times of schedule "job" run\n')
    found = cli.json("shadow", "ls")
    assert [(one["shadow"], one["schedule"], one["labels"]) for one in found] == [
        (True, "", {}),
        (False, "job", {}),
        (False, "", {"canary": "yes"}),
    ]
    assert "schedules with canary=yes" in cli.ok("shadow", "ls")
    assert "note shadow: shadow mode is on for all schedules" in " ".join(
        cli("status").output.split()
    )
    refused = cli("shadow", "on", "--at", "2020-01-01T00:00:00Z")
    assert refused.exit_code == 2
    assert "is in the past" in refused.output


def test_what_would_have_run_is_listed(cli: Cli) -> None:
    assert cli.ok("shadow", "report").startswith("shadow mode recorded nothing")
    assert cli.json("shadow", "report") == []


@pytest.mark.on_file
def test_the_report_is_compared_with_another_scheduler(cli: Cli, tmp_path: Path) -> None:
    cli.ok("shadow", "on")
    cli.ok("add", "job", "--every", "1s", "--", "true")
    eventually(lambda: cli.ok("tick") and cli.json("shadow", "report"))
    found = cli.json("shadow", "report")
    other = tmp_path / "old.csv"
    lines = [f"{one['schedule']},{one['due_at']}" for one in found]
    other.write_text("schedule,time\n" + "\n".join(lines) + "\n", "utf-8")
    until = ("--to", found[-1]["due_at"])
    same = cli("shadow", "report", "--compare", str(other), "--within", "0s", *until)
    assert same.exit_code == 0
    assert same.output.endswith(" in both, within 0s; 0 differ\n")
    other.write_text("\n".join([*lines, f"cleanup,{found[-1]['due_at']}"]), "utf-8")
    differs = cli("shadow", "report", "--compare", str(other), *until, "--json")
    assert differs.exit_code == 1
    assert [one["schedule"] for one in json.loads(differs.stdout) if one["verdict"] == "other"] == [
        "cleanup"
    ]
    other.write_text("job;yesterday\n", "utf-8")
    refused = cli("shadow", "report", "--compare", str(other))
    assert refused.exit_code == 2
    assert "line 1: use SCHEDULE,TIME" in refused.output
    assert refused.output.strip().endswith("it has 1 field")
    unknown = cli("shadow", "report", "--within", "soon")
    assert unknown.exit_code == 2
    assert '--within: "soon" is not a duration' in unknown.output


def test_a_schedule_that_does_not_exist_yet_is_noted(cli: Cli) -> None:
    result = cli("shadow", "on", "nosuch")
    assert result.exit_code == 0
    assert 'note: schedule "nosuch" does not exist yet' in result.stderr

"""The commands that look ahead: `duebook simulate` and `duebook spread`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.cli import Cli

ANYWHERE = True
FROM = ("--from", "2026-02-07T12:00:00Z")


def add(cli: Cli, name: str, cron: str, *more: str) -> None:
    cli.ok("add", name, "--cron", cron, *more, "--", "true")


def test_a_simulation_tells_skips_lateness_and_peaks(cli: Cli) -> None:
    add(cli, "etl", "0 * * * *")
    add(cli, "night", "0 2 * * *")
    told = cli.ok("simulate", "--days", "2", *FROM, "--takes", "etl=90m", "--takes", "2m")
    assert "runs       26 of 50 due times" in told
    assert "skipped    24 (overlap 24)" in told
    assert "peak       2 runs at the same time" in told
    assert "night" in told
    assert "1 schedule without past runs: each run is assumed to take 2m" in told


def test_json_has_the_whole_report(cli: Cli) -> None:
    add(cli, "etl", "0 * * * *")
    found = json.loads(cli.ok("simulate", "--days", "1", *FROM, "--takes", "etl=90m", "--json"))
    assert (found["runs"], found["skips"], found["peak"]) == (12, {"overlap": 12}, 1)
    assert found["breaches"] == []
    assert found["outlooks"][0]["takes_from"] == "given"


def test_a_limit_that_is_exceeded_is_named_and_exits_with_1(cli: Cli) -> None:
    add(cli, "etl", "0 * * * *")
    given = ("simulate", "--days", "1", *FROM, "--takes", "etl=90m")
    assert cli(*given, "--max-skips", "12", "--max-concurrency", "1").exit_code == 0
    result = cli(*given, "--max-skips", "0", "--max-late", "5m")
    assert result.exit_code == 1
    assert "failed max-skips 0: 12 due times would be skipped" in result.stdout
    assert 'failed max-skips 0: "etl": overlap 12' in result.stdout
    assert "max-late" not in result.stdout


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_file_adds_and_replaces_schedules(cli: Cli, tmp_path: Path, form: str) -> None:
    add(cli, "etl", "0 * * * *")
    schedules = [
        {"name": "etl", "cron": "0 */2 * * *", "target": {"command": ["true"]}},
        {"name": "new", "cron": "0 3 * * *", "target": {"command": ["true"]}},
    ]
    path = tmp_path / f"schedules.{form}"
    text = json.dumps(schedules) if form == "json" else yaml.safe_dump({"schedules": schedules})
    path.write_text(text)
    found = json.loads(cli.ok("simulate", str(path), "--days", "1", *FROM, "--json"))
    assert {one["name"]: one["runs"] for one in found["outlooks"]} == {"etl": 12, "new": 1}
    found = json.loads(
        cli.ok("simulate", str(path), "--alone", "--days", "1", *FROM, "--workers", "1", "--json")
    )
    assert (found["schedules"], found["workers"]) == (2, 1)


def test_what_ls_prints_can_be_simulated(cli: Cli, tmp_path: Path) -> None:
    add(cli, "etl", "0 * * * *")
    path = tmp_path / "listed.json"
    path.write_text(cli.ok("ls", "--json"))
    told = cli.ok("simulate", str(path), "--alone", "--days", "1", *FROM)
    assert "runs       24 of 24 due times" in told


def test_the_page_needs_nothing_else(cli: Cli, tmp_path: Path) -> None:
    add(cli, "etl", "0 * * * *")
    path = tmp_path / "report.html"
    cli.ok("simulate", "--days", "1", *FROM, "--workers", "1", "--html", str(path))
    page = path.read_text()
    assert "<svg" in page
    assert "etl" in page
    assert not any(word in page for word in ("<script", "src=", "<link", "http://", "https://"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--days", "0"), "days 0 is not a whole number from 1 to 1,830"),
        (("--workers", "0"), "workers 0 is not a whole number from 1"),
        (("--takes", "etl=soon"), 'takes: etl: "soon" is not a duration'),
        (("--takes", "nobody=5m"), 'takes: schedule "nobody" does not exist'),
        (("--max-late", "soon"), '--max-late: "soon" is not a duration'),
        (("--takes", "soon"), 'takes: "soon" is not a duration'),
        (("--takes", "=5m"), '--takes "=5m" has no name before "="'),
        (("--from", "9999-12-31"), "is not in the years 1970 to 9900"),
        (("--max-skips", "-1"), "'--max-skips': -1 is not in the range"),
        (("--max-concurrency", "-3"), "'--max-concurrency': -3 is not in the range"),
        (
            ("--html", "/nowhere/x.html", "--days", "1"),
            '--html "/nowhere/x.html" cannot be written',
        ),
        (("--alone",), "--alone needs a FILE"),
    ],
)
def test_what_cannot_be_simulated_is_refused(cli: Cli, given: tuple[str, ...], told: str) -> None:
    add(cli, "etl", "0 * * * *")
    result = cli("simulate", *given)
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())


def test_spread_proposes_minutes_and_writes_them_down(cli: Cli, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        add(cli, name, "0 3 * * *", "--label", "may-move=true")
    add(cli, "fixed", "0 3 * * *")
    path, page = tmp_path / "spread.yaml", tmp_path / "spread.html"
    files = ("--out", str(path), "--html", str(page))
    told = cli.ok("spread", *FROM, "--takes", "10m", *files)
    row = next(line.split() for line in told.splitlines() if "most runs" in line)
    assert row[-2:] == ["4", "1"]
    moved = yaml.safe_load(path.read_text())["schedules"]
    assert [one["name"] for one in moved] == ["a", "b", "c"]
    assert len({one["trigger"]["cron"] for one in moved}) == 3
    assert all(one["trigger"]["cron"].endswith(" 3 * * *") for one in moved)
    assert page.read_text().count("<svg") == 2
    again = json.loads(
        cli.ok("simulate", str(path), "--days", "1", *FROM, "--takes", "10m", "--json")
    )
    assert again["peak"] == 1
    assert cli.ok("ls", "--json").count("0 3 * * *") == 4  # nothing was changed


def test_what_spread_proposes_can_be_compared_and_applied(cli: Cli, tmp_path: Path) -> None:
    movable = ("--label", "may-move=true")
    add(cli, "a", "0 3 * * *", *movable)
    cli.ok("add", "b", "--daily", "03:00", *movable, "--env", "KEY=s3cret", "--", "true")
    add(cli, "fixed", "0 3 * * *")
    own = tmp_path / "billing.yaml"
    common = {"target": {"command": ["true"]}, "labels": {"may-move": "true"}}
    bill = {"cron": "0 3 * * *", **common}
    check = {"trigger": {"every": "1h", "anchor": "2026-01-01T00:00:25Z"}, **common}
    billing = {"owner": "billing", "schedules": {"bill": bill, "check": check}}
    own.write_text(yaml.safe_dump(billing))
    cli.ok("apply", str(own), "--yes")
    simulated = ("--days", "2", *FROM, "--takes", "10m")
    assert cli.json("simulate", *simulated)["peak"] == 5
    told = cli.ok("spread", *simulated, "--out", str(tmp_path / "spread.yaml"))
    assert "every 1h from 2026-01-01T00:00:25Z" in told, "of an interval, what moves"
    files = {"": tmp_path / "spread.yaml", "billing": tmp_path / "spread-billing.yaml"}
    assert all(path.name in told for path in files.values())
    refused = cli("apply", str(files[""]), "--yes")
    assert "to take over, add --adopt" in refused.stderr
    for owner, adopt in (("", ["--adopt"]), ("billing", [])):
        planned = cli.json("diff", str(files[owner]), *adopt)
        assert {one["action"] for one in planned["schedules"]} == {"change"}
        assert all(one["move"] for one in planned["schedules"])
        assert planned["owner"] == (owner or "default")
        assert "applied" in cli.ok("apply", str(files[owner]), *adopt, "--yes")
    assert cli.json("simulate", *simulated)["peak"] == 1
    with closing(sqlite3.connect(cli.path)) as connection:
        (spec,) = connection.execute(
            "SELECT spec FROM schedule_revisions WHERE spec LIKE '%\"03:%' ORDER BY version DESC"
        ).fetchone()
    assert "s3cret" in spec, "apply keeps what the file hides"
    assert cli.json("spread", *simulated)["moves"] == []


def test_spread_says_when_nothing_may_move(cli: Cli) -> None:
    add(cli, "a", "0 3 * * *")
    add(cli, "b", "0 3 * * *")
    assert "no schedule may move" in cli.ok("spread", *FROM)
    assert json.loads(cli.ok("spread", *FROM, "--name", "a", "--json"))["movable"] == 1
    result = cli("spread", *FROM, "--name", "nobody")
    assert (result.exit_code, "does not exist" in result.output) == (2, True)

"""Defining schedules on the command line: every policy can be set, changed, reset and shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from duebook.cli.definition_options import POLICIES
from duebook.model.schedule import ScheduleSpec
from tests.support.cli import GIVEN, HOLIDAYS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.cli import Cli

ANYWHERE = True


def test_no_policy_is_forgotten() -> None:
    given = {name for name, field in ScheduleSpec.__dataclass_fields__.items() if field.init}
    of_flows = {"stop", "restart"}  # which their files give
    assert set(POLICIES) == set(GIVEN) == given - {"triggers", "target", "payload"} - of_flows


@pytest.mark.parametrize("policy", GIVEN)
def test_every_policy_is_added_shown_updated_and_reset(cli: Cli, policy: str) -> None:
    options, value = GIVEN[policy]
    if policy == "calendar":
        cli.ok(*HOLIDAYS)
    cli.ok("add", "given", "--every", "1h", *options, "--", "true")
    assert cli.json("show", "given")[policy] == value
    assert policy in cli.ok("show", "given")
    cli.ok("add", "job", "--every", "1h", "--", "true")
    assert policy not in cli.json("show", "job")
    updated = cli.json("update", "job", *options)
    assert (updated[policy], updated["version"]) == (value, 2)
    reset = cli.json("update", "job", "--reset", policy.replace("_", "-"))
    assert policy not in reset


def test_all_policies_at_once_fit_the_screen(cli: Cli) -> None:
    everything = [text for options, _ in GIVEN.values() for text in options]
    cli.ok(*HOLIDAYS)
    cli.ok("add", "job", "--every", "1h", *everything, "--", "true")
    assert max(map(len, cli.ok("show", "job").splitlines())) <= 80


def test_update_changes_only_what_is_given(cli: Cli) -> None:
    cli.ok("add", "job", "--every", "1h", "--retry", "3", "--overlap", "queue", "--", "true")
    before = cli.json("show", "job")
    said = cli.ok("update", "job", "--retry-delay", "5s")
    assert said.startswith("updated job to version 2: retry\nnext due ")
    after = cli.json("show", "job")
    assert after["retry"] == {"attempts": 3, "delay": "5s"}
    assert (after["overlap"], after["trigger"]) == ("queue", before["trigger"])


def test_update_takes_another_trigger_and_command(cli: Cli) -> None:
    cli.ok("add", "job", "--every", "1h", "--", "true")
    cli.ok("update", "job", "--cron", "H 3 * * *", "--tz", "Europe/Brussels", "--", "echo", "--x")
    job = cli.json("show", "job")
    assert (job["trigger"]["cron"], job["trigger"]["key"]) == ("H 3 * * *", "job")
    assert job["target"] == {"command": ["echo", "--x"]}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "give at least one option to change"),
        (("--tz", "UTC"), "give exactly one of --cron, --every"),
        (("--retry-delay", "5s"), "give --retry N as well"),
        (("--depends-on", "extract"), "is not NAME:WITHIN[:WAIT]"),
        (("--depends-on", "job:1h"), "cannot depend on itself"),
        (("--label", "team"), '--label "team" is not NAME=VALUE'),
        (("--reset", "trigger"), '--reset "trigger" is not a policy'),
        (("--exclude", "2026-13-01"), "exclude"),
        (("--env", "A=b"), "--cwd and --env need a COMMAND"),
        (("--catchup-limit", "0"), "catchup_limit 0 is not a whole number"),
        (("--retry", "0"), "retry attempts 0"),
    ],
)
def test_a_mistake_changes_nothing(cli: Cli, arguments: tuple[str, ...], complaint: str) -> None:
    cli.ok("add", "job", "--every", "1h", "--", "true")
    result = cli("update", "job", *arguments)
    assert result.exit_code == 2, result.output
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert cli.json("show", "job")["version"] == 1


def test_a_dry_run_of_an_update_shows_how_due_times_would_change(cli: Cli) -> None:
    cli.ok("add", "job", "--cron", "0 9 * * *", "--", "true")
    told = cli.ok("update", "job", "--cron", "0 9,17 * * *", "--dry-run").splitlines()
    assert {line[0] for line in told} == {" ", "+"}
    gone = cli.json("update", "job", "--cron", "0 8 * * *", "--overlap", "queue", "--dry-run")
    assert (gone["before"]["trigger"]["cron"], gone["after"]["overlap"]) == ("0 9 * * *", "queue")
    assert not set(gone["was_due"]) & set(gone["will_be_due"])
    assert len(gone["will_be_due"]) == 10
    same = cli.ok("update", "job", "--overlap", "queue", "--dry-run")
    assert same.endswith("no due times would change\n")
    assert cli("update", "job", "--cron", "99 * * * *", "--dry-run").exit_code == 2
    assert cli.json("show", "job")["version"] == 1


def test_the_words_of_another_scheduler_are_options(cli: Cli) -> None:
    frequency = ("--frequency-unit", "MINUTES", "--frequency-time", "15")
    event = ("--event-topic", "stock", "--event-type", "due", "--event-data", '{"shop": 1}')
    start = ("--start-ts", "2099-01-01T00:00:00Z")
    made = cli.json("add", "stock", *frequency, *start, *event, "--no-active")
    assert made["trigger"] == {"every": "15m", "anchor": "2099-01-01T00:00:00Z"}
    assert made["target"] == {"event": {"topic": "stock", "type": "due", "data": {"shop": 1}}}
    assert made["status"] == "paused"
    changed = cli.json("update", "stock", "--active", "--frequency-unit", "HOURS", *frequency[2:])
    assert (changed["status"], changed["trigger"]["every"]) == ("active", "15h")
    clash = cli("update", "stock", "--cron", "@daily", *frequency)
    assert clash.exit_code == 2
    assert "--frequency-unit cannot be combined with --cron" in clash.output


def test_a_file_may_use_the_words_of_another_scheduler(cli: Cli, tmp_path: Path) -> None:
    row = {"name": "stock", "frequency_unit": "DAYS", "frequency_time": 1, "active": False}
    (tmp_path / "rows.json").write_text(json.dumps([row | {"event_topic": "stock"}]))
    (made,) = cli.json("add", "--file", str(tmp_path / "rows.json"))
    assert (made["target"], made["status"]) == ({"event": {"topic": "stock"}}, "paused")


def test_a_title_is_shown_where_people_look(cli: Cli) -> None:
    cli.ok("add", "plain", "--daily", "07:00", "--", "true")
    assert "TITLE" not in cli.ok("ls")
    added = cli.ok("add", "clean", "--daily", "07:00", "--title", "Daily Cleanup", "--", "true")
    assert added.startswith("added clean (Daily Cleanup): ")
    listed = cli.ok("ls", "--text", "cleanup")
    assert "TITLE" in listed
    assert "Daily Clean" in listed  # as far as the terminal is wide
    assert "plain" not in listed
    assert "Daily Cleanup" in cli.ok("show", "clean")
    assert cli.ok("explain", "clean", "--at", "now").startswith("Daily Cleanup (clean)\n")
    assert cli.json("show", "clean")["title"] == "Daily Cleanup"
    assert cli.json("update", "clean", "--title", "Nightly Cleanup")["title"] == "Nightly Cleanup"
    assert "title" not in cli.json("update", "clean", "--reset", "title")
    wrong = cli("update", "clean", "--title", "\x1b[31m")
    assert wrong.exit_code == 2
    assert "title" in wrong.output

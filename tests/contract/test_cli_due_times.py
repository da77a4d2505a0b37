"""The commands about due times: explain, preview, backfill, retry."""

from __future__ import annotations

import shlex
from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from duebook.cli import backfill, main
from duebook.clock import utc_now
from duebook.store.sqlite import SqliteStore
from duebook.timetext import format_instant
from tests.support.builders import begin, claim, settle
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True

HOURLY = ("add", "job", "--cron", "0 * * * *", "--overlap", "allow", "--", "true")


@pytest.fixture(autouse=True)
def within_an_hour() -> None:
    """The tests count full hours back from now, so none may start just before an hour ends."""
    eventually(lambda: utc_now().hour == (utc_now() + timedelta(seconds=20)).hour)


def hours_ago(number: int) -> str:
    """A full hour."""
    hour = utc_now().replace(minute=0, second=0, microsecond=0)
    return format_instant(hour - timedelta(hours=number))


def test_explain_says_a_sentence_about_an_instant(cli: Cli) -> None:
    cli.ok("add", "job", "--cron", "0 9 * * 1-5", "--tz", "Europe/Brussels", "--", "true")
    said = cli.ok("explain", "job", "--at", "2099-01-03T09:00")
    assert said.startswith("not due: the day-of-week field excludes Saturday; the next is Mon")
    assert max(map(len, said.splitlines())) <= 80
    answer = cli.json("explain", "job", "--at", "2099-01-05T09:00")
    assert (answer["verdict"], answer["at"]) == ("to_come", "2099-01-05T08:00:00Z")
    assert (answer["reason"], answer["run_id"], answer["tz"]) == (None, None, "Europe/Brussels")
    assert answer["text"].endswith("at 2099-01-05 09:00")


def test_explain_knows_the_gaps_of_the_zone(cli: Cli) -> None:
    cli.ok("add", "job", "--cron", "30 2 * * *", "--tz", "America/New_York", "--", "true")
    said = cli.ok("explain", "job", "--at", "2099-03-08T02:30").replace("\n  ", " ")
    assert said.startswith(
        "02:30 does not exist on 8 March (clocks move from 02:00 to 03:00); due in "
    )


def test_explain_tells_times_in_a_zone(cli: Cli) -> None:
    cli.ok(*HOURLY)
    asked = ("explain", "job", "--at", "2099-01-05T09:00")
    assert "10:00" not in cli.ok(*asked)
    told = cli.json(*asked, "--tz", "Asia/Tokyo")
    assert (told["tz"], told["at"]) == ("Asia/Tokyo", "2099-01-05T09:00:00Z")
    cli.ok("backfill", "job", "--from", hours_ago(3), "--to", "now", "--yes")
    there = datetime.fromisoformat(hours_ago(3)).astimezone(ZoneInfo("Asia/Tokyo"))
    lines = cli.ok("explain", "job", "--from", hours_ago(3), "--tz", "Asia/Tokyo").splitlines()
    assert lines[0].startswith(f"{there:%a %Y-%m-%d %H:%M}")
    assert lines[-1] == "times in Asia/Tokyo"


def test_explain_lists_a_range(cli: Cli) -> None:
    cli.ok(*HOURLY)
    cli.ok("backfill", "job", "--from", hours_ago(3), "--to", "now", "--yes")
    told = cli.json("explain", "job", "--from", hours_ago(3), "--to", hours_ago(-2))
    assert [t["verdict"] for t in told] == ["queued"] * 4 + ["to_come"] * 2
    lines = cli.ok("explain", "job", "--from", hours_ago(3), "--to", hours_ago(-2)).splitlines()
    assert max(map(len, lines)) <= 80
    assert "queued as a backfill" in lines[0]
    assert cli.ok("explain", "job", "--from", hours_ago(9), "--to", hours_ago(8)) == (
        "no due times in that period\n"
    )


def test_explain_answers_about_a_deleted_schedule(cli: Cli) -> None:
    cli.ok(*HOURLY)
    cli.ok("rm", "job")
    assert cli.ok("explain", "job", "--at", "2099-01-01T00:00Z") == (
        "not due: the schedule was deleted\n"
    )


def test_preview_marks_what_moved(cli: Cli) -> None:
    cli.ok("add", "job", "--cron", "30 2 * * *", "--tz", "America/New_York", "--", "true")
    cli.ok("skip-next", "job")
    cli.ok("reschedule", "job", "90m")
    shown = cli.ok("preview", "job", "--count", "400")
    lines = shown.splitlines()
    assert lines[0] == "At 02:30 every day (America/New_York)"
    assert lines[1].endswith("moved")
    assert sum(line.endswith("moved from 02:30") for line in lines) == 1, "the gap in March"
    assert lines[-1].startswith("  skipped: ")
    assert len(cli.json("preview", "job", "--count", "3")) == 3
    assert max(map(len, cli.ok("preview", "job").splitlines())) <= 80


def test_preview_notes_a_pause(cli: Cli) -> None:
    cli.ok(*HOURLY)
    cli.ok("pause", "job", "--until", "3h")
    result = cli("preview", "job", "-n", "1")
    assert result.stderr == "note: the schedule is paused\n"
    assert cli.json("show", "job")["paused_until"] is not None
    assert ", until " in cli.ok("show", "job")


def test_backfill_says_what_it_would_do_and_does_it_when_told(cli: Cli) -> None:
    cli.ok(*HOURLY)
    span = ("--from", hours_ago(5), "--to", hours_ago(2))
    told = cli.ok("backfill", "job", *span, "--dry-run")
    assert told.splitlines()[0] == "4 due times"
    assert cli.json("backfill", "job", *span, "--dry-run")[0] == hours_ago(5)
    assert cli.json("runs") == []
    done = cli.ok("backfill", "job", *span, "--yes")
    assert "queued 4 runs; to see them: duebook runs job\n" in done
    assert {run["origin"] for run in cli.json("runs", "job")} == {"backfill"}
    again = cli.ok("backfill", "job", *span)
    assert again == "nothing to backfill: every due time in that period has a run\n"


def test_backfill_says_how_it_is_taken_back(cli: Cli) -> None:
    cli.ok(*HOURLY)
    span = ("--from", hours_ago(3), "--to", hours_ago(1))
    hint = cli.ok("backfill", "job", *span, "--yes").splitlines()[-1]
    command = shlex.split(hint.removeprefix("to undo: duebook "))
    assert cli.ok(*command) == "cancelled 3 runs\n"
    assert {run["status"] for run in cli.json("runs", "job")} == {"cancelled"}
    nothing = "nothing to undo: there was no backfill of that period at that instant\n"
    assert cli.ok(*command) == nothing
    (run,) = cli.json("backfill", "job", "--from", hours_ago(4), "--to", hours_ago(4), "--yes")
    undone = cli.json(*command[:3], hours_ago(4), *command[4:-1], run["created_at"])
    assert undone == {"cancelled": 1, "begun": 0}


def test_what_has_begun_is_not_taken_back(cli: Cli) -> None:
    cli.ok(*HOURLY)
    span = ("--from", hours_ago(3), "--to", hours_ago(1))
    runs = cli.json("backfill", "job", *span, "--yes")
    with closing(SqliteStore(cli.path)) as store:
        begin(store)
        claim(store, limit=1)
    said = cli.ok("backfill", "job", *span, "--undo", runs[0]["created_at"])
    assert said == "cancelled 2 runs; 1 run had already started\n"


def test_the_progress_of_a_backfill_is_shown_and_followed(cli: Cli) -> None:
    cli.ok(*HOURLY)
    span = ("--from", hours_ago(3), "--to", hours_ago(1))
    runs = cli.json("backfill", "job", *span, "--yes", "--beside", "--concurrency", "2")
    assert {run["requested_by"] for run in runs} != {None}
    assert runs[0]["interval"] == {"start": hours_ago(4), "end": hours_ago(3)}
    about = ("backfill", "job", *span, "--progress", runs[0]["created_at"])
    assert cli.ok(*about) == "0 of 3 runs ended, 3 queued\n"
    with closing(SqliteStore(cli.path)) as store:
        begin(store)
        first, second = claim(store)
        settle(store, first.token)
        settle(store, second.token, "failed")
        (third,) = claim(store)
        settle(store, third.token)
    found = cli.json(*about)
    assert (found["succeeded"], found["failed"], found["total"], found["left"]) == (2, 1, 3, 0)
    ended = cli(*about, "--follow")
    assert (ended.exit_code, ended.stdout) == (5, "3 of 3 runs ended, 1 failed\n")
    mixed = cli(*about, "--yes")
    assert (mixed.exit_code, "--progress goes with" in mixed.stderr) == (2, True)


def test_backfill_refuses_several_at_once_where_runs_must_not_overlap(cli: Cli) -> None:
    cli.ok("add", "job", "--cron", "0 * * * *", "--", "true")
    refused = cli("backfill", "job", "--from", hours_ago(3), "--yes", "--concurrency", "2")
    assert refused.exit_code == 2
    assert "concurrency 2: runs of the schedule must not overlap" in refused.stderr


def test_backfill_asks_at_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.ok(*HOURLY)
    command = ["--database", str(cli.path), "backfill", "job"]
    command += ["--from", hours_ago(2), "--to", hours_ago(1)]
    monkeypatch.setattr(backfill, "_at_terminal", lambda: True)
    refused = CliRunner().invoke(main, command, input="n\n")
    assert refused.exit_code == 0
    assert "queue 2 runs?" in refused.stderr
    assert "nothing was queued" in refused.stderr
    assert cli.json("runs") == []
    agreed = CliRunner().invoke(main, command, input="y\n")
    assert "queued 2 runs" in agreed.stdout


def test_a_bare_time_is_today_in_the_zone_of_the_schedule(cli: Cli) -> None:
    cli.ok("add", "job", "--cron", "0 2 * * *", "--tz", "Pacific/Auckland", "--", "true")
    result = cli("explain", "job", "--at", "02:10")
    assert result.exit_code == 0, result.stderr
    assert "Pacific/Auckland" in result.stdout
    assert "02:10" in result.stderr, "how it was read"


def test_backfill_reprocesses_and_retry_opens_a_run_again(cli: Cli) -> None:
    cli.ok(*HOURLY)
    span = ("--from", hours_ago(1), "--to", hours_ago(1))
    (run,) = cli.json("backfill", "job", *span, "--yes")
    assert "has not finished: it is queued" in cli("retry", run["id"]).stderr
    cli.ok("cancel", run["id"])
    assert cli.ok("retry", run["id"][:18]) == f"run {run['id']} is queued again as attempt 1\n"
    cli.ok("cancel", run["id"])
    (again,) = cli.json("backfill", "job", *span, "--reprocess", "failed", "--yes")
    assert (again["id"], again["status"]) == (run["id"], "queued")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "complaint"),
    [
        (("explain", "job"), 2, "give either --at TIME, or --from"),
        (("explain", "job", "--to", "now"), 2, "give either --at TIME, or --from"),
        (("explain", "job", "--at", "soon"), 2, '"soon" is not a time'),
        (("explain", "job", "--at", "now", "--tz", "Mars/Olympus"), 2, '"Mars/Olympus"'),
        (
            ("backfill", "job", "--from", "now", "--to", "now", "--undo", "now", "--yes"),
            2,
            "--undo goes with --from, --to and --json only",
        ),
        (("explain", "nobody", "--at", "now"), 3, 'schedule "nobody" does not exist'),
        (("preview", "nobody"), 3, 'schedule "nobody" does not exist'),
        (("backfill", "job", "--from", "now", "--to", hours_ago(-2)), 2, "is in the future"),
        (
            ("backfill", "job", "--from", "2020-01-01T00:00Z", "--to", "now"),
            2,
            "where history starts (runs are kept for 90d); choose a later start",
        ),
        (("retry", "no-such-run"), 3, "task with enqueued runs, and not the id of a run"),
        (("pause", "job", "--until", "2020-01-01T00:00Z"), 2, "is in the past"),
    ],
)
def test_a_mistake_is_one_line_and_its_exit_code(
    cli: Cli, arguments: tuple[str, ...], exit_code: int, complaint: str
) -> None:
    cli.ok(*HOURLY)
    result = cli(*arguments)
    assert result.exit_code == exit_code, result.output
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_backfill_does_not_act_where_nobody_can_be_asked(cli: Cli) -> None:
    cli.ok(*HOURLY)
    result = cli("backfill", "job", "--from", hours_ago(1), "--to", "now")
    assert result.exit_code == 2
    assert "cannot ask for confirmation here; add --yes" in result.stderr
    assert cli.json("runs") == []

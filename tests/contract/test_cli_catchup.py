"""Held due times on the command line, on a file and through a server."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.store.sqlite import SqliteStore
from tests.support.held import hold

if TYPE_CHECKING:
    from datetime import datetime

    from tests.support.cli import Cli

ANYWHERE = True
HOUR = timedelta(hours=1)


@pytest.fixture
def first(cli: Cli) -> datetime:
    """The first of nine hourly due times that are held."""
    cli.ok("add", "job", "--every", "1h", "--anchor", "2020-01-01T00:00:00Z", "--", "true")
    with closing(SqliteStore(cli.path)) as store:
        book = Book(store)
        first = book.insights.now().replace(minute=0, second=0, microsecond=0) - 9 * HOUR
        hold(book, "job", first, HOUR, 9)
    return first


def test_nothing_is_held_at_first(cli: Cli) -> None:
    assert cli.ok("catchup", "ls") == "no due times are held\n"
    assert cli.json("catchup", "ls") == []
    cli.ok("add", "job", "--every", "1h", "--", "true")
    refused = cli("catchup", "approve", "job", "--all")
    assert refused.exit_code == 1
    assert 'schedule "job" has no held due times' in refused.output
    assert cli("catchup", "ls", "other").exit_code == 3


@pytest.mark.usefixtures("first")
def test_what_is_held_is_listed_and_shown(cli: Cli) -> None:
    (row,) = cli.ok("catchup", "ls").splitlines()[1:]
    assert row.split()[:2] == ["job", "9"]
    (form,) = cli.json("catchup", "ls", "job")
    assert (form["schedule"], form["count"], form["version"]) == ("job", 9, 1)
    assert "held: 9 due times from " in cli.ok("show", "job")
    assert '9 missed due times of schedule "job" have waited for approval' in cli("status").output


@pytest.mark.usefixtures("first")
def test_one_is_approved_and_the_rest_rejected(cli: Cli) -> None:
    chosen = ("catchup", "approve", "job", "--newest", "1", "--reject-rest")
    assert cli.ok(*chosen, "--dry-run") == "would run 1 due time, reject 8 due times\n"
    assert cli.json("runs") == []
    told, undo = cli.ok(*chosen, "--yes").splitlines()
    assert told == "queued 1 run, rejected 8 due times"
    command = undo.removeprefix("to cancel the runs: duebook ").split()
    assert cli.ok(*command) == "cancelled 1 run\n"
    assert cli.json("catchup", "ls") == []
    assert [run["origin"] for run in cli.json("runs")] == ["catchup"]


def test_a_period_is_rejected_and_can_be_backfilled(cli: Cli, first: datetime) -> None:
    span = ("--from", f"{first:%Y-%m-%dT%H:%MZ}", "--to", f"{first + HOUR:%Y-%m-%dT%H:%MZ}")
    told, backfill = cli.ok("catchup", "reject", "job", *span, "--yes").splitlines()
    assert told == "rejected 2 due times, kept 7 held"
    command = backfill.removeprefix("to run them all the same: duebook ").split()
    assert "queued 2 runs" in cli.ok(*command, "--yes")
    done = cli.json("catchup", "approve", "job", "--all", "--yes")
    assert (done["approved"], done["rejected"], done["held"]) == (7, 0, 0)


def test_a_backfill_tells_of_what_is_held(cli: Cli, first: datetime) -> None:
    result = cli("backfill", "job", "--from", f"{first:%Y-%m-%dT%H:%MZ}", "--to", "1h", "--yes")
    assert "nothing to backfill" in result.output
    assert "note: due times are held; to decide about them: duebook catchup" in result.output


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("approve", "job"), "give one of --all, --newest N, or --from TIME and --to TIME"),
        (("approve", "job", "--all", "--newest", "1"), "give one of --all"),
        (("approve", "job", "--newest", "0"), "newest 0 is not a whole number from 1"),
        (("approve", "job", "--all"), "cannot ask for confirmation here; add --yes"),
        (("reject", "job"), "give either --all, or --from TIME and --to TIME"),
        (("reject", "job", "--all", "--to", "1h"), "give either --all"),
        (("reject", "job", "--from", "1h", "--to", "2h"), "is before start"),
        (("drop", "job"), "did you mean: duebook catchup reject job"),
    ],
)
def test_an_unclear_choice_is_refused(cli: Cli, arguments: tuple[str, ...], words: str) -> None:
    result = cli("catchup", *arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert cli.json("catchup", "ls")[0]["count"] == 9


def test_many_schedules_are_decided_at_once(cli: Cli, first: datetime) -> None:
    labelled = ("--every", "1h", "--anchor", "2020-01-01T00:00:00Z", "--label", "team=data")
    cli.ok("add", "load", *labelled, "--", "true")
    cli.ok("add", "once", *labelled, "--max-runs", "1", "--", "true")
    with closing(SqliteStore(cli.path)) as store:
        for name in ("load", "once"):
            hold(Book(store), name, first, HOUR, 3)
    data = ("--label", "team=data")
    assert cli("catchup", "approve", "job", "--all", *data).exit_code == 2
    assert cli("catchup", "approve", "--from", "1d ago", *data).exit_code == 2
    tried = cli("catchup", "approve", "--all", *data, "--dry-run")
    assert (tried.exit_code, tried.output) == (0, "would run 3 due times, of 1 schedule: load\n")
    done = cli("catchup", "approve", "--all", *data, "--yes")
    assert done.exit_code == 1
    assert "queued 3 runs, of 1 schedule: load\n" in done.output
    assert "refused: once: max_runs of 1 leaves 1 run" in done.output
    chosen = ("catchup", "approve", "--newest", "1", "--reject-rest", "--yes")
    assert cli.ok(*chosen) == "queued 2 runs, rejected 10 due times, of 2 schedules: job, once\n"
    assert cli.ok("catchup", "reject", "--all") == "no due times are held\n"
    assert cli.json("catchup", "reject", "--all")["schedules"] == 0


@pytest.mark.usefixtures("first")
def test_all_are_rejected_after_confirmation(cli: Cli) -> None:
    refused = cli("catchup", "reject", "--all")
    assert refused.exit_code == 2
    assert "would reject 9 due times, of 1 schedule: job" in refused.output
    assert cli.json("catchup", "reject", "--all", "--yes")["rejected"] == 9
    assert cli.json("catchup", "ls") == []

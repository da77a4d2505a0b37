"""The command `backfill`: runs past due times, shows the progress, or undoes it."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from duebook.cli.arguments import name_argument
from duebook.cli.commands import command
from duebook.cli.due_times import zone_of
from duebook.cli.exit_codes import INTERRUPTED
from duebook.cli.instants import read_past
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, when
from duebook.cli.run import exit_by
from duebook.errors import counted
from duebook.model.acted import BackfillProgress, Withdrawn
from duebook.model.codec import encode
from duebook.model.run import Run
from duebook.timetext import format_duration, format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.client import Client

__all__ = ["backfill_command", "progress_line"]

POLL: Final = 1.0
"""Seconds between two queries while a backfill is followed."""
CLEAR_LINE: Final = "\r\x1b[K"


class Filled(NamedTuple):
    """A backfill, identified as in the commands about it."""

    name: str
    since: datetime
    until: datetime
    queued_at: str

    @property
    def span(self) -> str:
        return f"--from {format_instant(self.since)} --to {format_instant(self.until)}"

    def told(self, option: str) -> str:
        """The command for this backfill with an option."""
        return f"duebook backfill {self.name} {self.span} {option} {self.queued_at}"


@command("backfill")
@name_argument
@click.option(
    "--from",
    "start",
    metavar="TIME",
    required=True,
    help="The first due time: 7d ago, a date or time in the schedule's zone, or an instant.",
)
@click.option(
    "--to", "end", metavar="TIME", help="The last due time, in the same way. [default: now]"
)
@click.option(
    "--reprocess",
    type=click.Choice(["failed", "all"]),
    help="Also run due times again whose run failed, or all of them.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    metavar="N",
    help="Run at most N of them at once; more than 1 needs overlap allow, or --beside.",
)
@click.option(
    "--beside",
    is_flag=True,
    help="Run them beside each other and beside the schedule's other runs, whatever its overlap.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Only print what would run.")
@click.option(
    "--follow",
    "-f",
    is_flag=True,
    help="Show the progress until all have ended; exit code 5 unless all succeeded.",
)
@click.option(
    "--progress",
    "asked_for",
    metavar="INSTANT",
    help="Show how far the backfill that was queued at INSTANT has come; with --follow, go on.",
)
@click.option(
    "--undo",
    "undone_at",
    metavar="INSTANT",
    help="Cancel the runs that the backfill at INSTANT queued and that have not started.",
)
@json_option
def backfill_command(
    name: str,
    start: str,
    end: str | None,
    yes: bool,
    dry_run: bool,
    follow: bool,
    asked_for: str | None,
    undone_at: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run past due times that have no run; follow or undo that.

    Times without an offset are in the schedule's time zone, and a date means the
    beginning of that day.

    \b
    Examples:
      duebook backfill report --from 7d
      duebook backfill report --from 2026-03-01 --to 2026-03-08 --dry-run
      duebook backfill report --from 30d --beside --concurrency 4 --follow
      duebook backfill report --from 2026-03-01T00:00Z --to 2026-03-08T00:00Z \\
        --undo 2026-03-09T08:15:02.113406Z
    """
    _refuse_mixtures(undone_at, asked_for, follow, yes or dry_run or any(options.values()))
    with open_book() as book:
        shown = zone_of(book, name)
        since = read_past("--from", start, shown)
        until = read_past("--to", end or "now", shown)
        if undone_at is not None:
            undone = book.schedules.undo_backfill(name, since, until, undone_at)
            print_json(asdict(undone)) if as_json else _print_undone(undone)
            return
        if asked_for is not None:
            _report(book, Filled(name, since, until, asked_for), follow, as_json)
            return
        found = book.schedules.backfill(name, since, until, dry_run=True, **options)
        due_times = [due_at for due_at in found if isinstance(due_at, datetime)]
        if dry_run and as_json:
            print_json([format_instant(due_at) for due_at in due_times])
            return
        click.echo(_found(due_times, shown), err=as_json)
        if not due_times and book.catchup.list(name, limit=1):
            told = f"due times are held; to decide about them: duebook catchup approve {name}"
            click.echo(f"note: {told}", err=True)
        if dry_run or (due_times and not yes and not _agreed(len(due_times))):
            return
        runs = book.schedules.backfill(name, since, until, **options) if due_times else list[Run]()
        filled = Filled(name, since, until, _queued_at(runs)) if runs else None
        if as_json and not follow:
            print_json([encode(run) for run in runs if isinstance(run, Run)])
        elif filled is not None:
            click.echo(_queued(filled, len(runs)), err=as_json)
        if follow and filled is not None:
            _report(book, filled, follow, as_json)


def _refuse_mixtures(
    undone_at: str | None, asked_for: str | None, follow: bool, queues: bool
) -> None:
    if undone_at is not None and (queues or follow or asked_for is not None):
        raise click.UsageError("--undo goes with --from, --to and --json only")
    if asked_for is not None and queues:
        raise click.UsageError("--progress goes with --from, --to, --follow and --json only")


def _queued(filled: Filled, number: int) -> str:
    told = f"queued {counted(number, 'run')}; to see them: duebook runs {filled.name}"
    return f"{told}\nto undo: {filled.told('--undo')}"


def _queued_at(runs: Sequence[Run | datetime]) -> str:
    """The instant of a backfill, which identifies it."""
    return next(format_instant(run.ready_at) for run in runs if isinstance(run, Run))


# -- progress


def _report(book: Client, filled: Filled, follow: bool, as_json: bool) -> None:
    """Print the progress once; or follow it on stderr, and then print the result."""
    if follow:
        try:
            found = _follow(book, filled)
        except KeyboardInterrupt:
            click.echo("\nstopped following; the backfill continues", err=True)
            click.echo(f"to follow it: {filled.told('--follow --progress')}", err=True)
            click.echo(f"to stop it: {filled.told('--undo')}", err=True)
            click.get_current_context().exit(INTERRUPTED)
    else:
        found = _progress(book, filled)
    print_json(encode(found)) if as_json else click.echo(progress_line(found))
    if follow and found.succeeded < found.total:
        exit_by("partial" if found.succeeded + found.partial == found.total else "failed")


def _progress(book: Client, filled: Filled) -> BackfillProgress:
    name, since, until, queued_at = filled
    return book.schedules.backfill_progress(name, since, until, queued_at)


def _follow(book: Client, filled: Filled) -> BackfillProgress:
    """On a terminal the line is updated in place; elsewhere each change is a new line."""
    at_terminal = sys.stderr.isatty()
    found, shown, began = _progress(book, filled), "", time.monotonic()
    ended_before = found.ended
    while found.left:
        ended, took = found.ended - ended_before, time.monotonic() - began
        line = progress_line(found, timedelta(seconds=took / ended) if ended else None)
        if at_terminal:
            click.echo(f"{CLEAR_LINE}{line}", err=True, nl=False)
        elif line != shown:
            click.echo(line, err=True)
        shown = line
        time.sleep(POLL)
        found = _progress(book, filled)
    if at_terminal and shown:
        click.echo(CLEAR_LINE, err=True, nl=False)
    return found


def progress_line(found: BackfillProgress, each: timedelta | None = None) -> str:
    """The progress of a backfill; `each`: the time from the end of one run to that of the next."""
    if not found.total:
        return "no runs: there was no backfill of that period at that instant"
    parts = [f"{found.ended} of {counted(found.total, 'run')} ended"]
    states = ("partial", "failed", "cancelled", "running", "queued")
    parts += [f"{number} {status}" for status in states if (number := getattr(found, status))]
    if each is not None and found.left:
        left = timedelta(seconds=round((each * found.left).total_seconds()))
        parts.append(f"about {format_duration(left)} left")
    return ", ".join(parts)


# -- dry runs and undo


def _print_undone(undone: Withdrawn) -> None:
    if undone == Withdrawn(0, 0):
        click.echo("nothing to undo: there was no backfill of that period at that instant")
        return
    left = f"; {counted(undone.begun, 'run')} had already started" if undone.begun else ""
    click.echo(f"cancelled {counted(undone.cancelled, 'run')}{left}")


def _found(due_times: Sequence[datetime], tz: str | None) -> str:
    if not due_times:
        return "nothing to backfill: every due time in that period has a run"
    first, last = when(due_times[0], tz=tz), when(due_times[-1], tz=tz)
    count = counted(len(due_times), "due time")
    return f"{count}\n  first  {first}" + (f"\n  last   {last}" if len(due_times) > 1 else "")


def _agreed(number: int) -> bool:
    """Ask for confirmation; raises UsageError without a terminal."""
    if not _at_terminal():
        raise click.UsageError("cannot ask for confirmation here; add --yes")
    if click.confirm(f"queue {counted(number, 'run')}?", err=True):
        return True
    click.echo("cancelled; nothing was queued", err=True)
    return False


def _at_terminal() -> bool:
    return sys.stdin.isatty()

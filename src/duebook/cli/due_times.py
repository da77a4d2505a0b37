"""The commands that answer about due times, past and to come: explain, preview, backfill."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.book.schedule_reader import MOST_EXPLAINED
from duebook.cli.arguments import count_option, name_argument, read_moment
from duebook.cli.opening import open_book
from duebook.cli.output import WIDEST_STEP, json_option, print_json, when, wrapped
from duebook.cli.times import due_table
from duebook.clock import utc_now
from duebook.errors import NotFound, counted, printable
from duebook.explain import Explanation
from duebook.explain.words import short_id
from duebook.ids import looks_like_prefix
from duebook.model.acted import Withdrawn
from duebook.model.codec import encode
from duebook.model.run import Run
from duebook.timetext import format_instant
from duebook.triggers.zones import local_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.client import Client
    from duebook.model.due_time import DueTime
    from duebook.model.plan import DueException
    from duebook.model.schedule import Schedule

__all__ = ["backfill_command", "explain_command", "preview_command"]


@click.command("explain")
@name_argument
@click.option("--at", metavar="TIME", help="A due time; without an offset, in the schedule's zone.")
@click.option("--from", "start", metavar="INSTANT", help="Every due time from this time …")
@click.option("--to", "end", metavar="INSTANT", help="… to this one. [default: now]")
@click.option("--tz", metavar="ZONE", help="Tell times in this zone. [default: the schedule's]")
@json_option
def explain_command(
    name: str, at: str | None, start: str | None, end: str | None, tz: str | None, as_json: bool
) -> None:
    """Say what became of a due time, and why; or why a time is none.

    With a flow, or a run of one, and no time: what its steps wait for.

    \b
    Examples:
      duebook explain backup --at 2026-03-29T02:30
      duebook explain backup --from 2026-03-28T00:00Z --to 2026-03-30T00:00Z
      duebook explain backup --at 2026-03-29T02:30 --tz America/New_York
      duebook explain etl
    """
    if (at is not None and start is not None) or (end is not None and start is None):
        raise click.UsageError(_HOW)
    with open_book() as book:
        if at is None and start is None:
            _explain_flow(book, name, tz, as_json)
            return
        if at is not None:
            answer = book.schedules.explain(name, at=utc_now() if at == "now" else at, tz=tz)
        else:
            since, until = read_moment(start or "now"), read_moment(end or "now")
            answer = book.schedules.explain(name, start=since, end=until, tz=tz)
        title = "" if as_json else _title(book, name)
    if title:
        click.echo(f"{title} ({name})")
    if isinstance(answer, Explanation):
        print_json(encode(answer)) if as_json else _say(answer.text, 2)
    elif as_json:
        print_json([encode(explanation) for explanation in answer])
    else:
        _print_explanations(answer)


def _title(book: Client, name: str) -> str:
    """What people call it; nothing, of one that is deleted."""
    try:
        spec = book.schedules.get(name).spec
    except NotFound:
        return ""
    return printable(spec.title) if spec else ""


_HOW: Final = "give either --at TIME, or --from INSTANT and --to INSTANT; a flow needs neither"


def _explain_flow(book: Client, name: str, tz: str | None, as_json: bool) -> None:
    """About the newest run of a flow, or about a run."""
    told = book.flows.explain(_run_of(book, name), tz)
    if as_json:
        print_json(encode(told))
        return
    _say(f"{told.flow}, run {short_id(told.run_id)}: {told.text}", 2)
    width = min(max((len(step.step) for step in told.steps), default=0), WIDEST_STEP)
    for step in told.steps:
        name = printable(step.step)
        if len(name) > width:
            click.echo(f"  {name}")
            name = ""
        _say(f"  {name.ljust(width)}  {step.text}", width + 4)
    click.echo(f"times in {told.tz}")


def _run_of(book: Client, name: str) -> str:
    """What NAME without a time means; raises UsageError for a schedule that starts no flow."""
    try:
        runs = book.flows.runs(name, 1)
    except NotFound:
        if looks_like_prefix(name):
            return name
        book.schedules.get(name)
        raise click.UsageError(_HOW) from None
    if not runs:
        raise NotFound(f'flow "{name}" has no run yet; start it: duebook flow start {name}')
    return runs[0].id


def _say(text: str, indent: int) -> None:
    click.echo(wrapped(printable(text), indent))


def _print_explanations(explanations: list[Explanation]) -> None:
    if not explanations:
        click.echo("no due times there")
    clock = "%H:%M:%S" if any(e.at.second for e in explanations) else "%H:%M"
    for explanation in explanations:
        wall = f"{local_datetime(explanation.at, explanation.tz):%a %Y-%m-%d {clock}}"
        _say(f"{wall}  {explanation.text}", len(wall) + 2)
    if explanations:
        click.echo(f"times in {explanations[0].tz}")
    if len(explanations) >= MOST_EXPLAINED:
        last = format_instant(explanations[-1].at)
        click.echo(f"… these are the first {MOST_EXPLAINED:,}; go on with --from {last}")


@click.command("preview")
@name_argument
@count_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of UTC instants.")
def preview_command(name: str, count: int, as_json: bool) -> None:
    """Show the next due times of a schedule, with what was said about single ones.

    Of a flow that is stopped or restarted by its schedule, those times are
    listed and marked too. With --json each is then an object with due_at and kind.
    """
    with open_book() as book:
        due_times = book.schedules.preview(name, count)
        if as_json:
            print_json(_preview_form(due_times))
            return
        schedule, said = book.schedules.get(name), book.schedules.exceptions(name)
    _print_preview(schedule, due_times, said)


def _preview_form(due_times: Sequence[DueTime]) -> list[Any]:
    if all(due_at.kind == "start" for due_at in due_times):
        return [format_instant(due_at) for due_at in due_times]
    return [{"due_at": format_instant(due_at), "kind": due_at.kind} for due_at in due_times]


def _print_preview(
    schedule: Schedule, due_times: Sequence[DueTime], said: list[DueException]
) -> None:
    spec = schedule.spec
    triggers = spec.triggers if spec else ()
    for trigger in triggers:
        click.echo(wrapped(trigger.describe()))
    for verb, others in (("stops", spec.stop), ("restarts", spec.restart)) if spec else ():
        for trigger in others:
            click.echo(wrapped(f"{verb}: {trigger.describe()}"))
    by_hand = {e.due_at: "by hand" for e in said if e.kind == "moved_here"}
    tz = spec.tz if spec else "UTC"
    for line in due_table(triggers, due_times, utc_now().replace(microsecond=0), tz, by_hand):
        click.echo(f"  {line}")
    for exception in said:
        if exception.kind == "skip":
            click.echo(f"  left out by hand: {when(exception.due_at)}")
    if not due_times:
        click.echo("  no due time is to come")
    if schedule.status != "active":
        click.echo(f"note: the schedule is {schedule.status}", err=True)


@click.command("backfill")
@name_argument
@click.option("--from", "start", metavar="INSTANT", required=True, help="The first due time.")
@click.option("--to", "end", metavar="INSTANT", required=True, help="The last; may be `now`.")
@click.option(
    "--reprocess",
    type=click.Choice(["failed", "all"]),
    help="Run due times again that have a run already.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would run.")
@click.option(
    "--undo",
    "queued_at",
    metavar="INSTANT",
    help="Cancel what the backfill of that instant queued, as far as nobody has begun it.",
)
@json_option
def backfill_command(
    name: str,
    start: str,
    end: str,
    yes: bool,
    dry_run: bool,
    queued_at: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Queue runs for past due times that have none; or take such runs back.

    \b
    Examples:
      duebook backfill report --from 2026-03-01T00:00Z --to 2026-03-08T00:00Z
      duebook backfill report --from 2026-03-01T00:00Z --to 2026-03-08T00:00Z \\
        --undo 2026-03-09T08:15:02.113406Z
    """
    since, until = read_moment(start), read_moment(end)
    if queued_at is not None:
        if yes or dry_run or options["reprocess"]:
            raise click.UsageError("--undo goes with --from, --to and --json alone")
        _undo(name, since, until, queued_at, as_json)
        return
    with open_book() as book:
        found = book.schedules.backfill(name, since, until, dry_run=True, **options)
        due_times = [due_at for due_at in found if isinstance(due_at, datetime)]
        if dry_run and as_json:
            print_json([format_instant(due_at) for due_at in due_times])
            return
        click.echo(_filled(due_times), err=as_json)
        if dry_run or (due_times and not yes and not _agreed(len(due_times))):
            return
        runs = book.schedules.backfill(name, since, until, **options) if due_times else list[Run]()
    if as_json:
        print_json([encode(run) for run in runs if isinstance(run, Run)])
    elif runs:
        click.echo(f"queued {counted(len(runs), 'run')}; see: duebook runs {name}")
        span = f"--from {format_instant(since)} --to {format_instant(until)}"
        click.echo(f"to take that back: duebook backfill {name} {span} --undo {_queued_at(runs)}")


def _queued_at(runs: Sequence[Run | datetime]) -> str:
    """When a backfill was, which is what it is known by."""
    return next(format_instant(run.ready_at) for run in runs if isinstance(run, Run))


def _undo(name: str, since: datetime, until: datetime, queued_at: str, as_json: bool) -> None:
    with open_book() as book:
        undone = book.schedules.undo_backfill(name, since, until, queued_at)
    if as_json:
        print_json(asdict(undone))
        return
    if undone == Withdrawn(0, 0):
        click.echo("nothing to take back: no backfill of that range was at that instant")
        return
    left = f"; {counted(undone.begun, 'run')} had begun already" if undone.begun else ""
    click.echo(f"cancelled {counted(undone.cancelled, 'run')}{left}")


def _filled(due_times: Sequence[datetime]) -> str:
    if not due_times:
        return "nothing to fill: every due time there has a run"
    first, last = when(due_times[0]), when(due_times[-1])
    count = counted(len(due_times), "due time")
    return f"{count}\n  first  {first}" + (f"\n  last   {last}" if len(due_times) > 1 else "")


def _agreed(number: int) -> bool:
    """Whether the person at the terminal says yes; raises UsageError when nobody is there."""
    if not _at_terminal():
        raise click.UsageError("nobody can be asked here; give --yes to queue the runs")
    if click.confirm(f"queue {counted(number, 'run')}?", err=True):
        return True
    click.echo("nothing was queued", err=True)
    return False


def _at_terminal() -> bool:
    return sys.stdin.isatty()

"""The commands about due times, past and future: explain and preview."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.book.schedule_reader import MOST_EXPLAINED
from duebook.cli.arguments import count_option, name_argument
from duebook.cli.commands import command
from duebook.cli.instants import read_past
from duebook.cli.opening import open_book
from duebook.cli.output import WIDEST_STEP, json_option, print_json, when, wrapped
from duebook.cli.times import due_table
from duebook.clock import utc_now
from duebook.errors import NotFound, printable
from duebook.explain import Explanation
from duebook.explain.words import short_id
from duebook.ids import looks_like_prefix
from duebook.model.codec import encode
from duebook.timetext import format_instant
from duebook.triggers.zones import local_datetime, zone_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.client import Client
    from duebook.model.due_time import DueTime
    from duebook.model.plan import DueException
    from duebook.model.schedule import Schedule

__all__ = ["explain_command", "preview_command", "zone_of"]


@command("explain")
@name_argument
@click.option(
    "--at",
    metavar="TIME",
    help="One due time: a date or time in the schedule's time zone, an instant with an offset, "
    "2h for 2 hours ago, or now.",
)
@click.option("--from", "start", metavar="TIME", help="Every due time from here …")
@click.option("--to", "end", metavar="TIME", help="… to here. [default: now]")
@click.option("--tz", metavar="ZONE", help="Show times in this zone. [default: the schedule's]")
@json_option
def explain_command(
    name: str, at: str | None, start: str | None, end: str | None, tz: str | None, as_json: bool
) -> None:
    """Explain why a due time did or did not run.

    Also explains why nothing was due at a time. For a flow or one of its runs,
    without a time: what its steps wait for.

    7d means 7 days ago, and a date means the beginning of that day. With --from
    and --to, times without an offset are in the zone that is shown.

    \b
    Examples:
      duebook explain backup --at 2026-03-29T02:30
      duebook explain backup --from 7d
      duebook explain backup --from 2026-03-28 --to 2026-03-30
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
            answer = book.schedules.explain(name, at=_read_at(book, name, at), tz=tz)
        else:
            shown = zone_name(tz) if tz is not None else zone_of(book, name)
            since = read_past("--from", start or "now", shown)
            until = read_past("--to", end or "now", shown)
            answer = book.schedules.explain(name, start=since, end=until, tz=tz)
        title = "" if as_json else _title(book, name)
    if title:
        click.echo(f"{title} ({name})")
    if isinstance(answer, Explanation):
        print_json(encode(answer)) if as_json else _print(answer.text, 2)
    elif as_json:
        print_json([encode(explanation) for explanation in answer])
    else:
        _print_explanations(answer)


def _read_at(book: Client, name: str, text: str) -> str | datetime:
    """A date with a time stays text: it is interpreted in the schedule's zone at that time."""
    if _DAY.fullmatch(text):
        return f"{text}T00:00"
    if _DAY.match(text):
        return text
    return read_past("--at", text, zone_of(book, name))


def zone_of(book: Client, name: str) -> str | None:
    """The zone of a schedule; None (the terminal's) if it is deleted."""
    try:
        spec = book.schedules.get(name).spec
    except NotFound:
        return None
    return spec.tz if spec else None


def _title(book: Client, name: str) -> str:
    """Its title; empty if it is deleted."""
    try:
        spec = book.schedules.get(name).spec
    except NotFound:
        return ""
    return printable(spec.title) if spec else ""


_HOW: Final = "give either --at TIME, or --from TIME and --to TIME; a flow needs neither"
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def _explain_flow(book: Client, name: str, tz: str | None, as_json: bool) -> None:
    """Explain the newest run of a flow, or a run."""
    told = book.flows.explain(_run_of(book, name), tz)
    if as_json:
        print_json(encode(told))
        return
    _print(f"{told.flow}, run {short_id(told.run_id)}: {told.text}", 2)
    width = min(max((len(step.step) for step in told.steps), default=0), WIDEST_STEP)
    for step in told.steps:
        name = printable(step.step)
        if len(name) > width:
            click.echo(f"  {name}")
            name = ""
        _print(f"  {name.ljust(width)}  {step.text}", width + 4)
    click.echo(f"times in {told.tz}")


def _run_of(book: Client, name: str) -> str:
    """The run for NAME without a time; raises UsageError unless it is a flow's run."""
    try:
        runs = book.flows.runs(name, 1)
    except NotFound:
        if looks_like_prefix(name):
            return name
        book.schedules.get(name)
        raise click.UsageError(_HOW) from None
    if not runs:
        raise NotFound(f'flow "{name}" has no runs yet; start it: duebook flow start {name}')
    return runs[0].id


def _print(text: str, indent: int) -> None:
    click.echo(wrapped(printable(text), indent))


def _print_explanations(explanations: list[Explanation]) -> None:
    if not explanations:
        click.echo("no due times in that period")
    clock = "%H:%M:%S" if any(e.at.second for e in explanations) else "%H:%M"
    for explanation in explanations:
        wall = f"{local_datetime(explanation.at, explanation.tz):%a %Y-%m-%d {clock}}"
        _print(f"{wall}  {explanation.text}", len(wall) + 2)
    if explanations:
        click.echo(f"times in {explanations[0].tz}")
    if len(explanations) >= MOST_EXPLAINED:
        last = format_instant(explanations[-1].at)
        click.echo(f"… these are the first {MOST_EXPLAINED:,}; continue with --from {last}")


@command("preview")
@name_argument
@count_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of UTC instants.")
def preview_command(name: str, count: int, as_json: bool) -> None:
    """Show the next due times of a schedule.

    Includes skipped and moved ones. Times at which the schedule stops or restarts
    a flow are listed too, with a mark; --json then prints objects with due_at and
    kind.
    """
    with open_book() as book:
        due_times = book.schedules.preview(name, count)
        if as_json:
            print_json(_preview_form(due_times))
            return
        schedule, exceptions = book.schedules.get(name), book.schedules.exceptions(name)
    _print_preview(schedule, due_times, exceptions)


def _preview_form(due_times: Sequence[DueTime]) -> list[Any]:
    if all(due_at.kind == "start" for due_at in due_times):
        return [format_instant(due_at) for due_at in due_times]
    return [{"due_at": format_instant(due_at), "kind": due_at.kind} for due_at in due_times]


def _print_preview(
    schedule: Schedule, due_times: Sequence[DueTime], exceptions: list[DueException]
) -> None:
    spec = schedule.spec
    triggers = spec.triggers if spec else ()
    for trigger in triggers:
        click.echo(wrapped(trigger.describe()))
    for verb, others in (("stops", spec.stop), ("restarts", spec.restart)) if spec else ():
        for trigger in others:
            click.echo(wrapped(f"{verb}: {trigger.describe()}"))
    moved = {e.due_at: "moved" for e in exceptions if e.kind == "moved_here"}
    tz = spec.tz if spec else "UTC"
    for line in due_table(triggers, due_times, utc_now().replace(microsecond=0), tz, moved):
        click.echo(f"  {line}")
    for exception in exceptions:
        if exception.kind == "skip":
            click.echo(f"  skipped: {when(exception.due_at)}")
    if not due_times:
        click.echo("  no more due times")
    if schedule.status != "active":
        click.echo(f"note: the schedule is {schedule.status}", err=True)

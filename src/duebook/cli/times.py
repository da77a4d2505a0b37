"""The commands `next` and `describe`, which explain a trigger without a database."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.arguments import count_option
from duebook.cli.commands import command
from duebook.cli.instants import read_future
from duebook.cli.output import wrapped
from duebook.cli.trigger_options import build_trigger, trigger_options
from duebook.clock import utc_now
from duebook.errors import Invalid, InvalidTrigger, shorten
from duebook.timetext import format_instant, format_time, relative
from duebook.triggers.moves import moved_walls
from duebook.triggers.zones import local_datetime, zone_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duebook.triggers import Trigger

__all__ = ["describe_command", "due_table", "next_command"]

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")


@command("next")
@trigger_options()
@click.option(
    "--after",
    metavar="TIME",
    help="Start here: an instant, or a date in the trigger's zone. [default: now]",
)
@count_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of UTC instants.")
def next_command(after: str | None, count: int, as_json: bool, **options: Any) -> None:
    """Show the next due times of a cron expression or trigger.

    For a stored schedule, use duebook preview.

    \b
    Examples:
      duebook next "30 2 * * *" --tz America/New_York --count 3
      duebook next "CRON_TZ=Europe/Brussels 0 9 * * MON-FRI" --json
      duebook next --every 15m --anchor 2026-01-01T00:00:00Z
      duebook next --daily 07:00,17:30 --tz Asia/Kathmandu
      duebook next --weekly "MON,FRI 09:00" --after 2026-03-28T00:00:00Z
      duebook next --rrule "FREQ=MONTHLY;BYDAY=-1FR" --dtstart 2026-01-01
    """
    trigger = _trigger(options, "preview")
    tz = zone_name(getattr(trigger, "tz", "UTC") if options["tz"] is None else options["tz"])
    start = utc_now().replace(microsecond=0) if after is None else read_future("--after", after, tz)
    due_times = trigger.between(start, datetime.max.replace(tzinfo=UTC), count)
    if as_json:
        click.echo(json.dumps([format_instant(due) for due in due_times]))
        return
    click.echo(wrapped(trigger.describe()))
    for line in due_table((trigger,), due_times, start, tz):
        click.echo(f"  {line}")
    if not due_times:
        click.echo(f"  no due times after {format_instant(start)}")


@command("describe")
@trigger_options()
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: description, trigger and warnings."
)
def describe_command(as_json: bool, **options: Any) -> None:
    """Explain a cron expression or trigger in words.

    Also warns about surprises. For a stored schedule, use duebook show.

    \b
    Examples:
      duebook describe "*/15 9-17 * * MON-FRI" --tz Europe/Brussels
      duebook describe "H 2 * * *" --key nightly-backup
      duebook describe --weekly "SUN 02:30" --tz America/New_York --json
    """
    trigger = _trigger(options, "show")
    warnings = trigger.warnings()
    if as_json:
        form = {
            "description": trigger.describe(),
            "trigger": trigger.to_json(),
            "warnings": [{"code": w.code, "text": w.text} for w in warnings],
        }
        click.echo(json.dumps(form, indent=2, ensure_ascii=False))
        return
    click.echo(wrapped(trigger.describe()))
    for warning in warnings:
        click.echo(wrapped(f"warning: {warning}"))


def _trigger(options: dict[str, Any], instead: str) -> Trigger:
    """The trigger; raises Invalid with the command to use `instead` for a schedule's name."""
    try:
        return build_trigger(options)
    except InvalidTrigger:
        text = options["expression"] or ""
        if not _NAME.fullmatch(text):
            raise
        told = f'"{shorten(text)}" is not a cron expression; if it is a schedule: '
        raise Invalid(f"{told}duebook {instead} {text}") from None


def due_table(
    triggers: Sequence[Trigger],
    due_times: Sequence[datetime],
    start: datetime,
    tz: str,
    notes: Mapping[datetime, str] = MappingProxyType({}),
) -> list[str]:
    """One line per due time: wall time, UTC, distance, and a note, such as the wall time from which
    a gap moved it.

    `notes` are other notes; they take precedence.
    """
    clock = "%H:%M:%S" if any(due.second for due in due_times) else "%H:%M"
    moved = moved_walls(triggers, start, due_times[-1]) if due_times else {}
    shown_notes = {due: f"moved from {format_time(wall)}" for due, wall in moved.items()}
    shown_notes |= notes
    rows = []
    for due in due_times:
        wall = local_datetime(due, tz)
        shown = [f"{wall:%a %Y-%m-%d {clock}} {'UTC' if tz == 'UTC' else _offset(wall)}"]
        if tz != "UTC":
            shown.append(f"{due:%Y-%m-%d {clock}Z}")
        kind = getattr(due, "kind", "start")
        note = shown_notes.get(due, "") if kind == "start" else kind
        rows.append([*shown, relative(due - start), note])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _offset(wall: datetime) -> str:
    """+01:00; with seconds for local mean time."""
    return wall.isoformat(timespec="seconds")[19:]

"""The commands about shadow mode: on, off, ls, report."""

from __future__ import annotations

import csv
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from duebook.cli.arguments import read_pair
from duebook.cli.commands import group
from duebook.cli.instants import read_future, read_past
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table
from duebook.client.shadow import MOST_REPORTED
from duebook.clock import utc_now
from duebook.errors import Invalid, NotFound, counted, printable, shorten
from duebook.model.codec import encode
from duebook.model.shadow import Compared, compare
from duebook.timetext import format_duration, format_instant, parse_duration, parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime, timedelta
    from typing import Any

    from duebook.client import Client


__all__ = ["shadow_group"]


@group("shadow")
def shadow_group() -> None:
    """Plan and record due times without running anything.

    For trying Duebook beside your current scheduler.
    """


def _selecting(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        json_option,
        click.option("--at", metavar="TIME", help="From this due time on. [default: now]"),
        click.option(
            "--label", "labels", metavar="NAME=VALUE", multiple=True, help="Only these; repeatable."
        ),
        click.argument("schedule", required=False, default=""),
    ):
        function = option(function)
    return function


@shadow_group.command("on")
@_selecting
def on_command(schedule: str, labels: tuple[str, ...], at: str | None, as_json: bool) -> None:
    """Record due times from now on instead of running them.

    Without SCHEDULE and --label, applies to all schedules in the namespace, also to
    those added later. Existing runs continue.

    \b
    Examples:
      duebook shadow on
      duebook shadow on --label wave=2 --at 2027-03-01T20:00:00Z
    """
    _switch(True, schedule, labels, at, as_json)


@shadow_group.command("off")
@_selecting
def off_command(schedule: str, labels: tuple[str, ...], at: str | None, as_json: bool) -> None:
    """Run due times from now on.

    Earlier due times do not run. Without SCHEDULE and --label, applies to all
    schedules in the namespace.

    \b
    Examples:
      duebook shadow off --label canary=yes
      duebook shadow off report --at 2027-03-01T20:00:00Z
    """
    _switch(False, schedule, labels, at, as_json)


def _switch(
    shadow: bool, schedule: str, labels: tuple[str, ...], at: str | None, as_json: bool
) -> None:
    wanted = dict(read_pair(item, "--label") for item in labels)
    begins = None if at is None else read_future("--at", at)
    with open_book(create=shadow) as book:  # it may be the first command on a database
        act = book.shadow.on if shadow else book.shadow.off
        switch = act(schedule, wanted, begins)
        is_known = not schedule or _exists(book, schedule)
    if as_json:
        print_json(encode(switch))
    else:
        does = "are recorded, not run" if shadow else "run"
        click.echo(f"from {format_instant(switch.at)} on, due times of {switch.selected} {does}")
    if not is_known:
        click.echo(printable(f'note: schedule "{schedule}" does not exist yet'), err=True)


def _exists(book: Client, schedule: str) -> bool:
    with suppress(NotFound):
        book.schedules.get(schedule)
        return True
    return False


@shadow_group.command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List when shadow mode was turned on and off.

    Of the lines that select a schedule, the latest before a due time counts.
    """
    with open_book() as book:
        switches = book.shadow.list()
    if as_json:
        print_json([encode(switch) for switch in switches])
    elif switches:
        rows = [(format_instant(s.at), "on" if s.shadow else "off", s.selected) for s in switches]
        print_table(("FROM", "SHADOW", "FOR"), rows)
    else:
        click.echo("shadow mode was never on; to turn it on: duebook shadow on")


@shadow_group.command("report")
@click.option(
    "--from", "start", metavar="TIME", default="1d", show_default=True, help="Due since then."
)
@click.option("--to", "end", metavar="TIME", help="Due until then. [default: now]")
@click.option(
    "--compare",
    "other",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Compare with lines of SCHEDULE,TIME from the other scheduler; exit 1 if they differ.",
)
@click.option(
    "--within",
    metavar="DURATION",
    default="1m",
    show_default=True,
    help="With --compare: how far apart two times may be.",
)
@json_option
def report_command(
    start: str, end: str | None, other: Path | None, within: str, as_json: bool
) -> None:
    """List what would have run, and when.

    \b
    Examples:
      duebook shadow report --from 1d
      duebook shadow report --from 7d --compare old-runs.csv --within 30s
    """
    since = read_past("--from", start)
    until = utc_now() if end is None else read_past("--to", end)
    tolerance = _tolerance(within)
    theirs = None if other is None else _read(other, since, until)
    with open_book() as book:
        found = book.shadow.report(since, until, MOST_REPORTED)
    if theirs is not None:
        _print_compared(compare(found, theirs, tolerance), tolerance, as_json)
    elif as_json:
        print_json([encode(run) for run in found])
    elif found:
        rows = [
            (format_instant(r.due_at), r.schedule, format_instant(r.planned_at), r.origin)
            for r in found
        ]
        print_table(("DUE", "SCHEDULE", "WOULD START", "ORIGIN"), rows, shrinks=1)
    else:
        click.echo("shadow mode recorded nothing in that time")
    if len(found) == MOST_REPORTED:
        click.echo(f"these are the first {MOST_REPORTED:,}; choose a later --from", err=True)


def _tolerance(within: str) -> timedelta:
    try:
        return parse_duration(within)
    except Invalid as error:
        raise Invalid(f"--within: {error}") from None


def _read(path: Path, since: datetime, until: datetime) -> list[tuple[str, datetime]]:
    """The runs of the other scheduler in that period; raises Invalid."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise Invalid(f"{path} cannot be read: {shorten(str(error), 200)}") from error
    return [(name, at) for name, at in _rows(str(path), text) if since <= at <= until]


def _rows(place: str, text: str) -> Iterator[tuple[str, datetime]]:
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row or row == ["schedule", "time"]:
            continue
        wrong = f"{place}, line {number}: use SCHEDULE,TIME, such as report,2027-03-01T09:00:00Z"
        if len(row) != 2:
            raise Invalid(f"{wrong}; it has {counted(len(row), 'field')}")
        try:
            yield row[0].strip(), parse_instant(row[1].strip())
        except ValueError as error:
            raise Invalid(f"{wrong}: {shorten(str(error), 100)}") from error


def _print_compared(found: list[Compared], tolerance: timedelta, as_json: bool) -> None:
    differing = [one for one in found if one.verdict != "both"]
    if as_json:
        print_json([encode(one) for one in found])
    else:
        if differing:
            rows = [
                (one.verdict, one.schedule, _told(one.ours), _told(one.theirs)) for one in differing
            ]
            print_table(("ONLY IN", "SCHEDULE", "DUEBOOK", "OTHER"), rows, shrinks=1)
        same = counted(len(found) - len(differing), "time")
        click.echo(
            f"{same} in both, within {format_duration(tolerance)}; {len(differing):,} differ"
        )
    if differing:
        click.get_current_context().exit(1)


def _told(at: datetime | None) -> str:
    return "" if at is None else format_instant(at)

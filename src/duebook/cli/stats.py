"""The command that shows statistics of a schedule's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from duebook.cli.arguments import name_argument
from duebook.cli.commands import command
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_pairs, print_table, when
from duebook.errors import counted
from duebook.model.codec import encode
from duebook.web.times import length_text

if TYPE_CHECKING:
    from datetime import timedelta

    from duebook.model.statistics import Figures, Statistics

__all__ = ["stats_command"]

MOST_DAYS: Final = 14
"""Days that are printed; --json prints all."""


@command("stats")
@name_argument
@click.option("--tz", metavar="ZONE", help="Show days in this zone. [default: the schedule's]")
@json_option
def stats_command(name: str, tz: str | None, as_json: bool) -> None:
    """Show success rate, durations and lateness of a schedule.

    Based on its newest 1,000 runs, in total and by day. The dashboard shows the
    same on the schedule's performance page.

    \b
    Examples:
      duebook stats backup
      duebook stats backup --tz America/New_York --json
    """
    with open_book() as book:
        found = book.schedules.statistics(name, tz)
    if as_json:
        print_json(encode(found))
    elif not found.total.runs:
        click.echo(f"{found.schedule} has no runs yet")
    else:
        _print(found)


def _print(found: Statistics) -> None:
    total = found.total
    since = f", since {when(found.since, tz=found.tz)}" if found.since else ""
    took = (total.median_duration, total.p95_duration, total.longest_duration)
    late = (total.median_lateness, total.p95_lateness, total.highest_lateness)
    partial = f"{total.partial:,} partial, " if total.partial else ""
    rest = f"{partial}{total.failed:,} failed, {total.cancelled:,} cancelled"
    ends = f"{total.succeeded:,} succeeded, {rest}"
    print_pairs(
        [
            ("schedule", found.schedule),
            ("runs", f"{counted(total.runs, 'run')}{since}"),
            ("ended", ends),
            ("success rate", _rate(total)),
            ("last success", when(found.last_success_at, tz=found.tz)),
            ("duration", _lengths(*took)),
            ("lateness", _lengths(*late)),
        ]
    )
    click.echo()
    head = (f"DAY ({found.tz})", "RUNS", "FAILED", "SUCCESS", "MEDIAN", "P95", "LATENESS P95")
    rows = [(day.day.isoformat(), *_row(day.figures)) for day in found.days[:MOST_DAYS]]
    print_table(head, rows)
    if len(found.days) > MOST_DAYS:
        click.echo(f"{counted(len(found.days) - MOST_DAYS, 'earlier day')} with --json")


def _row(figures: Figures) -> tuple[str, ...]:
    lengths = (figures.median_duration, figures.p95_duration, figures.p95_lateness)
    return (f"{figures.runs:,}", f"{figures.failed:,}", _rate(figures), *map(_length, lengths))


def _rate(figures: Figures) -> str:
    return "-" if figures.success_rate is None else f"{figures.success_rate:.0%}"


def _length(length: timedelta | None) -> str:
    return "-" if length is None else length_text(length)


def _lengths(median: timedelta | None, p95: timedelta | None, most: timedelta | None) -> str:
    return f"median {_length(median)}, p95 {_length(p95)}, highest {_length(most)}"

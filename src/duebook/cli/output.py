"""Formats results: tables that fit the terminal, times with zone and distance, JSON."""

from __future__ import annotations

import json
import re
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.terminal import painted, prose_width, table_width
from duebook.clock import utc_now
from duebook.errors import printable
from duebook.timetext import relative
from duebook.triggers.zones import local_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.client import Client
    from duebook.flows.problems import Problem
    from duebook.model.run import Run

__all__ = [
    "WIDEST_STEP",
    "cut",
    "json_option",
    "print_json",
    "print_pairs",
    "print_problem",
    "print_runs",
    "print_table",
    "progress_words",
    "run_name",
    "took",
    "when",
    "wrapped",
]

LEAST: Final = 12
"""Minimum width of the last column."""
NAME: Final = 15
"""Minimum width of names."""
WIDEST_STEP: Final = 24
"""Maximum width of a step's name that shares its line with others."""

RETRIES_NOTE: Final = (
    "retries: 3 runs a step at most 4 times; --retry 3 of duebook add runs at most 3 times"
)
_RETRIES: Final = re.compile(r"\.(retry|retries|retry_policy)(\.limit)?$")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    shrinks: int | None = None,
    states: int | None = None,
) -> None:
    """Columns are as wide as they need to be; on a terminal, the column `shrinks` and the last one
    are cut to fit. The column `states` is coloured."""
    cells = [list(head), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head) - 1)]
    limit = table_width()
    if limit is not None and shrinks is not None:
        room = limit - LEAST - sum(width + 2 for width in widths)
        widths[shrinks] = min(max(widths[shrinks] + min(room, 0), NAME), widths[shrinks])
    for number, row in enumerate(cells):
        texts = [fit(cell, width) for cell, width in zip(row, widths, strict=False)]
        left = None if limit is None else max(limit - sum(width + 2 for width in widths), LEAST)
        texts.append(row[-1] if left is None else cut(row[-1], left))
        if states is not None and number:
            texts[states] = painted(texts[states])
        click.echo("  ".join(texts).rstrip())


def fit(text: str, width: int) -> str:
    """Cut or padded to exactly this width."""
    return cut(text, width).ljust(width)


def print_pairs(pairs: Sequence[tuple[str, str]], state: str = "") -> None:
    """Names and values, with long values wrapped and empty ones left out. The value of `state` is
    coloured."""
    width = max((len(name) for name, value in pairs if value), default=0)
    for name, value in pairs:
        if value and name == state:
            click.echo(f"{name.ljust(width)}  {painted(printable(value))}")
        elif value:
            text = f"{name.ljust(width)}  {printable(value)}"
            click.echo(wrapped(text, indent=width + 2) if len(text) > prose_width() else text)


def wrapped(text: str, indent: int = 2) -> str:
    """Lines that fit; words are not split, because they may be paths or ids."""
    return fill(
        text,
        prose_width(),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_problem(problem: Problem, err: bool = False) -> None:
    """Print a problem in a file, and its line with a mark."""
    lines = [str(problem), *problem.excerpt(prose_width())]
    if _RETRIES.search(problem.key):
        lines.append(f"  {RETRIES_NOTE}")
    for line in lines:
        click.echo(printable(line), err=err)


def print_runs(book: Client, runs: list[Run]) -> None:
    """Print runs as a table, newest first."""
    rows, now, short = [], utc_now(), book.runs.short_ids(runs)
    for run in runs:
        started = relative(run.started_at - now) if run.started_at else ""
        why = run.why or progress_words(run)
        status = run.state if run.attempt < 2 else f"{run.state} ({run.attempt} attempts)"
        rows.append((short[run.id], run_name(run), status, started, took(run), why))
    head = ("RUN", "SCHEDULE", "STATUS", "STARTED", "TOOK", "REASON")
    print_table(head, rows, shrinks=1, states=2)


def took(run: Run) -> str:
    """The duration of a run that has ended."""
    if run.started_at and run.finished_at:
        return f"{(run.finished_at - run.started_at).total_seconds():.1f} s"
    return ""


def run_name(run: Run) -> str:
    """What it runs: a schedule, the step of a flow, a flow or a task."""
    if run.flow is not None and run.parent_run_id is not None:
        before = f"{run.trigger.removeprefix(f'flow:{run.flow}:')} (earlier)"
        return f"{run.flow}: {run.step or before}"
    return run.schedule or run.flow or run.task or "-"


def progress_words(run: Run) -> str:
    """The progress that a running run reported."""
    if run.status != "running" or run.progress is None:
        return ""
    return f"{run.progress:.0%} {run.progress_text or ''}".rstrip()


def when(moment: datetime | None, now: datetime | None = None, tz: str | None = None) -> str:
    """A time and its distance from now, in the terminal's zone or `tz`."""
    if moment is None:
        return "-"
    current = now or utc_now()
    local, here = (_local(each, tz) for each in (moment, current))
    day = "" if local.date() == here.date() else f"{local:%Y-%m-%d} "
    distance = relative(moment - current.replace(microsecond=moment.microsecond))
    return f"{day}{local:%H:%M:%S} {tz or local.tzname()} ({distance})"


def _local(moment: datetime, tz: str | None) -> datetime:
    return moment.astimezone() if tz is None else local_datetime(moment, tz)


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"

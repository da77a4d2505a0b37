"""How results look: tables that fit 80 columns, times with zone and distance, JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from duebook.clock import utc_now
from duebook.errors import printable
from duebook.timetext import relative

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.run import Run

__all__ = ["cut", "json_option", "print_json", "print_pairs", "print_runs", "print_table", "when"]

WIDTH = 80

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they need to be; the last one is cut to fit."""
    cells = [list(head), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head) - 1)]
    for row in cells:
        line = "".join(cell.ljust(width + 2) for cell, width in zip(row, widths, strict=False))
        click.echo((line + cut(row[-1], max(WIDTH - len(line), 10))).rstrip())


def print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Name and value, a line each; empty values are left out."""
    width = max((len(name) for name, value in pairs if value), default=0)
    for name, value in pairs:
        if value:
            click.echo(f"{name.ljust(width)}  {printable(value)}")


def print_runs(runs: list[Run]) -> None:
    """Runs as a table, the newest first."""
    rows, now = [], utc_now()
    for run in runs:
        took = ""
        if run.started_at and run.finished_at:
            took = f"{(run.finished_at - run.started_at).total_seconds():.1f} s"
        started = relative(run.started_at - now) if run.started_at else ""
        why = run.error or run.reason or ""
        status = run.status if run.attempt < 2 else f"{run.status} (attempt {run.attempt})"
        rows.append((run.id, run.schedule or "-", status, started, took, why))
    print_table(("RUN", "SCHEDULE", "STATUS", "STARTED", "TOOK", "WHY"), rows)


def when(moment: datetime | None, now: datetime | None = None) -> str:
    """A time in the reader's zone with the relative form."""
    if moment is None:
        return "-"
    current = now or utc_now()
    local = moment.astimezone()
    day = "" if local.date() == current.astimezone().date() else f"{local:%Y-%m-%d} "
    distance = relative(moment - current.replace(microsecond=moment.microsecond))
    return f"{day}{local:%H:%M:%S} {local.tzname()} ({distance})"


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"

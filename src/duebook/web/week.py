"""A week as a table: a row for each hour of the day, a column for each day; pure."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.errors import counted
from duebook.lazy_dataclasses import dataclass
from duebook.triggers.zones import local_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from duebook.model.insight import HourLoad

__all__ = ["Cell", "WeekTable", "fullest", "levelled", "week_table"]

DAYS: Final = 7
FULLEST: Final = 5
HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Cell:
    """An hour of wall time; one that occurs twice counts both times."""

    runs: int = 0
    failed: int = 0
    busy: timedelta = timedelta()
    level: int = 0
    """0 for no runs, otherwise 1 to 5 relative to the busiest cell"""
    hour: datetime | None = None
    """when it starts"""

    @property
    def short(self) -> str:
        """At most four characters."""
        if self.runs < 10_000:
            return str(self.runs)
        return f"{self.runs // 1000}k" if self.runs < 1_000_000 else f"{self.runs // 1_000_000}M"

    @property
    def words(self) -> str:
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"{counted(self.runs, 'run')}{failed}, {self.busy / HOUR:.1f} workers busy"


@dataclass(frozen=True, slots=True)
class WeekTable:
    """A week as a page shows it."""

    days: Sequence[date]
    rows: Sequence[Sequence[Cell]]
    """24 rows, each with a cell for each day"""
    totals: Sequence[int]


def week_table(loads: Sequence[HourLoad], first: date, zone: str) -> WeekTable:
    """The hours of seven days from `first` on, in the viewer's zone."""
    days = [first + timedelta(days=number) for number in range(DAYS)]
    found: dict[tuple[date, int], Cell] = {}
    for load in loads:
        wall = local_datetime(load.hour, zone)
        known = found.get((wall.date(), wall.hour), Cell())
        found[wall.date(), wall.hour] = Cell(
            known.runs + load.runs,
            known.failed + load.failed,
            known.busy + load.busy,
            hour=min(known.hour or load.hour, load.hour),
        )
    most = max((cell.runs for cell in found.values()), default=0)
    rows = [[levelled(found.get((day, hour)), most) for day in days] for hour in range(24)]
    return WeekTable(days, rows, [sum(row[n].runs for row in rows) for n in range(DAYS)])


def levelled(cell: Cell | None, most: int) -> Cell:
    """The cell with its level, relative to the busiest cell."""
    if cell is None or not cell.runs:
        return Cell()
    level = min(1 + int(4 * math.sqrt(cell.runs / most)), 5)
    return replace(cell, level=level)


def fullest(loads: Sequence[HourLoad]) -> list[HourLoad]:
    """The hours with the most runs."""
    return sorted(loads, key=lambda load: (-load.runs, load.hour))[:FULLEST]

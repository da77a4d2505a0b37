"""Counts the runs and failures of a schedule by day and hour; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.triggers.zones import local_datetime
from duebook.web.week import Cell, levelled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from duebook.model.insight import RunMark
    from duebook.web.times import Clock

__all__ = ["DAYS", "heat_map"]

DAYS: Final = 14


def heat_map(marks: Sequence[RunMark], clock: Clock) -> list[tuple[date, list[Cell]]]:
    """The last days, newest first, each with 24 hours in the viewer's time zone."""
    today = local_datetime(clock.now, clock.zone).date()
    found: dict[tuple[date, int], Cell] = {}
    for mark in marks:
        wall = local_datetime(mark.at, clock.zone)
        if wall.date() <= today - timedelta(days=DAYS):
            continue
        known = found.get((wall.date(), wall.hour), Cell())
        hour = mark.at.replace(minute=0, second=0, microsecond=0)
        found[wall.date(), wall.hour] = Cell(
            known.runs + 1,
            known.failed + (mark.status == "failed"),
            known.busy + (mark.took or timedelta()),
            hour=min(known.hour or hour, hour),
        )
    most = max((cell.runs for cell in found.values()), default=0)
    days = sorted({day for day, _ in found}, reverse=True)
    return [(day, [levelled(found.get((day, hour)), most) for hour in range(24)]) for day in days]

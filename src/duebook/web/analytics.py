"""What the runs of a schedule say about it: lateness, percentiles of duration, success; pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.model.run import lateness
from duebook.triggers.zones import local_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from duebook.model.insight import RunMark

__all__ = ["Day", "Figures", "by_day", "figures"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a number of runs; a length is None when nothing tells it."""

    runs: int
    succeeded: int
    failed: int
    cancelled: int
    median: timedelta | None
    p95: timedelta | None
    longest: timedelta | None
    late_median: timedelta | None
    late_p95: timedelta | None
    late_most: timedelta | None

    @property
    def success(self) -> float | None:
        """Of those that ended by themselves."""
        ended = self.succeeded + self.failed
        return self.succeeded / ended if ended else None


@dataclass(frozen=True, slots=True)
class Day:
    """The runs of a day in the viewer's zone."""

    day: date
    figures: Figures


def figures(marks: Sequence[RunMark]) -> Figures:
    took = sorted(mark.took for mark in marks if mark.took is not None)
    late = sorted(
        found
        for mark in marks
        if mark.origin == "schedule" and (found := lateness(mark, mark.planned_at)) is not None
    )
    states = [mark.status for mark in marks]
    return Figures(
        len(marks),
        states.count("succeeded"),
        states.count("failed"),
        states.count("cancelled"),
        _at(took, 0.5),
        _at(took, 0.95),
        took[-1] if took else None,
        _at(late, 0.5),
        _at(late, 0.95),
        late[-1] if late else None,
    )


def _at(ordered: Sequence[timedelta], share: float) -> timedelta | None:
    """The smallest value that so large a share does not exceed."""
    if not ordered:
        return None
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def by_day(marks: Sequence[RunMark], zone: str) -> list[Day]:
    """The newest day first."""
    days: dict[date, list[RunMark]] = defaultdict(list)
    for mark in marks:
        days[local_datetime(mark.at, zone).date()].append(mark)
    return [Day(day, figures(found)) for day, found in sorted(days.items(), reverse=True)]

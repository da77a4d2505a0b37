"""Statistics of the runs of a schedule: lateness, percentiles of duration, success; pure."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Name, Shown, shown
from duebook.model.run import lateness
from duebook.triggers.zones import local_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.insight import RunMark

__all__ = ["MEASURED", "DayFigures", "Figures", "Statistics", "by_day", "figures", "measure"]

MEASURED: Final = 1_000
"""How many of the newest runs of a schedule its statistics cover."""


@shown("RunFigures")
@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a number of runs; a duration is null if no run has one."""

    runs: int
    succeeded: int
    partial: int
    failed: int
    cancelled: int
    median_duration: Annotated[timedelta | None, Shown("In seconds, as all durations here.")]
    p95_duration: timedelta | None
    longest_duration: timedelta | None
    median_lateness: Annotated[
        timedelta | None, Shown("From a live due time, including its jitter, to the start.")
    ]
    p95_lateness: timedelta | None
    highest_lateness: timedelta | None

    @property
    def success_rate(
        self,
    ) -> Annotated[
        float | None, Shown("Of the runs that succeeded, ended partial or failed.", example=0.98)
    ]:
        ended = self.succeeded + self.partial + self.failed
        return self.succeeded / ended if ended else None


@shown("DayFigures")
@dataclass(frozen=True, slots=True)
class DayFigures:
    """Figures of the runs of one day."""

    day: Annotated[
        date,
        Shown(write=date.isoformat, read=date.fromisoformat, json=str, format="date"),
    ]
    figures: Figures


@shown("Statistics")
@dataclass(frozen=True, slots=True)
class Statistics:
    """How the newest runs of a schedule went, up to 1,000 of them."""

    schedule: Name
    tz: Annotated[str, Shown("The time zone of the days.", example="Europe/Brussels")]
    since: Annotated[datetime | None, Shown("When the oldest of these runs was due or created.")]
    last_success_at: Annotated[datetime | None, Shown("When the latest success finished.")]
    last_duration: Annotated[timedelta | None, Shown("Of the latest finished run, in seconds.")]
    last_lateness: Annotated[
        timedelta | None, Shown("Of the latest live due time that started, in seconds.")
    ]
    total: Figures
    days: Annotated[tuple[DayFigures, ...], Shown("The newest first.")]


def measure(schedule: str, marks: Sequence[RunMark], zone: str) -> Statistics:
    """The statistics of runs, which are given oldest first."""
    ended = [mark.finished_at for mark in marks if mark.status == "succeeded" and mark.finished_at]
    took = [mark.took for mark in marks if mark.took is not None]
    late = _lateness(marks)
    return Statistics(
        schedule,
        zone,
        marks[0].at if marks else None,
        max(ended, default=None),
        took[-1] if took else None,
        late[-1] if late else None,
        figures(marks),
        tuple(by_day(marks, zone)),
    )


def figures(marks: Sequence[RunMark]) -> Figures:
    took = sorted(mark.took for mark in marks if mark.took is not None)
    late = sorted(_lateness(marks))
    states = [mark.status for mark in marks]
    return Figures(
        len(marks),
        states.count("succeeded"),
        states.count("partial"),
        states.count("failed"),
        states.count("cancelled"),
        _at(took, 0.5),
        _at(took, 0.95),
        took[-1] if took else None,
        _at(late, 0.5),
        _at(late, 0.95),
        late[-1] if late else None,
    )


def _lateness(marks: Sequence[RunMark]) -> list[timedelta]:
    """How late those runs started that were started by live due times."""
    found = (lateness(mark, mark.planned_at) for mark in marks if mark.origin == "schedule")
    return [late for late in found if late is not None]


def _at(ordered: Sequence[timedelta], share: float) -> timedelta | None:
    """The smallest value that at least this share does not exceed."""
    if not ordered:
        return None
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def by_day(marks: Sequence[RunMark], zone: str) -> list[DayFigures]:
    """The newest day first."""
    days: dict[date, list[RunMark]] = defaultdict(list)
    for mark in marks:
        days[local_datetime(mark.at, zone).date()].append(mark)
    return [DayFigures(day, figures(found)) for day, found in sorted(days.items(), reverse=True)]

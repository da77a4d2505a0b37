"""How other days of a calendar change the due times of schedules that use it; pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.errors import OverBudget
from duebook.model.calendar import MovedDueTimes
from duebook.model.calendar_days import FIRST_DAY, LAST_DAY
from duebook.planner import (
    ROLL_REACH,
    DueTimes,
    count_edit,
    instant_before,
    plan_edit,
    upcoming_after,
)
from duebook.triggers.zones import day_start, local_datetime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import date, datetime

    from duebook.budget import Budget
    from duebook.model.calendar_days import DaySet
    from duebook.model.calendar_use import CalendarUse
    from duebook.model.plan import Snapshot
    from duebook.model.schedule import ScheduleSpec

__all__ = ["END", "Compared", "compare_all"]

MOST_LOOKED_AT: Final = 100_000
"""Ranges of days and due times that are compared for all schedules,"""
LEAST_LOOKED_AT: Final = 500
"""and at least for each of them, however many there are."""
MOST_LISTED: Final = 500
END: Final = day_start(LAST_DAY, "UTC")
_DAY: Final = timedelta(days=1)


class Compared(NamedTuple):
    """The changed due times of all schedules."""

    moved: tuple[MovedDueTimes, ...]
    number: int
    """how many schedules were compared"""
    until: datetime
    """the instant up to which due times were compared"""


def compare_all(
    snapshots: Sequence[Snapshot],
    renew: Callable[[ScheduleSpec], ScheduleSpec],
    now: datetime,
    budget: Budget | None,
) -> Compared:
    """Compare until the budget is used up; `renew` gives definitions the other days."""
    most = max(MOST_LOOKED_AT // max(len(snapshots), 1), LEAST_LOOKED_AT)
    moved: list[MovedDueTimes] = []
    number, until = 0, END
    for snapshot in snapshots:
        try:
            told, compared_until = _compare(snapshot, renew(snapshot.spec), now, most, budget)
        except OverBudget:
            break
        number, until = number + 1, min(until, compared_until)
        if told.gone or told.new:
            moved.append(told)
    moved.sort(key=lambda told: told.schedule)
    return Compared(tuple(moved), number, until)


def _compare(
    snapshot: Snapshot, renewed: ScheduleSpec, now: datetime, most: int, budget: Budget | None
) -> tuple[MovedDueTimes, datetime]:
    """The due times that disappear and appear, and the instant up to which they were compared;
    looks only near days that the calendar gains or loses."""
    spec = count_edit(snapshot, renewed, now)
    carried = (e for e in plan_edit(snapshot, spec, now).said if e.kind == "moved_here")
    after = replace(snapshot, spec=spec, exceptions=(*snapshot.exceptions, *carried))
    both = [DueTimes.of(of, now, budget) for of in (snapshot, after)]
    place = upcoming_after(snapshot, now)
    gone: list[datetime] = []
    new: list[datetime] = []
    looked_at = 0
    for first, end in _stretches(snapshot.spec, spec, now):
        span = max(instant_before(first), place), instant_before(end)
        was, will = (list(islice(due.among(*span), most)) for due in both)
        last = min((times[-1] for times in (was, will) if len(times) == most), default=span[1])
        gone += sorted(at for at in set(was).difference(will) if at <= last)
        new += sorted(at for at in set(will).difference(was) if at <= last)
        looked_at += 1 + len(was) + len(will)
        if last < span[1] or looked_at >= most or len(gone) + len(new) >= MOST_LISTED:
            told = MovedDueTimes(snapshot.name, tuple(gone), tuple(new))
            return told, last.replace(microsecond=0)
    return MovedDueTimes(snapshot.name, tuple(gone), tuple(new)), END


def _stretches(
    was: ScheduleSpec, becomes: ScheduleSpec, now: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """The spans in which due times may differ, in order."""
    use, other = was.calendar, becomes.calendar
    if use is None or other is None or use.days is None or other.days is None:
        return
    rolls = use.roll != "skip"
    today = local_datetime(now, was.tz).date()
    since = max(today - timedelta(days=ROLL_REACH if rolls else 1), FIRST_DAY)
    begin = end = None
    for days in ((use.days - other.days) | (other.days - use.days)).ranges(since, LAST_DAY):
        first, last = days.first, days.last
        if rolls:
            first, last = (
                _both_open(was, use, other.days, day, step)
                for day, step in ((first, -_DAY), (last, _DAY))
            )
        if end is not None and begin is not None and first > end:
            yield day_start(begin, was.tz), day_start(end, was.tz)
            begin = end = None
        begin, end = begin or first, last + _DAY
    if begin is not None and end is not None:
        yield day_start(begin, was.tz), day_start(end, was.tz)


def _both_open(
    spec: ScheduleSpec, use: CalendarUse, other: DaySet, day: date, step: timedelta
) -> date:
    """The next day beyond `day` on which due times are kept, before and after the change: no due
    time rolls over it."""
    is_open, days = use.mode == "only", use.days
    for _ in range(ROLL_REACH):
        day += step
        if not FIRST_DAY <= day <= LAST_DAY:
            break
        excluded = any(span.first <= day <= span.last for span in spec.exclude)
        if days is not None and (day in days) == (day in other) == is_open and not excluded:
            break
    return min(max(day, FIRST_DAY), LAST_DAY)

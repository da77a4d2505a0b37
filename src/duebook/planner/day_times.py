"""The due times that the triggers of a schedule yield within its bounds, after excluded and closed
days are applied; ignores changes that people made to single due times."""

from __future__ import annotations

from bisect import bisect_right
from datetime import date, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from duebook.model.plan import Reason, Skip
from duebook.planner.merged import LATEST, Merged, instant_before
from duebook.planner.merged import TICK as _TICK
from duebook.planner.open_days import open_days
from duebook.triggers import Count
from duebook.triggers.zones import day_start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from duebook.budget import Budget
    from duebook.model.fields import DateRange
    from duebook.model.schedule import ScheduleSpec
    from duebook.planner.merged import Span
    from duebook.triggers import Trigger

__all__ = ["DayTimes"]

MOST_COUNTED: Final = 1_000
"""Due times that are counted one by one; with more, a lower bound is enough."""
_LAST_DAY: Final = date(9999, 12, 30)


@lru_cache(maxsize=1_000)
def _excluded_intervals(exclude: tuple[DateRange, ...], tz: str) -> tuple[Span, ...]:
    """Excluded days as merged spans of instants; a span's end is not part of it."""
    merged: list[Span] = []
    for days in exclude:
        last = min(days.last, _LAST_DAY) + timedelta(days=1)
        start, end = day_start(days.first, tz), day_start(last, tz)
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


class DayTimes:
    """Stretches are open at their start and closed at their end: (after, until]."""

    def __init__(self, spec: ScheduleSpec, budget: Budget | None) -> None:
        self._budget = budget
        self._triggers: tuple[Trigger, ...] = spec.triggers
        self._start_at, self._end_at = spec.start_at, spec.end_at
        self._merged = Merged(spec.triggers, spec.start_at, spec.end_at)
        self._calendar = spec.calendar
        self._days = None if spec.calendar is None else open_days(spec)
        self._rolls = self._days if self._days is not None and self._days.rolls else None
        self._excluded: tuple[Span, ...] = ()
        if spec.exclude:
            self._excluded = _excluded_intervals(spec.exclude, spec.tz)
        # a plan asks several times about the same gap between two due times
        self._nothing_between: tuple[datetime | None, datetime | None] = (None, None)
        self._no_landing: Span = (LATEST, LATEST)  # no due time lands between the two

    def yields_itself(self, instant: datetime) -> bool:
        """Whether the triggers yield it, or one of their due times rolls there; ignores moves by
        hand."""
        return self._next_any(instant - _TICK) == instant

    def count_yielded(self, after: datetime, until: datetime) -> int:
        """How many due times the triggers yield; a lower bound if there are many."""
        due = self._next(after)
        return 0 if due is None or due > until else int(self._count_raw(after, until))

    def same_times(self, other: DayTimes) -> bool:
        """Whether the triggers of both certainly yield the same, and due times roll alike."""
        return (self._merged, self._rolls) == (other._merged, other._rolls)

    def follows(self, due_at: datetime) -> datetime | None:
        """The due time before another, with any outcome; an entry that ends there can be
        extended."""
        before = self.before(due_at)
        if self._rolls is None:
            return before
        landed = self._rolls.landed_before(due_at, before)
        return before if landed is None else max(landed, before) if before else landed

    def _day_entries(self, after: datetime, until: datetime) -> list[Skip]:
        """Entries for the due times that excluded days and the calendar removed."""
        entries: list[Skip] = []
        if self._excluded:
            begin = bisect_right(self._excluded, after, key=itemgetter(1))
            end_at = bisect_right(self._excluded, until, key=itemgetter(0))
            for span in self._excluded[begin:end_at]:
                entries += self._raw_entries(after, until, span, Reason.EXCLUDED, {})
        if self._days is not None:
            for span in self._days.closed_between(after, until):
                entries += self._calendar_entries(after, until, span)
        return entries

    def _raw_entries(
        self,
        after: datetime,
        until: datetime,
        span: Span,
        reason: Reason,
        facts: Mapping[str, Any],
    ) -> list[Skip]:
        """One entry for what the triggers yield in both a stretch and a span, if anything."""
        low, high = max(after, instant_before(span[0])), min(until, instant_before(span[1]))
        first = self._next(low) if low < high else None
        last = self.before(high + _TICK) if first and first <= high else None
        if first is None or last is None:
            return []
        count, follows = self._count_raw(low, high), self.follows(first)
        return [Skip(first, last, int(count), count.exact, reason, facts, follows)]

    def landing(self, due_at: datetime) -> datetime | None:
        """Where a due time of a closed day rolls to; None if nowhere."""
        return None if self._days is None else self._days.landing(due_at)

    def _calendar_entries(self, after: datetime, until: datetime, span: Span) -> list[Skip]:
        """Due times removed on closed days; separate entries for those that would land in time that
        is decided already."""
        use, days = self._calendar, self._days
        first = self._next(max(after, instant_before(span[0])))
        if use is None or days is None or first is None or first >= span[1] or first > until:
            return []
        facts: dict[str, Any] = {"calendar": use.name, "version": use.version}
        if (landing := days.landing_day(first)) is not None:
            facts["rolled_to"] = landing.isoformat()
        entries: list[Skip] = []
        place = span[0]
        for start, end in days.too_early(span, until):
            entries += self._raw_entries(after, until, (place, start), Reason.CALENDAR, facts)
            entries += self._raw_entries(after, until, (start, end), Reason.EDITED, facts)
            place = end
        return entries + self._raw_entries(after, until, (place, span[1]), Reason.CALENDAR, facts)

    def _next_on_open_days(self, instant: datetime) -> datetime | None:
        due = self._next(instant)
        while due is not None and (closed := self._excluding(due)) is not None:
            due = self._next(instant_before(closed[1]))
        return due if self._rolls is None else self._or_landed(due, instant)

    def _or_landed(self, due: datetime | None, instant: datetime) -> datetime | None:
        """The earlier of a due time and the next one that lands on its day by rolling."""
        if self._rolls is None:
            return due
        start, end = self._no_landing
        if due is not None and start <= instant and due <= end:
            return due
        # what is found holds for the rest of the day
        bound = None if due is None else max(due, self._rolls.day_around(instant)[1])
        landed = self._rolls.next_landed(instant, bound)
        if (found := landed or bound) is not None:
            self._no_landing = (instant, found)
        return due if landed is None else landed if due is None else min(due, landed)

    def _previous_on_open_days(self, instant: datetime) -> datetime | None:
        due = self.before(instant)
        while due is not None and (closed := self._excluding(due)) is not None:
            due = self.before(min(closed[0], due))
        if self._rolls is None:
            return due
        start, end = self._no_landing
        if due is not None and start <= due and instant <= end:
            return due
        bound = None if due is None else min(due, self._rolls.day_around(instant)[0])
        landed = self._rolls.landed_before(instant, bound)
        if (found := landed or bound) is not None:
            self._no_landing = (found, instant)
        return due if landed is None else landed if due is None else max(due, landed)

    def _next_any(self, instant: datetime) -> datetime | None:
        """What the triggers yield, or where one of their due times lands."""
        due = self._next(instant)
        return due if self._rolls is None else self._or_landed(due, instant)

    def _excludes(self, instant: datetime) -> bool:
        """Whether an excluded day alone removed a due time of the triggers."""
        return self._excluding(instant) is not None and self.yields_itself(instant)

    def _excluding(self, instant: datetime) -> Span | None:
        """The excluded or closed days that an instant falls into."""
        if self._days is not None and (closed := self._days.closing(instant)) is not None:
            return closed
        if not self._excluded:
            return None
        place = bisect_right(self._excluded, instant, key=itemgetter(0))
        found = self._excluded[place - 1] if place else None
        return found if found is not None and instant < found[1] else None

    def _next(self, instant: datetime) -> datetime | None:
        start, found = self._nothing_between
        if start is not None and found is not None and start <= instant < found:
            return found
        due = self._next_of_all(instant)
        self._nothing_between = (instant, due)
        return due

    def _next_of_all(self, instant: datetime) -> datetime | None:
        if self._budget is not None:
            self._budget.spend()
        return self._merged.next(instant)

    def before(self, instant: datetime) -> datetime | None:
        """The last due time before `instant` that the triggers yield, with any outcome."""
        if self._budget is not None:
            self._budget.spend()
        return self._merged.before(instant)

    def _count_raw(self, after: datetime, until: datetime) -> Count:
        if self._budget is not None:
            self._budget.spend()
        if self._start_at is not None:
            after = max(after, instant_before(self._start_at))
        if self._end_at is not None:
            until = min(until, self._end_at)
        if len(self._triggers) == 1:
            return self._triggers[0].count(after, until)
        number, due = 0, self._next(after)
        while due is not None and due <= until and number < MOST_COUNTED:
            number, due = number + 1, self._next(due)
        if due is None or due > until:
            return Count(number)
        most = max(trigger.count(after, until) for trigger in self._triggers)
        return Count.at_least(max(number, most))

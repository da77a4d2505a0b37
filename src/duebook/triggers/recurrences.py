"""The wall seconds of a recurrence rule, as a calendar with filters around it; pure arithmetic.

A rule is a calendar (its days and times). INTERVAL keeps each n-th period of it, and BYSETPOS some
members of each period. A search gives up after a limited number of periods in a row without a
member, so that every rule answers in bounded time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import date
from functools import lru_cache
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Final

from duebook.errors import InvalidTrigger
from duebook.triggers.days import (
    EPOCH_ORDINAL,
    FIRST_DAY,
    LAST_DAY,
    DaySet,
    EveryNDays,
    Weekdays,
    is_leap,
)
from duebook.triggers.daytimes import Calendar, ClockFields
from duebook.triggers.zones import DAY, FIRST_SECOND, LAST_SECOND, Pattern, members, wall_second

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from duebook.triggers.rules import Frequency, Rule

__all__ = ["recurrences"]

MOST_OUT_OF_PHASE: Final = 20_000
"""Maximum periods in a row that have members but are skipped because of INTERVAL."""
SPARSEST: Final = 10_000
"""Maximum of INTERVAL times the periods of a day that BYHOUR and finer parts leave; with COUNT it
is a tenth of this, as all recurrences are searched."""
MOST_UNCHOSEN: Final = 100
"""Maximum periods in a row that have members, but none at the positions."""
MOST_IN_PERIOD: Final = 2_000
"""Maximum members of a period for BYSETPOS."""

_MOST_DAYS: Final = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7}
_PERIOD_PARTS: Final = {
    "HOURLY": ("BYHOUR",),
    "MINUTELY": ("BYHOUR", "BYMINUTE"),
    "SECONDLY": ("BYHOUR", "BYMINUTE", "BYSECOND"),
}
_UNITS: Final = {"DAILY": DAY, "HOURLY": 3_600, "MINUTELY": 60, "SECONDLY": 1}


def recurrences(rule: Rule, begin: datetime) -> Pattern:
    """The pattern of a rule whose phase and missing parts come from `begin`, on the wall.

    It has no beginning and no end: DTSTART, UNTIL and COUNT are instants, applied elsewhere.
    """
    rule = rule.with_defaults(begin)
    times = _times(rule)
    pattern: Pattern = Calendar(_days(rule), times)
    periods = Periods(rule.freq, rule.wkst)
    if rule.interval > 1:
        _check_density(rule)
        pattern = EveryNth(pattern, periods, rule.interval, wall_second(begin))
    if positions := rule.get("BYSETPOS"):
        _check_period(times.size * _MOST_DAYS.get(rule.freq, 1))
        pattern = Positions(pattern, periods, positions)
    return pattern


def _check_density(rule: Rule) -> None:
    """Reject rules below a day that might skip too many periods between two recurrences."""
    filters = [rule.get(name) for name in _PERIOD_PARTS.get(rule.freq, ())]
    if not any(filters):
        return
    a_day = prod(len(values) or n for values, n in zip(filters, (24, 60, 60), strict=False))
    most = SPARSEST // 10 if rule.count else SPARSEST
    if rule.interval * a_day > most:
        raise InvalidTrigger(
            f"rrule INTERVAL {rule.interval:,} is too large for {a_day:,} periods a day: "
            f"their product can be at most {most:,}",
            "rrule",
        )


def _check_period(size: int) -> None:
    if size > MOST_IN_PERIOD:
        raise InvalidTrigger(
            f"rrule BYSETPOS would choose among {size:,} times a period; "
            f"at most {MOST_IN_PERIOD:,} are compared",
            "rrule",
        )


def _times(rule: Rule) -> ClockFields:
    return ClockFields(
        rule.get("BYHOUR") or tuple(range(24)),
        rule.get("BYMINUTE") or tuple(range(60)),
        rule.get("BYSECOND") or tuple(range(60)),
    )


def _days(rule: Rule) -> DaySet:
    dated = any(rule.get(name) for name in ("BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"))
    if dated or any(nth for _, nth in rule.byday):
        return YearDays(rule)
    if rule.byday:
        return Weekdays(frozenset((day + 1) % 7 for day, _ in rule.byday))
    return EveryNDays(1)


class YearDays:
    """The days that the BY parts of a rule pick from each year; a DaySet.

    There are few kinds of year (by first weekday, length, and for week numbers the lengths of its
    neighbours), so the days of each kind are computed once.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._kinds: dict[tuple[int, ...], tuple[int, ...]] = {}

    def next(self, day: int) -> int | None:
        if day > LAST_DAY:
            return None
        day = max(day, FIRST_DAY)
        year = date.fromordinal(day + EPOCH_ORDINAL).year
        for candidate in range(year, min(year + 400, 9999) + 1):  # the calendar repeats after 400
            new_year = _new_year(candidate)
            days = self._days_of(candidate)
            i = bisect_left(days, day - new_year)
            if i < len(days):
                return new_year + days[i]
        return None

    def previous(self, day: int) -> int | None:
        if day < FIRST_DAY:
            return None
        day = min(day, LAST_DAY)
        year = date.fromordinal(day + EPOCH_ORDINAL).year
        for candidate in range(year, max(year - 400, 1) - 1, -1):
            new_year = _new_year(candidate)
            days = self._days_of(candidate)
            i = bisect_right(days, day - new_year)
            if i:
                return new_year + days[i - 1]
        return None

    def count(self, start: int, end: int) -> int:
        if start >= end:
            return 0
        first = date.fromordinal(start + EPOCH_ORDINAL).year
        last = date.fromordinal(end - 1 + EPOCH_ORDINAL).year
        total = 0
        for year in range(first, last + 1):
            days, new_year = self._days_of(year), _new_year(year)
            total += bisect_left(days, end - new_year) - bisect_left(days, start - new_year)
        return total

    def _days_of(self, year: int) -> tuple[int, ...]:
        new_year = date(year, 1, 1)
        kind = (new_year.weekday(), _length(year), _length(year - 1), _length(year + 1))
        if kind not in self._kinds:
            self._kinds[kind] = tuple(_matching_days(self._rule, year))
        return self._kinds[kind]


def _new_year(year: int) -> int:
    return date(year, 1, 1).toordinal() - EPOCH_ORDINAL


def _length(year: int) -> int:
    return 366 if is_leap(year) else 365


def _matching_days(rule: Rule, year: int) -> Iterator[int]:
    """The matching days of a year as distances from 1 January."""
    first = date(year, 1, 1).toordinal()
    length = _length(year)
    for distance in range(length):
        day = date.fromordinal(first + distance)
        of_month = (day.day, day.day - _month_length(day) - 1)
        of_year = (distance + 1, distance - length)
        if (
            _allowed(rule.get("BYMONTH"), (day.month,))
            and _allowed(rule.get("BYMONTHDAY"), of_month)
            and _allowed(rule.get("BYYEARDAY"), of_year)
            and (not rule.get("BYWEEKNO") or _allowed(rule.get("BYWEEKNO"), _week(day, rule.wkst)))
            and (not rule.byday or _on_weekday(rule, day.weekday(), of_month, of_year))
        ):
            yield distance


def _allowed(wanted: tuple[int, ...], found: tuple[int, ...]) -> bool:
    return not wanted or any(value in wanted for value in found)


def _month_length(day: date) -> int:
    if day.month == 12:
        return 31
    return date(day.year, day.month + 1, 1).toordinal() - day.replace(day=1).toordinal()


def _on_weekday(
    rule: Rule, weekday: int, of_month: tuple[int, int], of_year: tuple[int, int]
) -> bool:
    """Whether a day matches BYDAY: the n-th counts within the month, or the year if named so."""
    in_year = rule.freq == "YEARLY" and not rule.get("BYMONTH")
    ahead, back = of_year if in_year else of_month
    nths = (0, (ahead - 1) // 7 + 1, -((-back - 1) // 7 + 1))
    return any(weekday == day and nth in nths for day, nth in rule.byday)


def _week(day: date, wkst: int) -> tuple[int, int]:
    """The number of the week, from the start and from the end of the year that has most of it."""
    middle = day.toordinal() - (day.weekday() - wkst) % 7 + 3
    middle = min(max(middle, date.min.toordinal()), date.max.toordinal())
    first = date.fromordinal(middle).replace(month=1, day=1).toordinal()
    number = (middle - first) // 7 + 1
    year = date.fromordinal(first).year
    last = first + _length(year) - 1
    return number, -((last - middle) // 7 + 1)


class Periods:
    """The numbered years, months, weeks … in which a rule counts."""

    def __init__(self, freq: Frequency, wkst: int) -> None:
        self._freq = freq
        self._shift = 3 - wkst  # day 0 was a Thursday
        self._unit = _UNITS.get(freq, 0)

    def index(self, wall: int) -> int:
        wall = min(max(wall, FIRST_SECOND), LAST_SECOND)
        if self._unit:
            return wall // self._unit
        day = wall // DAY
        if self._freq == "WEEKLY":
            return (day + self._shift) // 7
        today = date.fromordinal(day + EPOCH_ORDINAL)
        return today.year if self._freq == "YEARLY" else today.year * 12 + today.month - 1

    def start(self, index: int) -> int:
        """The first wall second of a period, limited to the calendar."""
        if self._unit:
            return index * self._unit
        if self._freq == "WEEKLY":
            return max((index * 7 - self._shift) * DAY, FIRST_SECOND)
        year, month = (index, 0) if self._freq == "YEARLY" else divmod(index, 12)
        if not 1 <= year <= 9999:
            return FIRST_SECOND if year < 1 else LAST_SECOND + 1
        return (date(year, month + 1, 1).toordinal() - EPOCH_ORDINAL) * DAY


class EveryNth:
    """The members of a pattern in each n-th period; a Pattern."""

    def __init__(self, pattern: Pattern, periods: Periods, n: int, begin: int) -> None:
        self._pattern = pattern
        self._periods = periods
        self._n = n
        self._first = periods.index(begin)
        self._none_between = (0, -1)  # a stretch known to be empty, and the member that ends it

    def next(self, wall: int) -> int | None:
        start, found = self._none_between
        if start <= wall <= found:
            return found
        following = self._search(wall)
        if following is not None:
            self._none_between = (wall, following)
        return following

    def _search(self, wall: int) -> int | None:
        for _ in range(MOST_OUT_OF_PHASE):
            found = self._pattern.next(wall)
            if found is None:
                return None
            index = self._periods.index(found)
            behind = (index - self._first) % self._n
            if behind == 0:
                return found
            wall = self._periods.start(index - behind + self._n)
            if wall > LAST_SECOND:
                return None
        return None

    def previous(self, wall: int) -> int | None:
        for _ in range(MOST_OUT_OF_PHASE):
            found = self._pattern.previous(wall)
            if found is None:
                return None
            index = self._periods.index(found)
            behind = (index - self._first) % self._n
            if behind == 0:
                return found
            wall = self._periods.start(index - behind + 1) - 1
            if wall < FIRST_SECOND:
                return None
        return None

    def count(self, start: int, end: int, enough: int) -> int:
        return _count(self, start, end, enough)


class Positions:
    """The members of a pattern at certain positions of their period; a Pattern."""

    def __init__(self, pattern: Pattern, periods: Periods, positions: tuple[int, ...]) -> None:
        self._pattern = pattern
        self._periods = periods
        self._positions = positions
        self._chosen = lru_cache(maxsize=4)(self._choose)

    def next(self, wall: int) -> int | None:
        for _ in range(MOST_UNCHOSEN):
            index = self._periods.index(wall)
            chosen = self._chosen(index)
            i = bisect_left(chosen, wall)
            if i < len(chosen):
                return chosen[i]
            following = self._periods.start(index + 1)
            found = self._pattern.next(following) if following <= LAST_SECOND else None
            if found is None:
                return None
            wall = self._periods.start(self._periods.index(found))
        return None

    def previous(self, wall: int) -> int | None:
        for _ in range(MOST_UNCHOSEN):
            index = self._periods.index(wall)
            chosen = self._chosen(index)
            i = bisect_right(chosen, wall)
            if i:
                return chosen[i - 1]
            last = self._periods.start(index) - 1
            found = self._pattern.previous(last) if last >= FIRST_SECOND else None
            if found is None:
                return None
            wall = self._periods.start(self._periods.index(found) + 1) - 1
        return None

    def count(self, start: int, end: int, enough: int) -> int:
        return _count(self, start, end, enough)

    def _choose(self, index: int) -> list[int]:
        start, end = self._periods.start(index), self._periods.start(index + 1)
        found = list(members(self._pattern, start, end))
        places = (p - 1 if p > 0 else len(found) + p for p in self._positions)
        return sorted({found[place] for place in places if 0 <= place < len(found)})


def _count(pattern: Pattern, start: int, end: int, enough: int) -> int:
    """Count one by one, as filters leave no formula."""
    return sum(1 for _ in islice(members(pattern, start, end), enough + 1))

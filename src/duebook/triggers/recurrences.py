"""The wall seconds of a recurrence rule, as a calendar with filters around it; pure arithmetic.

A rule is a calendar (its days and times), of which INTERVAL keeps each n-th period, BYSETPOS
some members of each period, and the beginning and UNTIL or COUNT a stretch. Searches give up
after MAX_EMPTY periods in a row without a member, so that every rule answers in bounded time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING, Final

from duebook.errors import InvalidTrigger
from duebook.triggers.days import FIRST_DAY, LAST_DAY, DaySet, EveryNDays, Weekdays
from duebook.triggers.daytimes import Calendar, ClockFields
from duebook.triggers.zones import LAST_SECOND, Pattern, members, wall_second

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from duebook.triggers.rules import Frequency, Rule

__all__ = ["recurrences"]

DAY: Final = 86_400
MAX_EMPTY: Final = 10_000
MAX_PERIOD: Final = 50_000
"""The most members of a period among which BYSETPOS chooses."""

_EPOCH: Final = date(1970, 1, 1).toordinal()
_MOST_DAYS: Final = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7}
_UNITS: Final = {"DAILY": DAY, "HOURLY": 3_600, "MINUTELY": 60, "SECONDLY": 1}


def recurrences(rule: Rule, begin: datetime, open_start: bool = False) -> Pattern:
    """The pattern of a rule that begins at `begin` on the wall.

    With `open_start`, `begin` only gives the phase, and members lie before it as well.
    """
    rule = _with_defaults(rule, begin)
    times = _times(rule)
    pattern: Pattern = Calendar(_days(rule), times)
    periods = Periods(rule.freq, rule.wkst)
    if rule.interval > 1:
        pattern = EveryNth(pattern, periods, rule.interval, wall_second(begin))
    if positions := rule.get("BYSETPOS"):
        _check_period(times.size * _MOST_DAYS.get(rule.freq, 1))
        pattern = Positions(pattern, periods, positions)
    first = None if open_start else wall_second(begin)
    last = wall_second(rule.until) if rule.until else None
    if rule.count:
        last = _nth(pattern, wall_second(begin), rule.count)
    return pattern if first is None and last is None else Stretch(pattern, first, last)


def _check_period(size: int) -> None:
    if size > MAX_PERIOD:
        raise InvalidTrigger(
            f"rrule BYSETPOS would choose among {size:,} times a period; "
            f"at most {MAX_PERIOD:,} are compared",
            "rrule",
        )


def _nth(pattern: Pattern, start: int, number: int) -> int:
    """The last of the first `number` members; `start` when there is none."""
    return max(islice(members(pattern, start, LAST_SECOND), number), default=start)


def _with_defaults(rule: Rule, begin: datetime) -> Rule:
    """The parts that a rule takes from its beginning, made explicit."""
    by, byday = dict(rule.by), rule.byday
    if not (byday or by.keys() & {"BYYEARDAY", "BYMONTHDAY"}):
        if rule.freq == "WEEKLY" or "BYWEEKNO" in by:
            byday = ((begin.weekday(), 0),)
        elif rule.freq in ("YEARLY", "MONTHLY"):
            by["BYMONTHDAY"] = (begin.day,)
            if rule.freq == "YEARLY":
                by.setdefault("BYMONTH", (begin.month,))
    finer = {"BYHOUR": begin.hour, "BYMINUTE": begin.minute, "BYSECOND": begin.second}
    kept_open = {"HOURLY": 1, "MINUTELY": 2, "SECONDLY": 3}.get(rule.freq, 0)
    for name in list(finer)[kept_open:]:
        by.setdefault(name, (finer[name],))
    return replace(rule, byday=byday, by=tuple(by.items()))


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

    There are 14 kinds of year (28 as a week number also looks at the year before), so the days
    of each kind are found once.
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._kinds: dict[tuple[int, ...], tuple[int, ...]] = {}

    def next(self, day: int) -> int | None:
        if day > LAST_DAY:
            return None
        year = date.fromordinal(day + _EPOCH).year
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
        year = date.fromordinal(day + _EPOCH).year
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
        first = date.fromordinal(start + _EPOCH).year
        last = date.fromordinal(end - 1 + _EPOCH).year
        total = 0
        for year in range(first, last + 1):
            days, new_year = self._days_of(year), _new_year(year)
            total += bisect_left(days, end - new_year) - bisect_left(days, start - new_year)
        return total

    def _days_of(self, year: int) -> tuple[int, ...]:
        new_year = date(year, 1, 1)
        kind = (new_year.weekday(), _length(year), _length(year - 1))
        if kind not in self._kinds:
            self._kinds[kind] = tuple(_matching_days(self._rule, year))
        return self._kinds[kind]


def _new_year(year: int) -> int:
    return date(year, 1, 1).toordinal() - _EPOCH


def _length(year: int) -> int:
    return 366 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 365


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
    """Whether a day is one of BYDAY: the n-th counts within the month, or the year if named so."""
    in_year = rule.freq == "YEARLY" and not rule.get("BYMONTH")
    ahead, back = of_year if in_year else of_month
    nths = (0, (ahead - 1) // 7 + 1, -((-back - 1) // 7 + 1))
    return any(weekday == day and nth in nths for day, nth in rule.byday)


def _week(day: date, wkst: int) -> tuple[int, int]:
    """The number of the week from the start and from the end of the year that has most of it."""
    middle = max(1, day.toordinal() - (day.weekday() - wkst) % 7 + 3)
    first = date.fromordinal(middle).replace(month=1, day=1).toordinal()
    number = (middle - first) // 7 + 1
    year = date.fromordinal(first).year
    last = first + _length(year) - 1
    return number, -((last - middle) // 7 + 1)


class Periods:
    """The years, months, weeks … that a rule counts in, numbered."""

    def __init__(self, freq: Frequency, wkst: int) -> None:
        self._freq = freq
        self._shift = 3 - wkst  # day 0 was a Thursday
        self._unit = _UNITS.get(freq, 0)

    def index(self, wall: int) -> int:
        if self._unit:
            return wall // self._unit
        day = wall // DAY
        if self._freq == "WEEKLY":
            return (day + self._shift) // 7
        today = date.fromordinal(day + _EPOCH)
        return today.year if self._freq == "YEARLY" else today.year * 12 + today.month - 1

    def start(self, index: int) -> int:
        """The first wall second of a period."""
        if self._unit:
            return index * self._unit
        if self._freq == "WEEKLY":
            return (index * 7 - self._shift) * DAY
        year, month = (index, 0) if self._freq == "YEARLY" else divmod(index, 12)
        if year > 9999:
            return LAST_SECOND + 1
        return (date(max(year, 1), month + 1, 1).toordinal() - _EPOCH) * DAY


class EveryNth:
    """The members of a pattern that fall into each n-th period; a Pattern."""

    def __init__(self, pattern: Pattern, periods: Periods, n: int, begin: int) -> None:
        self._pattern = pattern
        self._periods = periods
        self._n = n
        self._first = periods.index(begin)

    def next(self, wall: int) -> int | None:
        for _ in range(MAX_EMPTY):
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
        for _ in range(MAX_EMPTY):
            found = self._pattern.previous(wall)
            if found is None:
                return None
            index = self._periods.index(found)
            behind = (index - self._first) % self._n
            if behind == 0:
                return found
            wall = self._periods.start(index - behind + 1) - 1
        return None

    def count(self, start: int, end: int, enough: int) -> int:
        return _count(self, start, end, enough)


class Positions:
    """The members of a pattern that stand at certain positions of their period; a Pattern."""

    def __init__(self, pattern: Pattern, periods: Periods, positions: tuple[int, ...]) -> None:
        self._pattern = pattern
        self._periods = periods
        self._positions = positions

    def next(self, wall: int) -> int | None:
        for _ in range(MAX_EMPTY):
            index = self._periods.index(wall)
            chosen = self._chosen(index)
            i = bisect_left(chosen, wall)
            if i < len(chosen):
                return chosen[i]
            found = self._pattern.next(self._periods.start(index + 1))
            if found is None or found > LAST_SECOND:
                return None
            wall = self._periods.start(self._periods.index(found))
        return None

    def previous(self, wall: int) -> int | None:
        for _ in range(MAX_EMPTY):
            index = self._periods.index(wall)
            chosen = self._chosen(index)
            i = bisect_right(chosen, wall)
            if i:
                return chosen[i - 1]
            found = self._pattern.previous(self._periods.start(index) - 1)
            if found is None:
                return None
            wall = self._periods.start(self._periods.index(found) + 1) - 1
        return None

    def count(self, start: int, end: int, enough: int) -> int:
        return _count(self, start, end, enough)

    def _chosen(self, index: int) -> list[int]:
        start, end = self._periods.start(index), self._periods.start(index + 1)
        found = list(members(self._pattern, start, end))
        places = (p - 1 if p > 0 else len(found) + p for p in self._positions)
        return sorted({found[place] for place in places if 0 <= place < len(found)})


class Stretch:
    """The members of a pattern from `first` to `last`, either of which may be open; a Pattern."""

    def __init__(self, pattern: Pattern, first: int | None, last: int | None) -> None:
        self._pattern = pattern
        self._first = first
        self._last = last

    def next(self, wall: int) -> int | None:
        found = self._pattern.next(wall if self._first is None else max(wall, self._first))
        return None if found is None or (self._last is not None and found > self._last) else found

    def previous(self, wall: int) -> int | None:
        found = self._pattern.previous(wall if self._last is None else min(wall, self._last))
        return None if found is None or (self._first is not None and found < self._first) else found

    def count(self, start: int, end: int, enough: int) -> int:
        start = start if self._first is None else max(start, self._first)
        end = end if self._last is None else min(end, self._last + 1)
        return self._pattern.count(start, end, enough) if start < end else 0


def _count(pattern: Pattern, start: int, end: int, enough: int) -> int:
    """One by one, as filters leave nothing to calculate with."""
    return sum(1 for _ in islice(members(pattern, start, end), enough + 1))

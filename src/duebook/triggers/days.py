"""Sets of calendar days with the operations next, previous and count; pure arithmetic.

A day is its distance from 1 January 1970. There are only 28 kinds of month (four lengths, seven
first weekdays), so any rule about days of a month is at most 28 bit masks, created when needed.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "EPOCH_ORDINAL",
    "FIRST_DAY",
    "LAST_DAY",
    "DaySet",
    "EveryNDays",
    "MonthDays",
    "Weekdays",
    "is_leap",
    "weekday",
]

EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
FIRST_DAY: Final = date.min.toordinal() - EPOCH_ORDINAL
LAST_DAY: Final = date.max.toordinal() - EPOCH_ORDINAL
_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def weekday(day: int) -> int:
    """0 is Sunday, as in crontab(5)."""
    return (day + 4) % 7


class DaySet(Protocol):
    def next(self, day: int) -> int | None:
        """The first member at or after `day`."""

    def previous(self, day: int) -> int | None:
        """The last member at or before `day`."""

    def count(self, start: int, end: int) -> int:
        """How many members lie in [start, end)."""


class EveryNDays:
    """Each n-th day, counted from `first` in both directions."""

    def __init__(self, n: int = 1, first: int = 0) -> None:
        self._n = n
        self._first = first

    def next(self, day: int) -> int | None:
        day += (self._first - day) % self._n
        return day if day <= LAST_DAY else None

    def previous(self, day: int) -> int | None:
        day -= (day - self._first) % self._n
        return day if day >= FIRST_DAY else None

    def count(self, start: int, end: int) -> int:
        return (end - 1 - self._first) // self._n - (start - 1 - self._first) // self._n


class Weekdays:
    """The days that fall on certain weekdays (0 is Sunday)."""

    def __init__(self, weekdays: frozenset[int]) -> None:
        self._weekdays = weekdays
        self._ahead = _distances(weekdays, 7, +1)
        self._back = _distances(weekdays, 7, -1)

    def next(self, day: int) -> int | None:
        day += self._ahead[weekday(day)]
        return day if day <= LAST_DAY else None

    def previous(self, day: int) -> int | None:
        day -= self._back[weekday(day)]
        return day if day >= FIRST_DAY else None

    def count(self, start: int, end: int) -> int:
        weeks, rest = divmod(max(0, end - start), 7)
        return weeks * len(self._weekdays) + sum(
            weekday(day) in self._weekdays for day in range(start, start + rest)
        )


def _distances(members: frozenset[int], size: int, step: int) -> list[int]:
    """For each place of a ring, the distance to its next member in steps of +1 or -1."""
    table = [0] * size
    distance = 0
    for turn in range(2 * size - 1, -1, -1):
        place = turn * step % size
        distance = 0 if place in members else distance + 1
        table[place] = distance
    return table


class MonthDays:
    """The days that a rule picks from each of certain months.

    `mask` maps the length of a month and the weekday of its first day to bits 1 to 31.
    """

    def __init__(self, months: frozenset[int], mask: Callable[[int, int], int]) -> None:
        self._months = months
        self._mask = mask
        self._masks: dict[int, int] = {}
        places = frozenset(month - 1 for month in months)
        self._next_month = _distances(places, 12, +1)
        self._previous_month = _distances(places, 12, -1)

    @property
    def ever(self) -> bool:
        """Whether any month of any year has a member."""
        return any(
            self._mask_of(length, first)
            for month in self._months
            for length in ((29, 28) if month == 2 else (_LENGTHS[month - 1],))
            for first in range(7)
        )

    def next(self, day: int) -> int | None:
        if day > LAST_DAY:
            return None
        today = date.fromordinal(day + EPOCH_ORDINAL)
        year, month, of_month = today.year, today.month - 1, today.day
        first = day - of_month + 1
        skip = self._next_month[month]
        while True:
            if skip == 0:
                mask = self._mask_of(_length(year, month), weekday(first)) >> of_month
                if mask:
                    return first + of_month + (mask & -mask).bit_length() - 2
                skip = 1 + self._next_month[(month + 1) % 12]
            year, month = divmod(year * 12 + month + skip, 12)
            if year > 9999:
                return None
            first = date(year, month + 1, 1).toordinal() - EPOCH_ORDINAL
            of_month = skip = 0

    def previous(self, day: int) -> int | None:
        if day < FIRST_DAY:
            return None
        today = date.fromordinal(day + EPOCH_ORDINAL)
        year, month, of_month = today.year, today.month - 1, today.day
        first = day - of_month + 1
        skip = self._previous_month[month]
        while True:
            if skip == 0:
                mask = self._mask_of(_length(year, month), weekday(first))
                mask &= (2 << of_month) - 1
                if mask:
                    return first + mask.bit_length() - 2
                skip = 1 + self._previous_month[(month - 1) % 12]
            year, month = divmod(year * 12 + month - skip, 12)
            if year < 1:
                return None
            first = date(year, month + 1, 1).toordinal() - EPOCH_ORDINAL
            of_month, skip = 31, 0

    def count(self, start: int, end: int) -> int:
        """Month by month: thirty years take 360 steps."""
        total = 0
        while start < end:
            today = date.fromordinal(start + EPOCH_ORDINAL)
            length = _length(today.year, today.month - 1)
            first = start - today.day + 1
            if today.month in self._months:
                mask = self._mask_of(length, weekday(first)) >> today.day << today.day
                if first + length > end:
                    mask &= (1 << (end - first + 1)) - 1
                total += mask.bit_count()
            start = first + length
        return total

    def _mask_of(self, length: int, first_weekday: int) -> int:
        kind = length * 7 + first_weekday
        mask = self._masks.get(kind)
        if mask is None:
            mask = self._masks[kind] = self._mask(length, first_weekday)
        return mask


def _length(year: int, month: int) -> int:
    return 29 if month == 1 and is_leap(year) else _LENGTHS[month]


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)

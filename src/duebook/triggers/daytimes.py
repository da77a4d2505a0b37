"""Sets of times of day in whole seconds, and calendars: a set of days with a set of times.

Pure arithmetic; a calendar is the wall-second Pattern of every trigger but rrule.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from duebook.triggers.days import DaySet

__all__ = ["Calendar", "ClockFields", "ClockTimes", "TimeSet"]

DAY: Final = 86_400


class TimeSet(Protocol):
    """Members are seconds from midnight, 0 to 86,399; never empty."""

    first: int
    last: int
    size: int

    def next(self, second: int) -> int:
        """The first member at or after `second`, or -1."""

    def previous(self, second: int) -> int:
        """The last member at or before `second`, or -1."""

    def before(self, second: int) -> int:
        """How many members lie before `second`."""


class ClockTimes:
    """A short list of times, such as 07:00 and 17:30."""

    def __init__(self, seconds: tuple[int, ...]) -> None:
        self._seconds = tuple(sorted(seconds))
        self.first, self.last = self._seconds[0], self._seconds[-1]
        self.size = len(self._seconds)

    def next(self, second: int) -> int:
        i = bisect_left(self._seconds, second)
        return self._seconds[i] if i < self.size else -1

    def previous(self, second: int) -> int:
        i = bisect_right(self._seconds, second)
        return self._seconds[i - 1] if i else -1

    def before(self, second: int) -> int:
        return bisect_left(self._seconds, second)


class ClockFields:
    """Every combination of certain hours, minutes and seconds."""

    def __init__(
        self, hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]
    ) -> None:
        self._hours, self._minutes, self._seconds = hours, minutes, seconds
        self._next_hour = _next_table(hours, 24)
        self._next_minute = _next_table(minutes, 60)
        self._next_second = _next_table(seconds, 60)
        self._in_hour = len(minutes) * len(seconds)
        self._first_in_hour = minutes[0] * 60 + seconds[0]
        self._last_in_hour = minutes[-1] * 60 + seconds[-1]
        self.first = hours[0] * 3_600 + self._first_in_hour
        self.last = hours[-1] * 3_600 + self._last_in_hour
        self.size = len(hours) * self._in_hour

    def next(self, second: int) -> int:
        hour = second // 3_600
        found = self._next_hour[hour]
        if found == hour:
            minute = second // 60 % 60
            at = self._next_minute[minute]
            if at == minute:
                of_minute = self._next_second[second % 60]
                if of_minute >= 0:
                    return second - second % 60 + of_minute
                at = self._next_minute[minute + 1]
            if at >= 0:
                return hour * 3_600 + at * 60 + self._seconds[0]
            found = self._next_hour[hour + 1]
        return found * 3_600 + self._first_in_hour if found >= 0 else -1

    def previous(self, second: int) -> int:
        hour, rest = divmod(second, 3_600)
        minute, of_minute = divmod(rest, 60)
        if hour in self._hours:
            if minute in self._minutes and of_minute >= self._seconds[0]:
                i = bisect_right(self._seconds, of_minute) - 1
                return second - of_minute + self._seconds[i]
            i = bisect_left(self._minutes, minute) - 1
            if i >= 0:
                return hour * 3_600 + self._minutes[i] * 60 + self._seconds[-1]
        i = bisect_left(self._hours, hour) - 1
        return self._hours[i] * 3_600 + self._last_in_hour if i >= 0 else -1

    def before(self, second: int) -> int:
        hour, rest = divmod(second, 3_600)
        minute, of_minute = divmod(rest, 60)
        total = bisect_left(self._hours, hour) * self._in_hour
        if hour in self._hours:
            total += bisect_left(self._minutes, minute) * len(self._seconds)
            if minute in self._minutes:
                total += bisect_left(self._seconds, of_minute)
        return total


@lru_cache(maxsize=1024)
def _next_table(values: tuple[int, ...], size: int) -> list[int]:
    """table[n] is the first value at or after n, or -1; size + 1 entries, so n + 1 is safe."""
    table: list[int] = []
    for value in values:
        table += [value] * (value + 1 - len(table))
    table += [-1] * (size + 1 - len(table))
    return table


class Calendar:
    """The wall seconds of a set of times on a set of days."""

    def __init__(self, days: DaySet, times: TimeSet) -> None:
        self._days = days
        self._times = times

    def next(self, wall: int) -> int | None:
        today = wall // DAY
        day = self._days.next(today)
        if day == today:
            second = self._times.next(wall - today * DAY)
            if second >= 0:
                return today * DAY + second
            day = self._days.next(today + 1)
        return None if day is None else day * DAY + self._times.first

    def previous(self, wall: int) -> int | None:
        today = wall // DAY
        day = self._days.previous(today)
        if day == today:
            second = self._times.previous(wall - today * DAY)
            if second >= 0:
                return today * DAY + second
            day = self._days.previous(today - 1)
        return None if day is None else day * DAY + self._times.last

    def count(self, start: int, end: int, enough: int) -> int:  # noqa: ARG002 - exact at any size
        return self._before(end) - self._before(start) + self._whole_days(start, end)

    def _whole_days(self, start: int, end: int) -> int:
        return self._days.count(start // DAY, end // DAY) * self._times.size

    def _before(self, wall: int) -> int:
        """How many members the day of `wall` has before it."""
        today, second = divmod(wall, DAY)
        return self._times.before(second) if self._days.next(today) == today else 0

"""Which days a calendar opens to a schedule, and where due times of closed days roll to; pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from duebook.model.calendar_days import FIRST_DAY, LAST_DAY, MOST_DAYS
from duebook.planner.merged import EARLIEST, LATEST, TICK, Merged, instant_before
from duebook.triggers.zones import (
    day_start,
    from_seconds,
    local_datetime,
    wall_second,
    zone,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.model.calendar_days import DaySet
    from duebook.model.calendar_use import CalendarMode, Roll
    from duebook.model.fields import DateRange
    from duebook.model.schedule import ScheduleSpec
    from duebook.planner.merged import Span

__all__ = ["OpenDays", "open_days"]

REACH: Final = 366
"""Maximum number of days that a due time rolls."""
MOST_LANDING: Final = 20_000
"""Due times considered for landing on one day, nearest first, before equal ones are merged."""
MOST_KNOWN: Final = 10
"""Days for which a definition caches what lands there."""
_DAY: Final = timedelta(days=1)
_FIRST: Final = FIRST_DAY.toordinal()


class Days:
    """A set of days by number, 0 for 2000-01-01; either all days outside its hundred years are in
    it, or none."""

    def __init__(self, flags: bytes, outside: bool) -> None:
        self.flags = flags
        self.outside = outside

    def has(self, day: int) -> bool:
        return self.flags[day] == 1 if 0 <= day < MOST_DAYS else self.outside

    def next(self, day: int) -> int | None:
        """The first one from `day` on."""
        if day < 0 and self.outside:
            return day
        if day < MOST_DAYS and (found := self.flags.find(1, max(day, 0))) >= 0:
            return found
        return max(day, MOST_DAYS) if self.outside else None

    def previous(self, day: int) -> int | None:
        """The last one up to `day`."""
        if day >= MOST_DAYS and self.outside:
            return day
        if day >= 0 and (found := self.flags.rfind(1, 0, min(day, MOST_DAYS - 1) + 1)) >= 0:
            return found
        return min(day, -1) if self.outside else None

    def inverse(self) -> Days:
        return Days(self.flags.translate(_SWAPPED), not self.outside)


_SWAPPED: Final = bytes([1, 0, *range(2, 256)])


class OpenDays:
    """The days of one definition. A day that it excludes is neither closed nor open: nothing rolls
    from it, and nothing lands on it.

    `since`: due times up to there were decided by another definition, and none lands there.
    """

    def __init__(
        self,
        times: Merged,
        days: DaySet,
        mode: CalendarMode,
        roll: Roll,
        since: datetime | None,
        exclude: tuple[DateRange, ...],
        tz: str,
    ) -> None:
        self._times, self._tz, self._zone = times, tz, zone(tz)
        self.roll, self._since = roll, since
        calendar = Days(days.flags, outside=False)
        wanted = calendar if mode == "only" else calendar.inverse()
        self._landing, self._closed = _without(wanted, exclude), _without(wanted.inverse(), exclude)
        self._other = self._closed.inverse()
        self._landed: dict[int, tuple[list[datetime], dict[datetime, datetime]]] = {}
        # most questions are about the same day as the one before
        self._recent = (LATEST, LATEST, 0)

    @property
    def rolls(self) -> bool:
        return self.roll != "skip"

    # -- closed days

    def closing(self, instant: datetime) -> Span | None:
        """The closed days that an instant falls into; the end is not part of them."""
        day = self._day_of(instant)
        return self._closed_around(day) if self._closed.has(day) else None

    def closed_between(self, after: datetime, until: datetime) -> Iterator[Span]:
        """Whole stretches of closed days that overlap (after, until], in order."""
        day = self._closed.next(self._day_of(after))
        while day is not None and self._start(day) <= until:
            found = self._closed_around(day)
            yield found
            following = self._other.next(day)
            day = None if following is None else self._closed.next(following)

    def _closed_around(self, day: int) -> Span:
        before, behind = self._other.previous(day), self._other.next(day)
        first = EARLIEST if before is None else self._start(before + 1)
        return first, LATEST if behind is None else self._start(behind)

    # -- where due times land

    def landing(self, due_at: datetime) -> datetime | None:
        """The same wall time of the next or previous open day; None if there is no such day, or if
        that is outside the bounds of the schedule."""
        day = self._day_of(due_at)
        if self.roll == "next":
            found = self._landing.next(day + 1)
        else:
            found = self._landing.previous(day - 1) if self.rolls else None
        if found is None or abs(found - day) > REACH:
            return None
        return self._at(found, due_at)

    def landing_day(self, due_at: datetime) -> date | None:
        landed = self.landing(due_at)
        return None if landed is None else local_datetime(landed, self._tz).date()

    def is_open(self, instant: datetime) -> bool:
        """Whether a due time may land on its day."""
        return self._landing.has(self._day_of(instant))

    def day_around(self, instant: datetime) -> Span:
        """The day that an instant belongs to; its end is not part of it."""
        day = self._day_of(instant)
        return self._start(day), self._start(day + 1)

    def too_early(self, span: Span, until: datetime) -> Iterator[Span]:
        """The parts of closed days, up to `until`, whose due times would land where another
        definition has decided already."""
        day, since = self._day_of(span[0]), self._since
        to = self._landing.previous(day - 1) if self.roll == "previous" else None
        if since is None or to is None or self._start(to) > since:
            return
        end = min(span[1], self._start(to + REACH + 1))
        if self._start(to + 1) <= since:
            yield span[0], end
            return
        while (start := self._start(day)) < end and start <= until:
            # that day is decided up to some wall time
            yield start, self._decided_at(day, since)
            day += 1

    def _decided_at(self, day: int, since: datetime) -> datetime:
        """Where the wall time of `since` ends on a day."""
        wall = local_datetime(since, self._tz)
        same = datetime.combine(date.fromordinal(day + _FIRST), wall.time())
        return from_seconds(self._zone.first_at(wall_second(same) + 1))

    def promised(self, decided: datetime) -> list[tuple[datetime, datetime]]:
        """The due times up to `decided` that land after it, each with its new instant."""
        day = self._landing.next(self._day_of(decided))
        if self.roll != "next" or day is None:
            return []
        return [(at, to) for at, to in self._landings(day) if at <= decided < to]

    def next_landed(self, instant: datetime, bound: datetime | None) -> datetime | None:
        """The first instant after `instant` on which a due time lands; may ignore those after
        `bound`."""
        day = self._landing.next(self._day_of(instant))
        while day is not None and (bound is None or self._start(day) <= bound):
            landed = self._landed_on(day)
            place = bisect_right(landed, instant)
            if place < len(landed):
                return landed[place]
            behind = day if self.roll == "next" else self._landing.next(day + 1)
            day = None if behind is None else self._next_day(self._start(behind), bound)
        return None

    def landed_before(self, instant: datetime, bound: datetime | None) -> datetime | None:
        """The last instant before `instant` on which a due time lands; may ignore those before
        `bound`."""
        day = self._landing.previous(self._day_of(instant))
        while day is not None and (bound is None or self._start(day + 1) > bound):
            landed = self._landed_on(day)
            place = bisect_left(landed, instant)
            if place:
                return landed[place - 1]
            before = day - 1 if self.roll == "previous" else self._landing.previous(day - 1)
            day = None if before is None else self._previous_day(self._start(before + 1), bound)
        return None

    def _next_day(self, start: datetime, bound: datetime | None) -> int | None:
        """The day on which the first closed due time from `start` on lands."""
        due_at = self._times.next(instant_before(start))
        while due_at is not None:
            day = self._day_of(due_at)
            if self._closed.has(day):
                if self.roll == "next":
                    return self._landing.next(day + 1)
                return self._landing.previous(day - 1)
            if bound is not None and due_at > bound and self.roll == "next":
                return None
            following = self._closed.next(day + 1)
            if following is None or self._is_beyond(following, bound):
                return None
            due_at = self._times.next(instant_before(self._start(following)))
        return None

    def _is_beyond(self, closed: int, bound: datetime | None) -> bool:
        """Whether everything that rolls from a closed day lands after `bound`."""
        if bound is None:
            return False
        landing = closed if self.roll == "next" else self._landing.previous(closed - 1)
        return landing is not None and self._start(landing) > bound

    def _previous_day(self, end: datetime, bound: datetime | None) -> int | None:
        """The day on which the last closed due time before `end` lands."""
        due_at = self._times.before(end)
        while due_at is not None and (self._since is None or due_at > self._since):
            day = self._day_of(due_at)
            if self._closed.has(day):
                if self.roll == "next":
                    return self._landing.next(day + 1)
                return self._landing.previous(day - 1)
            if bound is not None and due_at < bound and self.roll == "previous":
                return None
            before = self._closed.previous(day - 1)
            if before is None or self._is_before(before, bound):
                return None
            due_at = self._times.before(self._start(before + 1))
        return None

    def _is_before(self, closed: int, bound: datetime | None) -> bool:
        if bound is None:
            return False
        landing = closed if self.roll == "previous" else self._landing.next(closed + 1)
        return landing is not None and self._start(landing + 1) <= bound

    def _landed_on(self, day: int) -> list[datetime]:
        """The instants of an open day on which closed due times land, in order."""
        return self._known_of(day)[0]

    def rolled_from(self, landed: datetime) -> datetime | None:
        """The last of the due times that roll to `landed`, if any does."""
        return self._known_of(self._day_of(landed))[1].get(landed) if self.rolls else None

    def _known_of(self, day: int) -> tuple[list[datetime], dict[datetime, datetime]]:
        known = self._landed.get(day)
        if known is None:
            if len(self._landed) >= MOST_KNOWN:
                self._landed.clear()
            origins: dict[datetime, datetime] = {}
            for at, landed in self._landings(day):
                origins[landed] = max(at, origins.get(landed, at))
            since = self._since or EARLIEST
            known = self._landed[day] = sorted(at for at in origins if at > since), origins
        return known

    def _landings(self, day: int) -> Iterator[tuple[datetime, datetime]]:
        """The closed due times that land on an open day, nearest first, each with its new instant.

        The same wall time of different days is looked up once.
        """
        known: dict[timedelta, datetime | None] = {}
        for (start, end), at in islice(self._rolling_to(day), MOST_LANDING):
            passed = at - start
            if end - start != _DAY:  # clocks change
                landed = self._at(day, at)
            elif passed in known:
                landed = known[passed]
            else:
                landed = known[passed] = self._at(day, at)
            if landed is not None:
                yield at, landed

    def _rolling_to(self, day: int) -> Iterator[tuple[Span, datetime]]:
        """The closed due times that roll to an open day, nearest first, each with its own day."""
        if self.roll == "next":
            before = self._landing.previous(day - 1)
            low = self._start(day - REACH if before is None else max(before + 1, day - REACH))
            return self._backwards(self._later(low), self._start(day))
        behind = self._landing.next(day + 1)
        last = day + REACH + 1
        high = self._start(last if behind is None else min(behind, last))
        return self._forwards(self._later(self._start(day + 1)), high)

    def _later(self, low: datetime) -> datetime:
        """`low`, or the end of what another definition decided if that is later."""
        return low if self._since is None else max(low, self._since + TICK)

    def _backwards(self, low: datetime, high: datetime) -> Iterator[tuple[Span, datetime]]:
        due_at = self._times.before(high)
        while due_at is not None and due_at >= low:
            around = self.day_around(due_at)
            closed = self._closed.has(self._day_of(due_at))
            while closed and due_at is not None and due_at >= max(around[0], low):
                yield around, due_at
                due_at = self._times.before(due_at)
            due_at = due_at if closed else self._times.before(around[0])

    def _forwards(self, low: datetime, high: datetime) -> Iterator[tuple[Span, datetime]]:
        due_at = self._times.next(instant_before(low))
        while due_at is not None and due_at < high:
            around = self.day_around(due_at)
            closed = self._closed.has(self._day_of(due_at))
            while closed and due_at is not None and due_at < min(around[1], high):
                yield around, due_at
                due_at = self._times.next(due_at)
            due_at = due_at if closed else self._times.next(instant_before(around[1]))

    # -- days and instants

    def _day_of(self, instant: datetime) -> int:
        """The day that an instant belongs to: the last one that has started."""
        start, end, day = self._recent
        if start <= instant < end:
            return day
        day = local_datetime(instant, self._tz).toordinal() - _FIRST
        if self._start(day + 1) <= instant:  # clocks went back over midnight
            day += 1
        elif self._start(day) > instant:
            day -= 1
        self._recent = (self._start(day), self._start(day + 1), day)
        return day

    def _start(self, day: int) -> datetime:
        ordinal = min(max(day + _FIRST, EARLIEST.toordinal()), LATEST.toordinal() - 1)
        return _day_start(ordinal, self._tz)

    def _at(self, day: int, due_at: datetime) -> datetime | None:
        """The wall time of a due time on another day: in a gap its end, in a fold the first."""
        wall = local_datetime(due_at, self._tz)
        moved = datetime.combine(date.fromordinal(day + _FIRST), wall.time())
        found = from_seconds(self._zone.first_at(wall_second(moved)))
        found = found.replace(microsecond=due_at.microsecond)
        return found if self._times.holds(found) else None


@lru_cache(maxsize=100_000)
def _day_start(ordinal: int, tz: str) -> datetime:
    return day_start(date.fromordinal(ordinal), tz)


def _without(days: Days, exclude: tuple[DateRange, ...]) -> Days:
    if not exclude:
        return days
    flags = bytearray(days.flags)
    for excluded in exclude:
        first = max(excluded.first, FIRST_DAY).toordinal() - _FIRST
        last = min(excluded.last, LAST_DAY).toordinal() - _FIRST
        if first <= last:
            flags[first : last + 1] = bytes(last + 1 - first)
    return Days(bytes(flags), days.outside)


def open_days(spec: ScheduleSpec) -> OpenDays | None:
    """The days of a definition with a resolved calendar; None: every day is open."""
    use = spec.calendar
    if use is None or use.days is None:
        return None
    times = Merged(spec.triggers, spec.start_at, spec.end_at)
    return _known(times, use.days, use.mode, use.roll, use.since, spec.exclude, spec.tz)


@lru_cache(maxsize=1_000)
def _known(
    times: Merged,
    days: DaySet,
    mode: CalendarMode,
    roll: Roll,
    since: datetime | None,
    exclude: tuple[DateRange, ...],
    tz: str,
) -> OpenDays:
    """Cached, as every plan asks about the same definition."""
    return OpenDays(times, days, mode, roll, since, exclude, tz)

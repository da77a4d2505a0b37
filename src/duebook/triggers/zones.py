"""Turns wall-clock times into instants; the only place that knows about gaps and folds.

A *wall second* counts the seconds of a local calendar as if it had no gaps and folds: midnight
of 1 January 1970 on the wall is 0, whatever the zone. A zone is a row of segments, and within a
segment wall second and UTC second differ by a constant.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta, timezone
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import tzdata

from duebook.errors import InvalidTime, InvalidTrigger, shorten
from duebook.triggers import tzif

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import tzinfo

__all__ = [
    "DAY",
    "EPOCH",
    "FIRST_SECOND",
    "LAST_SECOND",
    "Fold",
    "Gap",
    "Jump",
    "Line",
    "Pattern",
    "Zone",
    "day_start",
    "from_seconds",
    "known_zones",
    "lend",
    "line",
    "local_datetime",
    "members",
    "take_back",
    "to_seconds",
    "tzdata_version",
    "wall_datetime",
    "wall_second",
    "zone",
    "zone_file",
    "zone_name",
]

Gap = Literal["run_after", "skip"]
Fold = Literal["first", "both"]

DAY: Final = 86_400
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NAIVE_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - wall times are naive by nature
FIRST_SECOND: Final = -62_135_596_800  # 0001-01-01T00:00:00
LAST_SECOND: Final = 253_402_300_799  # 9999-12-31T23:59:59
NEAR_YEAR: Final = 2100
LONGEST_DST_JUMP: Final = 3 * 3_600
"""A jump this long is a change of sides of the date line, not daylight saving."""


def tzdata_version() -> str:
    """The IANA release in use, such as 2026f: nodes with different ones may disagree."""
    return str(tzdata.IANA_VERSION)


def to_seconds(instant: datetime) -> int:
    """Whole UTC seconds since 1970, rounded down, within the years 1 to 9999.

    Raises InvalidTime for a naive datetime.
    """
    try:
        since = instant - EPOCH
    except TypeError:
        raise InvalidTime(
            f'"{shorten(str(instant))}" is not a time with a zone; write datetime(…, tzinfo=UTC)'
        ) from None
    seconds = since.days * DAY + since.seconds
    if FIRST_SECOND <= seconds <= LAST_SECOND:
        return seconds
    return FIRST_SECOND - 1 if seconds < FIRST_SECOND else LAST_SECOND


def from_seconds(seconds: int) -> datetime:
    return EPOCH + timedelta(0, seconds)


def wall_datetime(wall: int) -> datetime:
    """A wall second as the naive datetime that a clock on that wall shows, in years 1 to 9999."""
    return NAIVE_EPOCH + timedelta(0, min(max(wall, FIRST_SECOND), LAST_SECOND))


def wall_second(moment: datetime) -> int:
    """A naive datetime as its wall second."""
    since = moment - NAIVE_EPOCH
    return since.days * DAY + since.seconds


def day_start(day: date, tz: str) -> datetime:
    """The first instant of a calendar day in a zone."""
    wall = wall_second(datetime(day.year, day.month, day.day))  # noqa: DTZ001 - a wall time
    return from_seconds(max(zone(tz).first_at(wall), FIRST_SECOND))


def local_datetime(instant: datetime, tz: str) -> datetime:
    """The instant on the wall clock of a zone, with its offset from UTC."""
    offset = zone(tz).offset_at(to_seconds(instant))
    try:
        return instant.astimezone(timezone(timedelta(0, offset)))
    except OverflowError:  # the first and the last day of the calendar
        return instant


class Pattern(Protocol):
    """A set of wall seconds: the calendar side of a trigger, independent of zones."""

    def next(self, wall: int) -> int | None:
        """The first member at or after `wall`."""

    def previous(self, wall: int) -> int | None:
        """The last member at or before `wall`."""

    def count(self, start: int, end: int, enough: int) -> int:
        """How many members lie in [start, end); may stop counting beyond `enough`."""


class Jump(NamedTuple):
    """The clocks of a zone change at UTC second `at` from `before` to `after` (wall seconds)."""

    at: int
    before: int
    after: int


class Zone:
    """One time zone as segments; created by `zone(name)`."""

    def __init__(self, name: str, data: tzif.ZoneData) -> None:
        self.name = name
        self._data = data
        self._near = self._segments(NEAR_YEAR)

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    def segments(self, far: bool) -> tuple[list[int], list[int]]:
        """First UTC seconds and offsets, up to NEAR_YEAR or for all time."""
        return self._far if far and self._data.rule else self._near

    @cached_property
    def _far(self) -> tuple[list[int], list[int]]:
        return self._segments(9999)

    @property
    def end_of_near(self) -> int:
        """The UTC second from which the near segments no longer hold."""
        if self._data.rule is None:
            return LAST_SECOND + 1
        return to_seconds(datetime(NEAR_YEAR, 12, 1, tzinfo=UTC))

    def offset_at(self, second: int) -> int:
        starts, offsets = self.segments(far=second >= self.end_of_near)
        return offsets[bisect_right(starts, second) - 1]

    def wall_at(self, second: int) -> int:
        """The wall second that clocks show at a UTC second."""
        return second + self.offset_at(second)

    def first_at(self, wall: int) -> int:
        """The first UTC second at which clocks show `wall`, or have jumped over it."""
        starts, offsets, i = self._around(wall)
        while i + 1 < len(starts) and starts[i + 1] + offsets[i] <= wall:
            i += 1
        return max(starts[i], wall - offsets[i])

    def last_at(self, wall: int) -> int:
        """The last UTC second at which clocks show `wall`; before a gap that jumps over it."""
        starts, offsets, i = self._around(wall + 4 * DAY)
        while i > 0 and starts[i] + offsets[i] > wall:
            i -= 1
        end = starts[i + 1] - 1 if i + 1 < len(starts) else LAST_SECOND
        return min(end, wall - offsets[i])

    def _around(self, wall: int) -> tuple[list[int], list[int], int]:
        """The segments, and the index of one that surely starts before clocks show `wall`."""
        starts, offsets = self.segments(far=wall + DAY >= self.end_of_near)
        return starts, offsets, max(0, bisect_right(starts, wall - 2 * DAY) - 1)

    def jumps(self, after: int, until: int) -> Iterator[Jump]:
        """The changes of offset whose instant lies in (after, until], in order."""
        starts, offsets = self.segments(far=until >= self.end_of_near)
        for i in range(max(1, bisect_right(starts, after)), bisect_right(starts, until)):
            yield Jump(starts[i], starts[i] + offsets[i - 1], starts[i] + offsets[i])

    def _segments(self, last_year: int) -> tuple[list[int], list[int]]:
        starts, offsets = [FIRST_SECOND - DAY], [self._data.first_offset]
        for start, offset in self._changes(last_year):
            if start == starts[-1]:
                offsets[-1] = offset
            elif offset != offsets[-1]:
                starts.append(start)
                offsets.append(offset)
        return starts, offsets

    def _changes(self, last_year: int) -> Iterator[tzif.Change]:
        yield from self._data.changes
        if rule := self._data.rule:
            last = self._data.changes[-1][0] if self._data.changes else FIRST_SECOND
            for year in range(from_seconds(last).year, last_year + 1):
                yield from (change for change in rule.changes(year) if change[0] > last)


_lent: Final[dict[str, Zone]] = {}


@lru_cache(maxsize=1024)
def zone(name: str) -> Zone:
    """The zone of that IANA name, from the tzdata package; raises InvalidTrigger with a hint."""
    if (lent := _lent.get(name)) is not None:
        return lent
    if name not in _names():
        raise InvalidTrigger(f'tz "{shorten(name)}" is not a time zone{_hint(name)}', "tz")
    return Zone(name, tzif.decode(zone_file(name)))


def lend(found: Zone) -> None:
    """Register a zone of other time zone data under its name, which must be unused."""
    _lent[found.name] = found


def take_back(names: Iterable[str]) -> None:
    """Unregister such zones, so that a process can compare any number of times."""
    for name in names:
        _lent.pop(name, None)
    zone.cache_clear()


def zone_file(name: str) -> bytes:
    """The file of a zone of the tzdata package."""
    return _read(f"zoneinfo/{name}")


def known_zones() -> list[str]:
    """The names of all zones of the tzdata package."""
    return sorted(_names())


def zone_name(tz: str | tzinfo) -> str:
    """The IANA name of a text or tzinfo; raises InvalidTrigger unless it is a known zone."""
    name = getattr(tz, "key", None) or ("UTC" if tz is UTC else tz)
    if not isinstance(name, str):
        raise InvalidTrigger(
            f"tz {shorten(tz)} has no IANA name; use a name such as Europe/Brussels", "tz"
        )
    return zone(name).name


@cache
def _names() -> frozenset[str]:
    return frozenset(_read("zones").decode().split())


def _read(path: str) -> bytes:
    """A file of the tzdata package, wherever it was imported from."""
    return bytes(tzdata.__loader__.get_data(f"{tzdata.__path__[0]}/{path}"))


def _hint(name: str) -> str:
    from difflib import get_close_matches  # slow to import, and needed only for mistakes

    by_lower = {known.lower(): known for known in _names()}
    by_city = {known.lower().rpartition("/")[2]: known for known in sorted(_names())}
    wanted = name[:100].lower().replace(" ", "_")
    if close := get_close_matches(wanted, by_lower, n=1):
        return f"; did you mean {by_lower[close[0]]}?"
    if close := get_close_matches(wanted.rpartition("/")[2], by_city, n=1, cutoff=0.8):
        return f"; did you mean {by_city[close[0]]}?"
    return "; use a name such as Europe/Brussels or UTC"


class Line:
    """The instants of wall seconds in one zone under one gap and fold policy.

    In segment i, the wall seconds from `_low[i]` up to, not including, `_high[i]` are due; those
    below the segment's own first wall second lie in the gap before it and are due when it starts. A
    wildcard expression follows real time, which is exactly gap="skip" with fold="both".
    """

    def __init__(self, zone: Zone, gap: Gap, fold: Fold, far: bool) -> None:
        self.zone = zone
        self.gap: Gap = gap
        self.fold: Fold = fold
        self._starts, self._offsets = zone.segments(far)
        self._end = LAST_SECOND + 1 if far else zone.end_of_near
        self._high = [
            start + offset for start, offset in zip(self._starts[1:], self._offsets, strict=False)
        ]
        self._high.append(min(self._end + self._offsets[-1], LAST_SECOND + 1))
        self._low, self._gap_from = self._edges()

    def catches_up(self, jump: Jump) -> bool:
        """Whether wall times that the clocks jumped over are due when the gap ends."""
        return self.gap == "run_after" and jump.after - jump.before < LONGEST_DST_JUMP

    def _edges(self) -> tuple[list[int], list[int]]:
        """Per segment, its first due wall second and the first one that the clocks jumped over."""
        lows = [max(FIRST_SECOND, FIRST_SECOND + self._offsets[0])]
        gap_from = [lows[0]]
        seen = self._high[0]  # every wall second below has been shown, or jumped over
        for i in range(1, len(self._starts)):
            begins = self._starts[i] + self._offsets[i]
            jump = Jump(self._starts[i], self._high[i - 1], begins)
            if seen < begins and self.catches_up(jump):
                lows.append(seen)
            else:
                lows.append(max(begins, seen) if self.fold == "first" else begins)
            gap_from.append(min(seen, begins))
            seen = max(seen, self._high[i])
        return lows, gap_from

    def next(self, pattern: Pattern, second: int) -> int | None:
        """The first due UTC second after `second`."""
        starts, lows, high = self._starts, self._low, self._high
        if second >= self._end:
            return self._far().next(pattern, second) if self._end <= LAST_SECOND else None
        asked, second = second, second + 1
        i = bisect_right(starts, second) - 1
        wall = second + self._offsets[i]
        if wall < lows[i] or second == starts[i]:
            wall = lows[i]
        due = pattern.next(wall)
        while due is None or due >= high[i]:
            i += 1
            if i == len(starts):
                return self._far().next(pattern, asked) if self._end <= LAST_SECOND else None
            low = lows[i]
            if low < wall or (due is not None and due < low):
                wall, due = low, pattern.next(low)
            elif due is None:
                return None
        due -= self._offsets[i]
        return max(due, starts[i])

    def previous(self, pattern: Pattern, second: int) -> int | None:
        """The last due UTC second before `second`."""
        if second > self._end:
            return self._far().previous(pattern, second)
        starts, lows, high = self._starts, self._low, self._high
        i = bisect_right(starts, second - 1) - 1
        wall = min(second - 1 + self._offsets[i], high[i] - 1)
        due = pattern.previous(wall)
        while due is None or due < lows[i]:
            i -= 1
            if i < 0:
                return None
            top = high[i] - 1
            if top > wall or (due is not None and due > top):
                wall, due = top, pattern.previous(top)
            elif due is None:
                return None
        due -= self._offsets[i]
        return max(due, starts[i])

    def count(self, pattern: Pattern, after: int, until: int, enough: int) -> int:
        """How many due seconds lie in (after, until]; may stop counting beyond `enough`."""
        if until >= self._end:
            return self._far().count(pattern, after, until, enough)
        total = 0
        first = bisect_right(self._starts, after + 1) - 1
        for i in range(first, bisect_right(self._starts, until)):
            total += self._count_in(i, pattern, after + 1, until, enough)
            if total > enough:
                break
        return total

    def _count_in(self, i: int, pattern: Pattern, first: int, until: int, enough: int) -> int:
        start, offset = self._starts[i], self._offsets[i]
        low = self._low[i] if first <= start else max(first + offset, self._low[i])
        high = min(until + 1 + offset, self._high[i])
        if low >= high:
            return 0
        begins = start + offset
        if low >= begins:
            return pattern.count(low, high, enough)
        earliest = pattern.next(low)  # all wall times in the gap are due at one instant, its end
        at_gap_end = earliest is not None and earliest <= begins
        return at_gap_end + pattern.count(begins + 1, high, enough)

    def lost(self, pattern: Pattern, after: int, until: int) -> Iterator[tuple[int, int | None]]:
        """Members that the clocks jumped over in (after, until], and the second they moved to."""
        if until >= self._end:
            yield from self._far().lost(pattern, after, until)
            return
        first = max(1, bisect_right(self._starts, after))
        for i in range(first, bisect_right(self._starts, until)):
            begins = self._starts[i] + self._offsets[i]
            moved_to = self._starts[i] if self._low[i] < begins else None
            for wall in members(pattern, self._gap_from[i], begins):
                yield wall, moved_to

    def _far(self) -> Line:
        return line(self.zone.name, self.gap, self.fold, far=True)


@lru_cache(maxsize=4096)
def line(name: str, gap: Gap, fold: Fold, far: bool = False) -> Line:
    """The shared Line of a zone and policy."""
    return Line(zone(name), gap, fold, far)


def members(pattern: Pattern, start: int, end: int) -> Iterator[int]:
    """The members of a pattern in [start, end), in order."""
    wall = pattern.next(start)
    while wall is not None and wall < end:
        yield wall
        wall = pattern.next(wall + 1)

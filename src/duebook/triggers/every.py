"""The every trigger: a fixed length of time, or whole days that keep their wall time."""

from __future__ import annotations

from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from duebook.errors import InvalidTrigger
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_duration, format_instant, parse_duration, parse_instant
from duebook.triggers.base import (
    COUNT_LIMIT,
    Timeline,
    TimelineTrigger,
    TriggerWarning,
    WallTimeline,
    check_policy,
    policy_json,
    reading,
)
from duebook.triggers.cautions import jump_cautions, policy_cautions
from duebook.triggers.days import EveryNDays
from duebook.triggers.daytimes import Calendar, ClockTimes
from duebook.triggers.words import clock
from duebook.triggers.zones import (
    DAY,
    FIRST_SECOND,
    LAST_SECOND,
    Fold,
    Gap,
    Line,
    line,
    to_seconds,
    wall_datetime,
    zone,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

__all__ = ["Every", "every"]


@dataclass(frozen=True, slots=True)
class Every(TimelineTrigger):
    """Due at anchor + k * period for every whole k; without an anchor, one period after each query.

    Whole days in a zone other than UTC are calendar days: they keep the anchor's wall time.
    """

    period: timedelta
    anchor: datetime | None = None
    tz: str = "UTC"
    gap: Gap = "run_after"
    fold: Fold = "first"
    timeline: Timeline = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        timeline = _timeline(self.period, self.anchor, self.tz, self.gap, self.fold)
        object.__setattr__(self, "timeline", timeline)

    @property
    def text(self) -> str:
        return f"every {format_duration(self.period)}"

    def describe(self) -> str:
        parts = [f"Every {_words(self.period)}"]
        if self.anchor and isinstance(self.timeline, WallTimeline):
            wall = zone(self.tz).wall_at(to_seconds(self.anchor))
            parts.append(f" at {clock(wall % DAY)}, counted from {wall_datetime(wall):%Y-%m-%d}")
        elif self.anchor:
            parts.append(f", counted from {format_instant(self.anchor)}")
        return "".join(parts) + f" ({self.tz})"

    def warnings(self, now: datetime | None = None) -> tuple[TriggerWarning, ...]:
        if isinstance(self.timeline, WallTimeline):
            return tuple(jump_cautions(self.timeline.line, self.timeline.pattern, now))
        if not _is_calendar(self.period, self.tz):
            return tuple(policy_cautions(self.gap, self.fold, "a length of real time"))
        return ()

    def anchored(self, instant: datetime) -> Every:
        return self if self.anchor else replace(self, anchor=instant.replace(microsecond=0))

    def to_json(self) -> dict[str, Any]:
        anchor = {"anchor": format_instant(self.anchor)} if self.anchor else {}
        options = policy_json(self.tz, self.gap, self.fold)
        return {"every": format_duration(self.period), **anchor, **options}


def every(
    period: str | timedelta,
    anchor: str | datetime | None = None,
    tz: str | tzinfo = "UTC",
    gap: str = "run_after",
    fold: str = "first",
) -> Every:
    """A trigger that recurs after a length of time, such as 15m, 1h30m, 1d or 2w.

    Raises InvalidTrigger for lengths below one second or above a century.

    >>> every("15m", anchor="2026-01-01T00:00:00Z").describe()
    'Every 15 minutes, counted from 2026-01-01T00:00:00Z (UTC)'
    """
    length = reading("every", parse_duration, period)
    if not timedelta(seconds=1) <= length <= timedelta(days=36_525):
        raise InvalidTrigger(
            f'every "{format_duration(length)}" is out of range 1s to 36525d (a century)', "every"
        )
    moment = None if anchor is None else reading("anchor", parse_instant, anchor)
    name, gap, fold = check_policy(tz, gap, fold)
    return Every(length, moment and moment.replace(microsecond=0), name, gap, fold)


def _is_calendar(period: timedelta, tz: str) -> bool:
    return period % timedelta(days=1) == timedelta() and tz != "UTC"


def _words(period: timedelta) -> str:
    units = [("week", 7 * DAY), ("day", DAY), ("hour", 3_600), ("minute", 60), ("second", 1)]
    rest = period.days * DAY + period.seconds
    if rest % (7 * DAY):
        del units[0]
    parts = []
    for name, size in units:
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {name}{'s' if number > 1 else ''}")
    text = " ".join(parts)
    return text.removeprefix("1 ") if len(parts) == 1 else text


@lru_cache(maxsize=8192)
def _timeline(
    period: timedelta, anchor: datetime | None, tz: str, gap: Gap, fold: Fold
) -> Timeline:
    seconds = period.days * DAY + period.seconds
    if _is_calendar(period, tz):
        if anchor is None:
            return _FloatingDays(period.days, line(tz, gap, fold))
        day, second = divmod(zone(tz).wall_at(to_seconds(anchor)), DAY)
        calendar = Calendar(EveryNDays(period.days, day), ClockTimes((second,)))
        return WallTimeline(line(tz, gap, fold), calendar)
    return _Floating(seconds) if anchor is None else _Anchored(seconds, to_seconds(anchor))


def _in_range(second: int) -> int | None:
    return second if FIRST_SECOND <= second <= LAST_SECOND else None


class _Elapsed:
    """Real time has no gaps."""

    def lost(self, after: int, until: int) -> Iterator[tuple[int, int | None]]:  # noqa: ARG002
        return iter(())


class _Anchored(_Elapsed):
    def __init__(self, period: int, anchor: int) -> None:
        self._period = period
        self._anchor = anchor

    def next(self, second: int) -> int | None:
        return _in_range(second + self._period - (second - self._anchor) % self._period)

    def previous(self, second: int) -> int | None:
        return _in_range(second - 1 - (second - 1 - self._anchor) % self._period)

    def count(self, after: int, until: int) -> int:
        return (until - self._anchor) // self._period - (after - self._anchor) // self._period


class _Floating(_Elapsed):
    """Without an anchor, each due time counts from the instant of the query."""

    def __init__(self, period: int) -> None:
        self._period = period

    def next(self, second: int) -> int | None:
        return _in_range(second + self._period)

    def previous(self, second: int) -> int | None:
        return _in_range(second - self._period)

    def count(self, after: int, until: int) -> int:
        return (until - after) // self._period


class _FloatingDays:
    """Calendar days without an anchor: the same wall time, that many days after the query."""

    def __init__(self, days: int, line: Line) -> None:
        self._days = days
        self._line = line

    def next(self, second: int) -> int | None:
        pattern, today = self._from(second)
        due = self._line.next(pattern, second)
        while due is not None and self._day(due) == today:
            due = self._line.next(pattern, due)
        return due

    def previous(self, second: int) -> int | None:
        pattern, today = self._from(second)
        due = self._line.previous(pattern, second)
        while due is not None and self._day(due) == today:
            due = self._line.previous(pattern, due)
        return due

    def count(self, after: int, until: int) -> int:
        number, due = 0, self.next(after)
        while due is not None and due <= until and number <= COUNT_LIMIT:
            number, due = number + 1, self.next(due)
        return number

    def lost(self, after: int, until: int) -> Iterator[tuple[int, int | None]]:
        due = self.next(after)
        while due is not None and due <= until:
            yield from self._line.lost(self._from(after)[0], after, due)
            after, due = due, self.next(due)

    def _from(self, second: int) -> tuple[Calendar, int]:
        day, of_day = divmod(self._line.zone.wall_at(second), DAY)
        return Calendar(EveryNDays(self._days, day), ClockTimes((of_day,))), day

    def _day(self, second: int) -> int:
        return self._line.zone.wall_at(second) // DAY

"""The daily trigger: times of day on every day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from duebook.errors import InvalidTrigger
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_time, parse_time
from duebook.triggers.base import (
    TimelineTrigger,
    TriggerWarning,
    WallTimeline,
    check_policy,
    policy_json,
    reading,
)
from duebook.triggers.cautions import jump_cautions
from duebook.triggers.days import DaySet, EveryNDays
from duebook.triggers.daytimes import Calendar, ClockTimes
from duebook.triggers.words import join
from duebook.triggers.zones import Fold, Gap, line

if TYPE_CHECKING:
    from datetime import datetime, time, tzinfo

__all__ = ["Daily", "daily", "day_times", "sorted_times"]

MAX_TIMES = 1_440


@dataclass(frozen=True, slots=True)
class Daily(TimelineTrigger):
    """Due at each of `times` on the wall clock of `tz`."""

    times: tuple[time, ...]
    tz: str = "UTC"
    gap: Gap = "run_after"
    fold: Fold = "first"
    timeline: WallTimeline = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        timeline = _timeline(self.times, self.tz, self.gap, self.fold)
        object.__setattr__(self, "timeline", timeline)

    @property
    def text(self) -> str:
        return f"daily {','.join(map(format_time, self.times))}"

    def describe(self) -> str:
        return f"At {join([format_time(t) for t in self.times])} every day ({self.tz})"

    def warnings(self, now: datetime | None = None) -> tuple[TriggerWarning, ...]:
        return tuple(jump_cautions(self.timeline.line, self.timeline.pattern, now))

    def to_json(self) -> dict[str, Any]:
        times = [format_time(t) for t in self.times]
        return {"daily": times, **policy_json(self.tz, self.gap, self.fold)}


def daily(
    *times: str | time | Iterable[str | time],
    tz: str | tzinfo = "UTC",
    gap: str = "run_after",
    fold: str = "first",
) -> Daily:
    """A trigger for one or more times of each day; raises InvalidTrigger.

    >>> daily("07:00", "17:30", tz="Europe/Brussels").describe()
    'At 07:00 and 17:30 every day (Europe/Brussels)'
    """
    flat: list[object] = []
    for item in times:
        flat += item if isinstance(item, Iterable) and not isinstance(item, str) else [item]
    return Daily(sorted_times("daily", flat), *check_policy(tz, gap, fold))


def sorted_times(field: str, texts: list[object]) -> tuple[time, ...]:
    """Times of day in order, each once; raises InvalidTrigger that names the field."""
    if not 1 <= len(texts) <= MAX_TIMES:
        raise InvalidTrigger(
            f"{field} accepts 1 to {MAX_TIMES:,} times such as 07:00, not {len(texts):,}", field
        )
    return tuple(sorted({reading(field, parse_time, text) for text in texts}))


def day_times(days: DaySet, times: tuple[time, ...]) -> Calendar:
    """The calendar of those times on those days."""
    seconds = tuple(t.hour * 3_600 + t.minute * 60 + t.second for t in times)
    return Calendar(days, ClockTimes(seconds))


@lru_cache(maxsize=8192)
def _timeline(times: tuple[time, ...], tz: str, gap: Gap, fold: Fold) -> WallTimeline:
    return WallTimeline(line(tz, gap, fold), day_times(EveryNDays(1), times))

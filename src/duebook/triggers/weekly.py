"""The weekly trigger: times of day on certain weekdays."""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import InvalidTrigger, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_time
from duebook.triggers.base import (
    TimelineTrigger,
    TriggerWarning,
    WallTimeline,
    check_policy,
    policy_json,
)
from duebook.triggers.cautions import jump_cautions
from duebook.triggers.daily import day_times, sorted_times
from duebook.triggers.days import Weekdays
from duebook.triggers.words import join, weekday_list
from duebook.triggers.zones import Fold, Gap, line

if TYPE_CHECKING:
    from datetime import datetime, time, tzinfo

__all__ = ["Weekly", "weekly"]

_NAMES: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class Weekly(TimelineTrigger):
    """Due at each of `times` on each of `weekdays` (0 is Sunday) on the wall clock of `tz`."""

    weekdays: tuple[int, ...]
    times: tuple[time, ...]
    tz: str = "UTC"
    gap: Gap = "run_after"
    fold: Fold = "first"
    timeline: WallTimeline = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        timeline = _timeline(self.weekdays, self.times, self.tz, self.gap, self.fold)
        object.__setattr__(self, "timeline", timeline)

    @property
    def text(self) -> str:
        return f"weekly {self._days_and_times()}"

    def describe(self) -> str:
        days = weekday_list(self.weekdays)
        days = days if " to " in days else f"on {days}"
        return f"At {join([format_time(t) for t in self.times])}, {days} ({self.tz})"

    def warnings(self, now: datetime | None = None) -> tuple[TriggerWarning, ...]:
        return tuple(jump_cautions(self.timeline.line, self.timeline.pattern, now))

    def to_json(self) -> dict[str, Any]:
        return {"weekly": self._days_and_times(), **policy_json(self.tz, self.gap, self.fold)}

    def _days_and_times(self) -> str:
        days = ",".join(_NAMES[day] for day in sorted(self.weekdays, key=lambda day: (day - 1) % 7))
        return f"{days} {','.join(map(format_time, self.times))}"


def weekly(
    text: str, tz: str | tzinfo = "UTC", gap: str = "run_after", fold: str = "first"
) -> Weekly:
    """A trigger from weekdays and times, such as "MON,WED,FRI 09:00" or "MON-FRI 09:00,17:00".

    Raises InvalidTrigger.

    >>> weekly("MON,WED,FRI 09:00", tz="Europe/Brussels").describe()
    'At 09:00, on Monday, Wednesday and Friday (Europe/Brussels)'
    """
    parts = text.split() if isinstance(text, str) and len(text) <= 1_000 else []
    if len(parts) != 2:
        raise InvalidTrigger(
            f'weekly "{shorten(text)}" is not a list of weekdays and times such as "MON,WED,FRI '
            '09:00"',
            "weekly",
        )
    days, times = parts
    weekdays = {day for item in days.upper().split(",") for day in _weekdays(item, text)}
    return Weekly(
        tuple(sorted(weekdays)),
        sorted_times("weekly", list(times.split(","))),
        *check_policy(tz, gap, fold),
    )


def _weekdays(item: str, text: str) -> list[int]:
    first, dash, last = item.partition("-")
    if first not in _NAMES or (dash and last not in _NAMES):
        raise InvalidTrigger(
            f'weekly "{shorten(item)}" is not a weekday MON to SUN in "{shorten(text)}"', "weekly"
        )
    start = (_NAMES.index(first) - 1) % 7
    end = (_NAMES.index(last) - 1) % 7 if dash else start
    if start > end:
        raise InvalidTrigger(
            f'weekly "{item}" runs backwards in "{shorten(text)}"; a week goes from MON to SUN',
            "weekly",
        )
    return [(day + 1) % 7 for day in range(start, end + 1)]


@lru_cache(maxsize=8192)
def _timeline(
    weekdays: tuple[int, ...], times: tuple[time, ...], tz: str, gap: Gap, fold: Fold
) -> WallTimeline:
    return WallTimeline(line(tz, gap, fold), day_times(Weekdays(frozenset(weekdays)), times))

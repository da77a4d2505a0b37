"""The cron trigger: an expression compiled to a calendar, seen through its zone."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import InvalidTrigger, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.triggers.base import (
    TimelineTrigger,
    Trigger,
    TriggerWarning,
    WallTimeline,
    check_policy,
    policy_json,
)
from duebook.triggers.cautions import cron_cautions, jump_cautions
from duebook.triggers.cron_words import describe_fields
from duebook.triggers.days import DaySet, EveryNDays, MonthDays, Weekdays
from duebook.triggers.daytimes import Calendar, ClockFields
from duebook.triggers.every import every
from duebook.triggers.fields import MAX_LENGTH, Field, Fields, check_text, parse_fields
from duebook.triggers.words import MONTHS, WEEKDAYS
from duebook.triggers.zones import Fold, Gap, line, zone_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, tzinfo

__all__ = ["Cron", "cron"]


@dataclass(frozen=True, slots=True)
class Cron(TimelineTrigger):
    """Due when the wall clock of `tz` matches the expression."""

    expression: str
    tz: str = "UTC"
    gap: Gap = "run_after"
    fold: Fold = "first"
    key: str | None = None
    timeline: WallTimeline = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        timeline = _timeline(self.expression, self.key, self.tz, self.gap, self.fold)
        object.__setattr__(self, "timeline", timeline)

    @property
    def text(self) -> str:
        return self.expression

    def describe(self) -> str:
        return f"{describe_fields(_compiled(self.expression, self.key)[0])} ({self.tz})"

    def warnings(self, now: datetime | None = None) -> tuple[TriggerWarning, ...]:
        fields, calendar = _compiled(self.expression, self.key)
        cautions = list(cron_cautions(fields, self.gap, self.fold))
        if not fields.hour.unrestricted:  # if due every hour, it follows real time
            cautions += jump_cautions(self.timeline.line, calendar, now)
        return tuple(cautions)

    @property
    def follows_real_time(self) -> bool:
        """Whether gaps and folds do not affect it, as it has no fixed wall times."""
        return _compiled(self.expression, self.key)[0].follows_real_time

    def why_not(self, wall: datetime) -> str | None:
        """Which field excludes a wall time, the largest first; None when all of them allow it."""
        return _exclusion(_compiled(self.expression, self.key)[0], wall)

    def to_json(self) -> dict[str, Any]:
        key = {} if self.key is None else {"key": self.key}
        return {"cron": self.expression, **policy_json(self.tz, self.gap, self.fold), **key}


_ZONE_PREFIX: Final = re.compile(r"(?:CRON_)?TZ=(\S*)\s+(.*)", re.DOTALL)
_HASHED: Final = re.compile(r"(?:^|[\s,])H", re.IGNORECASE)
_EVERY: Final = re.compile(r"@every\s+(\S+)", re.IGNORECASE)


def cron(
    expression: str,
    tz: str | tzinfo | None = None,
    gap: str = "run_after",
    fold: str = "first",
    key: str | None = None,
) -> Trigger:
    """A trigger from a cron expression; `@every 1h30m` gives the same value as every("1h30m").

    5 fields, 6 with seconds first, or a descriptor such as @hourly; an optional CRON_TZ=Zone
    prefix; `key` is what H hashes. Raises InvalidTrigger, also for expressions that never fire.

    >>> cron("30 2 * * 1-5", tz="Europe/Brussels").describe()
    'At 02:30, Monday to Friday (Europe/Brussels)'
    """
    check_text(expression)
    expression, tz = _split_zone(expression.strip(), tz)
    zone, gap, fold = check_policy(tz, gap, fold)
    if key is not None:
        _check_key(key)
    if match := _EVERY.fullmatch(expression):
        return every(match[1], tz=zone, gap=gap, fold=fold)
    hashed = _HASHED.search(expression) is not None
    return Cron(" ".join(expression.split()), zone, gap, fold, key if hashed else None)


def _check_key(key: object) -> None:
    if isinstance(key, str) and 0 < len(key) <= MAX_LENGTH and key.isprintable():
        return
    raise InvalidTrigger(
        f'key "{shorten(key)}" is not a printable string of 1 to {MAX_LENGTH:,} characters, '
        "such as a schedule's name",
        "key",
    )


def _split_zone(expression: str, tz: str | tzinfo | None) -> tuple[str, str | tzinfo]:
    if not (match := _ZONE_PREFIX.fullmatch(expression)):
        return expression, "UTC" if tz is None else tz
    if tz is not None and zone_name(tz) != match[1]:
        raise InvalidTrigger(
            f'tz "{shorten(tz)}" contradicts the zone in "{shorten(expression)}"; give only one',
            "tz",
        )
    return match[2], match[1]


@lru_cache(maxsize=8192)
def _timeline(expression: str, key: str | None, tz: str, gap: Gap, fold: Fold) -> WallTimeline:
    fields, calendar = _compiled(expression, key)
    if fields.follows_real_time:
        gap, fold = "skip", "both"
    return WallTimeline(line(tz, gap, fold), calendar)


@lru_cache(maxsize=8192)
def _compiled(expression: str, key: str | None) -> tuple[Fields, Calendar]:
    fields = parse_fields(expression, key)
    times = ClockFields(fields.hour.values, fields.minute.values, fields.second.values)
    return fields, Calendar(_days(fields, expression), times)


def _days(fields: Fields, expression: str) -> DaySet:
    day_of_month, month, day_of_week = fields.day_of_month, fields.month, fields.day_of_week
    if month.unrestricted and day_of_month.unrestricted and not day_of_week.specials:
        if day_of_week.unrestricted:
            return EveryNDays(1)
        if not fields.either_day:
            return Weekdays(frozenset(day_of_week.values))
    days = MonthDays(frozenset(month.values), _month_mask(fields))
    if not days.ever:
        raise InvalidTrigger(
            f'"{shorten(expression)}" never fires: that month has no such day', "day-of-month"
        )
    return days


def _month_mask(fields: Fields) -> Callable[[int, int], int]:
    def mask(length: int, first_weekday: int) -> int:
        of_month = _of_month(fields.day_of_month, length, first_weekday)
        of_week = _of_week(fields.day_of_week, length, first_weekday)
        return of_month | of_week if fields.either_day else of_month & of_week

    return mask


def _exclusion(fields: Fields, wall: datetime) -> str | None:
    if wall.month not in fields.month.values:
        return f"the month field excludes {MONTHS[wall.month - 1]}"
    if why := _excluded_day(fields, wall):
        return why
    for part, value in (
        (fields.hour, wall.hour),
        (fields.minute, wall.minute),
        (fields.second, wall.second),
    ):
        if value not in part.values:
            return f"the {part.spec.name} field excludes {value}"
    return None


def _excluded_day(fields: Fields, wall: datetime) -> str | None:
    length = monthrange(wall.year, wall.month)[1]
    weekday = wall.isoweekday() % 7
    first_weekday = (weekday - wall.day + 1) % 7
    in_month = _of_month(fields.day_of_month, length, first_weekday) >> wall.day & 1
    in_week = _of_week(fields.day_of_week, length, first_weekday) >> wall.day & 1
    day = f"{WEEKDAYS[weekday]} {wall.day} {MONTHS[wall.month - 1]}"
    if fields.either_day:
        both = f"the day-of-month and day-of-week fields exclude {day}"
        return None if in_month or in_week else both
    if not in_month:
        return f"the day-of-month field excludes {wall.day}"
    if not in_week:
        named = day if fields.day_of_week.specials else WEEKDAYS[weekday]
        return f"the day-of-week field excludes {named}"
    return None


def _of_month(field: Field, length: int, first_weekday: int) -> int:
    """The member days of a month as bits 1 to 31."""
    mask = 0
    for day in field.values:
        mask |= 1 << day
    for kind, day in field.specials:
        if kind == "L":
            mask |= 1 << length
        elif kind == "LW":
            mask |= 1 << _nearest_weekday(length, length, first_weekday)
        elif day <= length:
            mask |= 1 << _nearest_weekday(day, length, first_weekday)
    return mask & ((2 << length) - 1)


def _nearest_weekday(day: int, length: int, first_weekday: int) -> int:
    """The day from Monday to Friday nearest to `day` within its month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:  # Saturday
        return day - 1 if day > 1 else day + 2
    if weekday == 0:  # Sunday
        return day + 1 if day < length else day - 2
    return day


def _of_week(field: Field, length: int, first_weekday: int) -> int:
    mask = 0
    for weekday in field.values:
        for day in range(_first(weekday, first_weekday), length + 1, 7):
            mask |= 1 << day
    for kind, number in field.specials:
        if kind == "#":
            weekday, nth = divmod(number, 10)
            day = _first(weekday, first_weekday) + (nth - 1) * 7
        else:
            first = _first(number, first_weekday)
            day = first + (length - first) // 7 * 7
        mask |= 1 << day
    return mask & ((2 << length) - 1)


def _first(weekday: int, first_weekday: int) -> int:
    return (weekday - first_weekday) % 7 + 1

"""Turns sets of wall-clock values, as schedulers other than cron use them, into triggers; pure.

Here all fields must match, both the day of the month and the weekday. A cron expression can only
express that if one of the two is unrestricted; other patterns become recurrence rules.
"""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from duebook.imports.found import NotCarried
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_instant
from duebook.triggers.zones import from_seconds, wall_second, zone

__all__ = ["ALL", "WallPattern", "cron_field", "within_years"]

ALL: Final[dict[str, frozenset[int]]] = {
    "second": frozenset(range(60)),
    "minute": frozenset(range(60)),
    "hour": frozenset(range(24)),
    "day": frozenset(range(1, 32)),
    "month": frozenset(range(1, 13)),
    "weekday": frozenset(range(7)),
    "week": frozenset(range(1, 54)),
}
"""The values of each field; Sunday is weekday 0."""
_RULE_DAYS: Final = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
_CRON_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class WallPattern:
    """The values that a wall clock must match; days below 0 count from the end of the month."""

    second: frozenset[int] = frozenset({0})
    minute: frozenset[int] = frozenset({0})
    hour: frozenset[int] = frozenset({0})
    day: frozenset[int] = ALL["day"]
    month: frozenset[int] = ALL["month"]
    weekday: frozenset[int] = ALL["weekday"]
    week: frozenset[int] = ALL["week"]
    """weeks of the ISO calendar"""
    nth: frozenset[tuple[int, int]] = frozenset()
    """other days of the month: (weekday, which one; -1 is the last)"""

    @property
    def date_and_time(self) -> tuple[int, int, int, int, int] | None:
        """Month, day, hour, minute and second, if each field has a single value."""
        fields = (self.month, self.day, self.hour, self.minute, self.second)
        every_day = self.weekday == ALL["weekday"] and self.week == ALL["week"]
        if not every_day or self.nth or any(len(values) != 1 for values in fields):
            return None
        month, day, hour, minute, second = (next(iter(values)) for values in fields)
        return month, day, hour, minute, second

    def trigger(self, tz: str) -> dict[str, Any]:
        """The trigger's JSON form; raises NotCarried for what neither form can express."""
        zone_part = {} if tz == "UTC" else {"tz": tz}
        days = self._cron_days()
        if days is None:
            return {"rrule": self._rule(), **zone_part}
        clock = [cron_field(getattr(self, key), key) for key in ("minute", "hour")]
        seconds = [] if self.second == {0} else [cron_field(self.second, "second")]
        text = [*seconds, *clock, days[0], cron_field(self.month, "month"), days[1]]
        return {"cron": " ".join(text), **zone_part}

    def _cron_days(self) -> tuple[str, str] | None:
        """Day of month and weekday for cron; None if only a rule can express them."""
        if self.week != ALL["week"] or min(self.day, default=1) < -1:
            return None
        if self.weekday != ALL["weekday"]:
            plain = self.day == ALL["day"] and not self.nth
            return ("*", cron_field(self.weekday, "weekday")) if plain else None
        positions = ",".join(
            f"{_CRON_DAYS[weekday]}#{number}" if number > 0 else f"{weekday}L"
            for weekday, number in sorted(self.nth)
        )
        numbers = cron_field(self.day - {-1}, "day") if self.day - {-1} else ""
        last = ["L"] if -1 in self.day else []
        dates = ",".join([*([numbers] if numbers else []), *last])
        if positions and dates:  # for cron, a match of either is enough
            return None if dates.startswith("*") else (dates, positions)
        return dates or "*", positions or "*"

    def _rule(self) -> str:
        by: dict[str, str] = {}
        if self.month != ALL["month"]:
            by["BYMONTH"] = _list(self.month)
        if self.week != ALL["week"]:
            freq = "YEARLY"
            by["BYWEEKNO"] = _list(self.week)
            if self.day != ALL["day"] or self.nth:
                raise NotCarried("a week of the year together with a day of the month")
            by["BYDAY"] = ",".join(_RULE_DAYS[day] for day in sorted(self.weekday))
        else:
            freq = "HOURLY" if self.hour == ALL["hour"] and not self.nth else "MONTHLY"
            by |= self._rule_days()
        if freq != "HOURLY":
            by["BYHOUR"] = _list(self.hour)
        by |= {"BYMINUTE": _list(self.minute), "BYSECOND": _list(self.second)}
        return ";".join([f"FREQ={freq}", *(f"{key}={text}" for key, text in by.items())])

    def _rule_days(self) -> dict[str, str]:
        if self.nth:
            if self.day or self.weekday != ALL["weekday"]:
                raise NotCarried("a weekday of the month together with other days")
            items = (f"{number}{_RULE_DAYS[weekday]}" for weekday, number in sorted(self.nth))
            return {"BYDAY": ",".join(items)}
        by = {}
        if self.day != ALL["day"]:
            by["BYMONTHDAY"] = _list(self.day)
        if self.weekday != ALL["weekday"]:
            by["BYDAY"] = ",".join(_RULE_DAYS[day] for day in sorted(self.weekday))
        return by


def cron_field(values: frozenset[int], key: str) -> str:
    """The shortest usual form of a cron field."""
    whole = ALL[key]
    if values == whole:
        return "*"
    low, high, ordered = min(whole), max(whole), sorted(values)
    steps = {later - earlier for earlier, later in pairwise(ordered)}
    if len(ordered) > 2 and len(steps) == 1 and (step := steps.pop()) > 1:
        if ordered[0] == low and ordered[-1] + step > high:
            return f"*/{step}"
        return f"{ordered[0]}-{ordered[-1]}/{step}"
    return ",".join(_ranges(ordered))


def _ranges(ordered: list[int]) -> list[str]:
    found: list[list[int]] = []
    for value in ordered:
        if found and value == found[-1][-1] + 1:
            found[-1].append(value)
        else:
            found.append([value])
    return [",".join(map(str, run)) if len(run) < 3 else f"{run[0]}-{run[-1]}" for run in found]


def _list(values: frozenset[int]) -> str:
    return ",".join(map(str, sorted(values)))


def within_years(first: int | None, last: int | None, tz: str) -> dict[str, str]:
    """The fields that limit a schedule to a range of years."""
    form = {}
    if first is not None:
        form["start_at"] = _instant(datetime(first, 1, 1), tz)  # noqa: DTZ001 - wall time
    if last is not None:
        form["end_at"] = _instant(datetime(last, 12, 31, 23, 59, 59), tz)  # noqa: DTZ001
    return form


def _instant(wall: datetime, tz: str) -> str:
    return format_instant(from_seconds(zone(tz).first_at(wall_second(wall))))

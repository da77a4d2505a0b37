"""Reads OnCalendar= of systemd timers into triggers: the whole grammar of systemd.time(7); pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

from duebook.errors import Invalid, shorten
from duebook.imports.found import NotCarried
from duebook.imports.wall_patterns import ALL, WallPattern, within_years
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_instant
from duebook.triggers import load_trigger
from duebook.triggers.zones import from_seconds, wall_second, zone, zone_name

__all__ = ["CalendarSpec", "read_calendar"]

_SHORTHANDS: Final = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "biannually": "*-01,07-01 00:00:00",
    "bi-annually": "*-01,07-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "anually": "*-01-01 00:00:00",
}
_WEEKDAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DATE: Final = re.compile(r"(?:([^-~]+)-)?([^-~]+)([-~])([^-~]+)")
_ITEM: Final = re.compile(r"(\d{1,4})(?:\.\.(\d{1,4}))?(?:/(\d{1,4}))?")
_LONGEST: Final = 1_000
_Years = frozenset[int] | tuple[int, int] | None
"""Some years; the first and the step of an endless series; or all years."""


@dataclass(frozen=True, slots=True)
class CalendarSpec:
    """A trigger, and the years to which it is limited as fields of a definition."""

    trigger: dict[str, Any]
    bounds: dict[str, str]


def read_calendar(text: str, tz: str) -> CalendarSpec:
    """A calendar event specification; `tz` is the zone of the machine. Raises NotCarried."""
    try:
        found = _read(text, tz)
        load_trigger(found.trigger)
    except (ValueError, Invalid) as error:
        raise NotCarried(f"OnCalendar={shorten(text)} cannot be read: {error}") from None
    return found


def _read(text: str, tz: str) -> CalendarSpec:
    if len(text) > _LONGEST:
        raise ValueError("it is too long")
    words = text.split()
    if not words:
        raise ValueError("it is empty")
    if words[0].startswith("@"):
        return CalendarSpec({"at": format_instant(_epoch(words))}, {})
    if len(words) > 1 and words[-1][0].isalpha():
        tz = zone_name(words.pop())
    if words[0].lower() in _SHORTHANDS:
        words[:1] = _SHORTHANDS[words[0].lower()].split()
    weekday = ALL["weekday"]
    if words[0][0].isalpha():
        weekday = _weekdays(words.pop(0))
    date_text = words.pop(0) if words and ":" not in words[0] else "*-*-*"
    clock = words.pop(0) if words else "00:00:00"
    if words:
        raise ValueError(f'"{shorten(words[0])}" is unexpected')
    years, month, day = _date(date_text)
    hour, minute, second = _clock(clock)
    pattern = WallPattern(second, minute, hour, day, month, weekday)
    return _bounded(pattern, years, tz)


def _epoch(words: list[str]) -> datetime:
    if len(words) > 1 or not words[0][1:].isdigit():
        raise ValueError("@ needs the seconds since 1970")
    return datetime.fromtimestamp(int(words[0][1:]), UTC)


def _weekdays(text: str) -> frozenset[int]:
    found: set[int] = set()
    for item in text.strip(",").split(","):
        first, _, last = item.replace("..", "-").partition("-")
        low, high = _weekday(first), _weekday(last or first)
        if (low - 1) % 7 > (high - 1) % 7:
            raise ValueError(f'"{shorten(item)}" runs backwards')
        found |= {(day + 1) % 7 for day in range((low - 1) % 7, (high - 1) % 7 + 1)}
    return frozenset(found)


def _weekday(text: str) -> int:
    lower = text.lower()
    for number, name in enumerate(_WEEKDAYS):
        if lower in (name, name[:3]):
            return number
    raise ValueError(f'"{shorten(text)}" is not a weekday')


def _date(text: str) -> tuple[_Years, frozenset[int], frozenset[int]]:
    """Years (None: all), months and days of the month."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f'"{shorten(text)}" is not a date such as *-*-01')
    year, month, sign, day = match.groups()
    days = _values(day, 1, 31)
    if sign == "~":
        days = _from_the_end(day)
    years = None if year in (None, "*") else _years(year)
    return years, _values(month, 1, 12), days


def _from_the_end(text: str) -> frozenset[int]:
    """`~03` is the third last day; with a step it continues to the last day."""
    found: set[int] = set()
    for item in text.split(","):
        first, last, step = _parts(item)
        if step is not None and last is None:
            found |= set(range(-first, 0, step))
        else:
            high = first if last is None else last
            found |= {-day for day in range(first, high + 1, step or 1)}
    if not found or min(found) < -31 or 0 in found:
        raise ValueError(f'"~{shorten(text)}" is not a number from 1 to 31')
    return frozenset(found)


def _clock(text: str) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise ValueError(f'"{shorten(text)}" is not a time such as 02:30')
    second = parts[2] if len(parts) == 3 else "0"
    if "." in second.replace("..", ""):
        raise ValueError("fractions of a second")
    return _values(parts[0], 0, 23), _values(parts[1], 0, 59), _values(second, 0, 59)


def _values(text: str, low: int, high: int) -> frozenset[int]:
    if text == "*":
        return frozenset(range(low, high + 1))
    found: set[int] = set()
    for item in text.split(","):
        if item.startswith("*/"):
            item = f"{low}/{item[2:]}"  # noqa: PLW2901 - the same in another form
        first, last, step = _parts(item)
        end = last if last is not None else (high if step else first)
        found |= set(range(first, end + 1, step or 1))
    if not found or min(found) < low or max(found) > high:
        raise ValueError(f'"{shorten(text)}" is out of range {low} to {high}')
    return frozenset(found)


def _parts(item: str) -> tuple[int, int | None, int | None]:
    match = _ITEM.fullmatch(item)
    if match is None or match[3] == "0":
        raise ValueError(f'"{shorten(item)}" is not a number, range or step')
    return int(match[1]), int(match[2]) if match[2] else None, int(match[3]) if match[3] else None


def _years(text: str) -> _Years:
    if "," not in text and "/" in text and ".." not in text:
        first, _, step = _parts(text)
        return first, step or 1
    return _values(text, 1970, 2199)


def _bounded(pattern: WallPattern, years: _Years, tz: str) -> CalendarSpec:
    if years is None:
        return CalendarSpec(pattern.trigger(tz), {})
    if isinstance(years, tuple):
        first, step = years
        if step == 1:
            return CalendarSpec(pattern.trigger(tz), within_years(first, None, tz))
        raise ValueError("years with a step")
    if len(years) == 1 and (parts := pattern.date_and_time) and parts[1] > 0:
        wall = datetime(min(years), *parts)  # noqa: DTZ001 - wall time
        seconds = zone(tz).first_at(wall_second(wall))
        return CalendarSpec({"at": format_instant(from_seconds(seconds))}, {})
    if max(years) - min(years) + 1 != len(years):
        raise ValueError("years that do not follow each other")
    return CalendarSpec(pattern.trigger(tz), within_years(min(years), max(years), tz))

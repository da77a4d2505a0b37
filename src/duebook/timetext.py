"""Reads and writes instants, durations and times of day as text; knows no clock and no zone."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, TypeVar

from duebook.errors import InvalidTime, shorten

__all__ = [
    "format_duration",
    "format_instant",
    "format_time",
    "parse_date",
    "parse_duration",
    "parse_instant",
    "parse_time",
    "relative",
]

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:[0-9]{1,9}[wdhms])+")
_PART = re.compile(r"([0-9]+)([wdhms])")
_FINE_DURATION = re.compile(r"[0-9.]+(?:ms|us|µs|ns)|[0-9]*\.[0-9]+[wdhms]")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
)


def parse_instant(value: str | datetime) -> datetime:
    """An aware datetime in UTC, from ISO 8601 text with an offset or an aware datetime.

    Raises InvalidTime for anything else, naive times included: a wall time without its zone
    is not an instant.
    """
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, str) and _INSTANT.fullmatch(value):
        moment = _from_iso(value, datetime.fromisoformat)
    else:
        raise InvalidTime(
            f'"{shorten(value)}" is not a time; use a form such as 2026-03-29T02:10:00+01:00'
        )
    if moment.tzinfo is UTC and type(moment) is datetime:
        return moment
    if moment.utcoffset() is None:
        raise InvalidTime(
            f'"{shorten(str(value))}" has no time zone; add one, such as {moment.isoformat()}Z'
        )
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidTime(f'"{shorten(str(value))}" is outside the years 1 to 9999') from None


def parse_date(value: str | date) -> date:
    """A calendar date, from text like 2026-01-31 or a date (not a datetime)."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        return _from_iso(value, date.fromisoformat)
    raise InvalidTime(f'"{shorten(value)}" is not a date; use a form such as 2026-01-31')


def parse_time(value: str | time) -> time:
    """A wall-clock time of whole seconds, from text like 07:00 or 17:30:15, or a naive time."""
    if isinstance(value, time):
        if value.tzinfo is None and value.microsecond == 0:
            return value
    elif isinstance(value, str) and (match := _TIME.fullmatch(value)):
        hour, minute, second = (int(part or 0) for part in match.groups())
        if hour < 24 and minute < 60 and second < 60:
            return time(hour, minute, second)
    raise InvalidTime(
        f'"{shorten(value)}" is not a time of day; use a form such as 07:00 or 17:30:15 '
        "(00:00 to 23:59:59)"
    )


def parse_duration(value: str | timedelta) -> timedelta:
    """A length of time in whole seconds, from text like 15m, 1h30m, 2d or 1w, or a timedelta.

    Zero is allowed; negative, fractional and sub-second lengths raise InvalidTime.
    """
    if isinstance(value, timedelta):
        if value < timedelta() or value.microseconds:
            raise InvalidTime(f"{value!r} is not a whole number of seconds")
        return value
    if isinstance(value, str) and len(value) <= 100:
        if _DURATION.fullmatch(value):
            return _sum_of_parts(value)
        if _FINE_DURATION.search(value):
            raise InvalidTime(
                f'"{shorten(value)}" is not a whole number of seconds; the smallest unit is 1s'
            )
    raise InvalidTime(
        f'"{shorten(value)}" is not a duration; use a form such as 30s, 15m, 1h30m, 2d or 1w'
    )


def _sum_of_parts(text: str) -> timedelta:
    parts = _PART.findall(text)
    if len({unit for _, unit in parts}) < len(parts):
        raise InvalidTime(f'"{text}" has the same unit twice; use a form such as 1h30m')
    try:
        return timedelta(seconds=sum(int(number) * _UNITS[unit] for number, unit in parts))
    except OverflowError:
        raise InvalidTime(f'"{text}" is too long') from None


def _from_iso(text: str, read: Callable[[str], T]) -> T:
    try:
        return read(text)
    except ValueError:
        raise InvalidTime(f'"{text}" has a date, time or offset that does not exist') from None


def format_instant(moment: datetime) -> str:
    """ISO 8601 in UTC with a Z; fractions of a second only if they are not zero."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat()[:-6] + "Z"  # drop +00:00


def format_time(clock: time) -> str:
    return clock.strftime("%H:%M:%S") if clock.second else clock.strftime("%H:%M")


def format_duration(length: timedelta) -> str:
    """The shortest text that parse_duration reads back: 15m, 1h30m, 2d, 1w."""
    rest = length.days * 86_400 + length.seconds
    if rest and rest % _UNITS["w"] == 0:
        return f"{rest // _UNITS['w']}w"
    parts = []
    for unit, size in list(_UNITS.items())[1:]:
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def relative(length: timedelta) -> str:
    """How far away, for people: "in 7 h 30 min", "3 d ago", "now"; the two largest units."""
    seconds = round(abs(length).total_seconds())
    if seconds == 0:
        return "now"
    parts = []
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {name}")
        elif parts:
            break
    text = " ".join(parts[:2])
    return f"in {text}" if length > timedelta() else f"{text} ago"

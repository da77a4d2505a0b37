"""Formats times, durations and ids for sentences; pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from duebook.ids import SHORT_ID
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import parse_instant
from duebook.triggers.words import MONTHS
from duebook.triggers.zones import local_datetime

__all__ = ["Clock", "as_moment", "day_text", "length_text", "short_id", "wall_text"]

_LONG: Final = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock of a zone, on the day of the instant in question."""

    tz: str
    asked: datetime

    def time(self, moment: datetime) -> str:
        """02:00, or 02:00:03; with the date if that is another day."""
        wall = local_datetime(moment, self.tz)
        same_day = wall.date() == local_datetime(self.asked, self.tz).date()
        return wall_text(wall) if same_day else f"{wall:%Y-%m-%d} {wall_text(wall)}"

    def minute(self, moment: datetime, length: timedelta = _LONG) -> str:
        """Like `time`, without seconds; they matter only for a short `length`."""
        return self.time(moment if length < _LONG else moment - timedelta(seconds=moment.second))

    def full(self, moment: datetime) -> str:
        """Mon 2026-01-05 09:00 (Europe/Brussels)"""
        wall = local_datetime(moment, self.tz)
        return f"{wall:%a %Y-%m-%d} {wall_text(wall)} ({self.tz})"

    def wall(self, moment: datetime) -> datetime:
        """What the clock shows, without its offset."""
        return local_datetime(moment, self.tz).replace(tzinfo=None)


def wall_text(wall: datetime) -> str:
    return f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"


def day_text(wall: datetime) -> str:
    """9 March"""
    return f"{wall.day} {MONTHS[wall.month - 1]}"


def length_text(length: timedelta) -> str:
    """A length for people: 45 s, 74 min, 3 h, 3 h 28 min, 2 d 4 h."""
    seconds = round(abs(length).total_seconds())
    if not seconds:
        return "less than 1 s"
    if seconds < 120 and seconds != 60:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 120 and minutes % 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return _two(*divmod(minutes, 60), "h", "min")
    return _two(*divmod(round(minutes / 60), 24), "d", "h")


def _two(large: int, small: int, large_unit: str, small_unit: str) -> str:
    return f"{large} {large_unit}" + (f" {small} {small_unit}" if small else "")


def short_id(run_id: object) -> str:
    return str(run_id)[:SHORT_ID]


def as_moment(value: Any) -> datetime | None:
    """An instant in a decision's facts; in the ledger they are text."""
    return None if value is None else parse_instant(value)

"""Parses a time typed by a person: an instant, or a wall time of a zone; pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from duebook.errors import InvalidTime
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import parse_instant
from duebook.triggers.zones import (
    FIRST_SECOND,
    LAST_SECOND,
    Jump,
    from_seconds,
    wall_second,
    zone,
)

__all__ = ["TypedTime", "read_time"]


@dataclass(frozen=True, slots=True)
class TypedTime:
    """What a person meant: an instant, or a wall time that clocks jumped over."""

    at: datetime
    wall: datetime | None = None
    """a wall time that no clock ever showed; `at` is when it was jumped over"""
    jump: Jump | None = None


def read_time(at: str | datetime, tz: str) -> TypedTime:
    """An instant, or without an offset a wall time of the zone; raises InvalidTime."""
    wall = _naive(at)
    if wall is None:
        return TypedTime(parse_instant(at))
    place, clocks = wall_second(wall), zone(tz)
    second = clocks.last_at(place) if wall.fold else clocks.first_at(place)
    second = min(max(second, FIRST_SECOND), LAST_SECOND)
    if clocks.wall_at(second) == place:
        return TypedTime(from_seconds(second) + timedelta(microseconds=wall.microsecond))
    second = clocks.first_at(place)
    jump = next(clocks.jumps(second - 1, second), None)
    return TypedTime(from_seconds(second), wall if jump else None, jump)


def _naive(at: str | datetime) -> datetime | None:
    """The wall time, if there is no offset."""
    if isinstance(at, datetime):
        return at if at.utcoffset() is None else None
    try:
        return parse_instant(f"{at}Z").replace(tzinfo=None)
    except InvalidTime:
        return None

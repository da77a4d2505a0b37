"""Parses the times that users type: dates, wall times, instants and durations.

The same everywhere: a length counts back on commands about the past and forward on others, unless
it says so itself, a date is the beginning of that day, and what has no offset is in the zone that
the command shows.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from duebook.clock import utc_now
from duebook.errors import Invalid, InvalidTime, printable, shorten
from duebook.timetext import parse_date, parse_duration, parse_instant, parse_time
from duebook.triggers.zones import from_seconds, local_datetime, wall_second, zone

if TYPE_CHECKING:
    from datetime import date, time

__all__ = ["read_future", "read_past"]

_LENGTH: Final = re.compile(r"([0-9]+[a-z]\S*)( ago)?")
_IN: Final = "in "
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_WALL: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[T ](\d{1,2}:\d{2}(?::\d{2})?)")
_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2})?")


def read_past(flag: str, text: str, tz: str | None = None) -> datetime:
    """An instant for a command about the past, where 2h is 2 hours ago.

    `tz` is the zone that the command shows; None: the terminal's. Raises InvalidTime.
    """
    return _read(flag, text, tz, back=True)


def read_future(flag: str, text: str, tz: str | None = None) -> datetime:
    """As `read_past`, for a command about the future: 2h is in 2 hours."""
    return _read(flag, text, tz, back=False)


def _read(flag: str, text: str, tz: str | None, back: bool) -> datetime:
    try:
        return _parse(text, tz, back)
    except InvalidTime as error:
        if text.startswith(_IN) or _LENGTH.fullmatch(text) or _DATE.match(text):
            raise InvalidTime(f"{flag}: {error}") from None
        raise InvalidTime(
            f'{flag} "{shorten(text)}" is not a time; use 2026-03-29, 2026-03-29T02:10Z, 2h (for '
            f"2 hours {'ago' if back else 'from now'}) or now"
        ) from None
    except Invalid:  # such as an unknown time zone
        raise
    except (OverflowError, ValueError):
        raise InvalidTime(
            f'{flag} "{shorten(text)}" is outside the years 1 to 9999; use a time within them'
        ) from None


def _parse(text: str, tz: str | None, back: bool) -> datetime:
    now = utc_now()
    if text == "now":
        return now
    if text.startswith(_IN):
        return now.replace(microsecond=0) + parse_duration(text.removeprefix(_IN))
    if found := _LENGTH.fullmatch(text):
        length = parse_duration(found[1])
        return now - length if back or found[2] else now.replace(microsecond=0) + length
    if _DATE.fullmatch(text):
        return _instant(parse_date(text), parse_time("00:00"), tz)
    if found := _WALL.fullmatch(text):
        return _said(text, _instant(parse_date(found[1]), parse_time(found[2]), tz), tz)
    if _CLOCK.fullmatch(text):
        return _said(text, _instant(_shown(now, tz).date(), parse_time(text), tz), tz)
    return parse_instant(text)


def _instant(day: date, clock: time, tz: str | None) -> datetime:
    wall = datetime.combine(day, clock)
    if tz is None:
        return wall.astimezone(UTC)
    return from_seconds(zone(tz).first_at(wall_second(wall)))


def _shown(moment: datetime, tz: str | None) -> datetime:
    return moment.astimezone() if tz is None else local_datetime(moment, tz)


def _said(text: str, moment: datetime, tz: str | None) -> datetime:
    """Print how a time without an offset was interpreted."""
    local = _shown(moment, tz)
    place = f"your time zone, {local.tzname()}" if tz is None else f"time zone {tz}"
    told = f'"{text}" is read as {local:%Y-%m-%d %H:%M:%S} in {place}; add Z for UTC'
    click.echo(f"note: {printable(told)}", err=True)
    return moment

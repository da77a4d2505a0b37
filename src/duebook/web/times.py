"""Instants as text: in the viewer's zone, in the schedule's zone, and relative to now."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

from markupsafe import Markup

from duebook.errors import InvalidTime, InvalidTrigger
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_instant, relative
from duebook.triggers.zones import local_datetime, zone_name

__all__ = ["ZONE_COOKIE", "Clock", "city", "length_text", "read_zone"]

ZONE_COOKIE: Final = "duebook_zone"
_SMALL: Final = timedelta(seconds=10)


def read_zone(text: str | None) -> str:
    """The zone that a viewer chose; UTC if there is none or it is invalid."""
    if not text or len(text) > 64:
        return "UTC"
    try:
        return zone_name(text)
    except (InvalidTrigger, InvalidTime):
        return "UTC"


def length_text(length: timedelta | None) -> str:
    """How long something took: 0.3 s, 12 s, 4 min 5 s."""
    if length is None:
        return ""
    if length < _SMALL:
        return f"{max(length.total_seconds(), 0):.1f} s"
    return relative(-length).removesuffix(" ago")


@dataclass(frozen=True, slots=True)
class Clock:
    """The current time, and the viewer's zone."""

    now: datetime
    zone: str = "UTC"

    def text(self, moment: datetime, zone: str | None = None) -> str:
        """The time, with the date unless it is today."""
        tz = zone or self.zone
        wall, today = local_datetime(moment, tz), local_datetime(self.now, tz)
        clock = f"{wall:%H:%M:%S}" if wall.second else f"{wall:%H:%M}"
        if wall.date() == today.date():
            return clock
        year = "" if wall.year == today.year else f" {wall.year:04}"
        return f"{wall:%a} {wall.day} {wall:%b}{year} {clock}"

    def dated(self, moment: datetime) -> str:
        """The time with its date, even today: 16 Nov 02:30."""
        wall, today = local_datetime(moment, self.zone), local_datetime(self.now, self.zone)
        year = "" if wall.year == today.year else f" {wall.year:04}"
        return f"{wall.day} {wall:%b}{year} {wall:%H:%M}"

    def ago(self, moment: datetime) -> str:
        return relative(timedelta(seconds=round((moment - self.now).total_seconds())))

    def element(self, moment: datetime | None, zone: str | None = None) -> Markup:
        """The time and how far away it is, plus the time in the schedule's `zone` if it differs."""
        if moment is None:
            return Markup('<span class="none">–</span>')
        shown = self.text(moment)
        beside = Markup("")
        if zone is not None and zone != self.zone and self.text(moment, zone) != shown:
            theirs = self.beside(moment, zone)
            beside = Markup(' <span class="zone">{} {}</span>').format(theirs, city(zone))
        ago = Markup('<span class="ago" data-at="{}">{}</span>')
        return Markup("{}{} {}").format(
            self.at(moment), beside, ago.format(format_instant(moment), self.ago(moment))
        )

    def beside(self, moment: datetime, zone: str) -> str:
        """The time in another zone, for use beside ours: without the date if it is the same."""
        theirs = self.text(moment, zone)
        if local_datetime(moment, zone).date() == self._day(moment):
            return theirs.split()[-1]
        return theirs

    def at(self, moment: datetime, beside: datetime | None = None) -> Markup:
        """Only the time; without its date if `beside`, the time next to it, has the same date."""
        shown = self.text(moment)
        if beside is not None and self._day(moment) == self._day(beside):
            shown = shown.split()[-1]
        return Markup('<time datetime="{}" title="{}">{}</time>').format(
            format_instant(moment),
            f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
            shown,
        )

    def _day(self, moment: datetime) -> date:
        return local_datetime(moment, self.zone).date()

    def brief(self, moment: datetime | None) -> Markup:
        """Only how far away it is, with the time as a hint."""
        if moment is None:
            return Markup('<span class="none">–</span>')
        return Markup('<time datetime="{}" title="{}" class="ago" data-at="{}">{}</time>').format(
            format_instant(moment),
            f"{self.text(moment)} {self.zone}",
            format_instant(moment),
            self.ago(moment),
        )


def city(zone: str) -> str:
    """Brussels for Europe/Brussels."""
    return zone.rpartition("/")[2].replace("_", " ")

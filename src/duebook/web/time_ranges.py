"""Common time ranges such as last night, in the viewer's time zone; pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from duebook.triggers.zones import local_datetime

if TYPE_CHECKING:
    from duebook.web.times import Clock

__all__ = ["time_ranges"]

DAY = timedelta(days=1)


def time_ranges(clock: Clock) -> dict[str, dict[str, str]]:
    """The ranges by name, each with the texts of the form fields `from` and `to`."""
    now = local_datetime(clock.now, clock.zone).replace(tzinfo=None, second=0, microsecond=0)
    midnight = now.replace(hour=0, minute=0)
    morning = midnight.replace(hour=8)
    evening = midnight - timedelta(hours=6)
    if now < morning:
        night = {"from": _text(evening)}
    else:
        night = {"from": _text(evening), "to": _text(morning)}
    return {
        "Last hour": {"from": _text(now - timedelta(hours=1))},
        "Today": {"from": _text(midnight)},
        "Last night": night,
        "Last 24 hours": {"from": _text(now - DAY)},
        "Last 7 days": {"from": _text(now - 7 * DAY)},
    }


def _text(wall: datetime) -> str:
    return wall.strftime("%Y-%m-%dT%H:%M")

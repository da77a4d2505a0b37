"""The at trigger: one instant, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_instant, parse_instant
from duebook.triggers.base import Count, Trigger, reading
from duebook.triggers.zones import to_seconds

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["At", "at"]


@dataclass(frozen=True, slots=True)
class At(Trigger):
    """Due once, at `instant` (UTC, to the microsecond)."""

    instant: datetime

    @property
    def text(self) -> str:
        return f"at {format_instant(self.instant)}"

    def describe(self) -> str:
        return f"Once, at {format_instant(self.instant)} (UTC)"

    def to_json(self) -> dict[str, Any]:
        return {"at": format_instant(self.instant)}

    def next_after(self, instant: datetime) -> datetime | None:
        to_seconds(instant)  # rejects naive times
        return self.instant if instant < self.instant else None

    def previous_before(self, instant: datetime) -> datetime | None:
        to_seconds(instant)
        return self.instant if self.instant < instant else None

    def count(self, start: datetime, end: datetime) -> Count:
        return Count(len(self.between(start, end)))


def at(instant: str | datetime) -> At:
    """A trigger for one instant, from ISO 8601 text with an offset or an aware datetime.

    Raises InvalidTrigger.

    >>> at("2026-03-29T02:10:00+01:00").describe()
    'Once, at 2026-03-29T01:10:00Z (UTC)'
    """
    return At(reading("at", parse_instant, instant))

"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["VirtualClock"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class VirtualClock:
    """Returns the current virtual time when called; `monotonic` returns it as seconds."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def __call__(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - _EPOCH).total_seconds()

    def move_to(self, moment: datetime) -> None:
        """Raises Invalid for a moment in the past."""
        if moment < self._now:
            now = format_instant(self._now)
            raise Invalid(f"{format_instant(moment)} is in the past; the clock shows {now}")
        self._now = moment

    def move(self, length: timedelta) -> None:
        self.move_to(self._now + length)

"""The only reader of the machine's clock; everything else is handed its time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Ratchet", "utc_now"]


def utc_now() -> datetime:
    return datetime.now(UTC)


class Ratchet:
    """A clock that never runs backwards, whatever happens to the one it reads."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._latest: datetime | None = None

    def __call__(self) -> datetime:
        now = self._clock()
        if self._latest is None or now > self._latest:
            self._latest = now
        return self._latest

    def machine(self) -> datetime:
        """What the clock that it reads says, though that may have been set back."""
        return self._clock()

    def behind(self, now: datetime) -> timedelta:
        """How far the clock that it reads is behind `now`."""
        return max(now - self._clock(), timedelta())

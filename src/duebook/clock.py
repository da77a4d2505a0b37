"""The only reader of the machine's clock; all other code is given the time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Ratchet", "utc_now"]


def utc_now() -> datetime:
    return datetime.now(UTC)


class Ratchet:
    """A clock that never runs backwards, even if the one it reads does."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._latest: datetime | None = None

    def __call__(self) -> datetime:
        now = self._clock()
        if self._latest is None or now > self._latest:
            self._latest = now
        return self._latest

    def machine(self) -> datetime:
        """The time of the underlying clock, which may have been set back."""
        return self._clock()

    def behind(self, now: datetime) -> timedelta:
        """How far the underlying clock is behind `now`."""
        return max(now - self._clock(), timedelta())

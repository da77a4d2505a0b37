"""How many runs a node may claim ahead: as many as it finishes in a moment; reads no clock."""

from __future__ import annotations

from typing import Final

__all__ = ["Pace"]

WORTH: Final = 0.05
"""Seconds of work that may wait in the buffer."""
MOST: Final = 1_000
"""The maximum, however quickly runs end."""
WINDOW: Final = 0.25
"""Seconds of work after which earlier counts weigh half."""
FORGET_AFTER: Final = 1.0
"""Seconds without work after which the counts no longer apply."""


class Pace:
    """Counts ends per time at work, as idle time says nothing about speed.

    The caller holds a lock, and passes the time of a monotonic clock.
    """

    def __init__(self) -> None:
        self._at_work = 0
        self._since = 0.0
        """the time up to which work is counted, or since when it is idle"""
        self._ends = 0.0
        self._seconds = 0.0

    def began(self, now: float) -> None:
        """Another run has started."""
        if not self._at_work:
            if now - self._since > FORGET_AFTER:
                self.forget()
            self._since = now
        self._at_work += 1

    def ended(self, now: float) -> None:
        self._ends += 1
        self._at_work -= 1
        if not self._at_work:
            self._count(now)

    def forget(self) -> None:
        """What was counted no longer describes the current work."""
        self._ends = self._seconds = 0.0

    def ahead(self, now: float) -> int:
        """For how many runs there will be a place within the time that the buffer may hold."""
        if self._at_work:
            self._count(now)
        if self._seconds <= 0:
            return 0
        return min(int(self._ends / self._seconds * WORTH), MOST)

    def _count(self, now: float) -> None:
        self._seconds += now - self._since
        self._since = now
        if self._seconds > WINDOW:
            share = WINDOW / 2 / self._seconds
            self._ends *= share
            self._seconds *= share

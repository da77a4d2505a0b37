"""What time it is on the books, by a clock of this machine that never jumps; asks nobody."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

__all__ = ["BooksClock"]

PERIOD: Final = 30.0
"""Seconds after which what was heard counts for old, and twice that for nothing."""
JUMP: Final = timedelta(seconds=1)
"""When the books are so much ahead of what they should say, their clock was set."""


class BooksClock:
    """Reckons from what transactions heard: each was told the time after it asked.

    So every answer is a bound, the quickest one the best, and the reckoning never behind.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self._base: datetime | None = None
        """what the books said when the monotonic clock was at zero"""
        self._older: datetime | None = None
        self._since = 0.0

    @property
    def now(self) -> datetime | None:
        """None before anything was heard."""
        if self._base is None:
            return None
        base = self._base if self._older is None else min(self._base, self._older)
        return base + timedelta(seconds=self.monotonic())

    def heard(self, now: datetime, asked_at: float) -> None:
        """The books said `now`, when asked at `asked_at` of the monotonic clock."""
        base = now - timedelta(seconds=asked_at)
        known = self._base
        if known is None or base - known > JUMP:
            self._base, self._older, self._since = base, None, asked_at
        elif asked_at - self._since > PERIOD:
            self._base, self._older, self._since = base, known, asked_at
        else:
            self._base = min(known, base)

"""What time it is on the books, by a clock of this machine that never jumps; asks nobody."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.clock import utc_now
from duebook.engine.clock_watch import ClockWatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

__all__ = ["BooksClock"]

PERIOD: Final = 30.0
"""Seconds after which what was heard counts for old, and twice that for nothing."""


class BooksClock:
    """Reckons from what transactions heard: each was told the time after it asked, and before it
    had the answer.

    So every answer gives two bounds. The quickest one is the best; one that proves the reckoning
    to be behind makes it begin anew, for then the books' clock was set.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self.watch = ClockWatch()
        self._heard: tuple[datetime, datetime, float] | None = None
        """what the books said when the monotonic clock was at zero, at most: of late and before,
        and since when it is of late"""

    @property
    def now(self) -> datetime | None:
        """None before anything was heard."""
        if (heard := self._heard) is None:
            return None
        return min(heard[:2]) + timedelta(seconds=self.monotonic())

    def stamp(self) -> datetime:
        """For what is put on the books; before anything was heard, by this machine's clock."""
        return self.now or utc_now()

    def heard(self, now: datetime, asked_at: float) -> None:
        """The books said `now`, when asked at `asked_at` of the monotonic clock."""
        self.watch.heard(now, asked_at, self.monotonic())
        most, least = now - timedelta(seconds=asked_at), now - timedelta(seconds=self.monotonic())
        if (heard := self._heard) is None or least > min(heard[:2]):
            self._heard = most, most, asked_at
            return
        late, before, since = heard
        if asked_at - since > PERIOD:
            self._heard = most, late, asked_at
        else:
            self._heard = min(late, most), before, since

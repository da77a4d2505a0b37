"""Estimates the database's time from a clock of this machine that never jumps, without a query."""

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
"""Seconds after which an observation is old; after twice that it is dropped."""


class BooksClock:
    """Computes the database's time from the times that transactions returned: each was read after
    the transaction asked and before it had the answer.

    So every answer gives two bounds, and the quickest answer gives the best. An answer that proves
    the estimate to be too early restarts it, because the database's clock was set.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self.watch = ClockWatch()
        self._heard: tuple[datetime, datetime, float] | None = None
        """upper bounds of the database's time when the monotonic clock was at zero, from the
        current period and from the one before, and when the current period started"""

    @property
    def now(self) -> datetime | None:
        """None before the first answer."""
        if (heard := self._heard) is None:
            return None
        return min(heard[:2]) + timedelta(seconds=self.monotonic())

    def stamp(self) -> datetime:
        """The time for records in the database; before the first answer, from this machine's
        clock."""
        return self.now or utc_now()

    def heard(self, now: datetime, asked_at: float) -> None:
        """The database returned `now`; it was asked at `asked_at` of the monotonic clock."""
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

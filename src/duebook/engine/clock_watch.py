"""Detects that the database's clock stepped back, with a local clock that never does."""

from __future__ import annotations

import logging
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.timetext import format_duration

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.store.base import Store, Tx

__all__ = ["ClockWatch", "StepBack", "note_step", "notice_since_last_seen"]

log = logging.getLogger(__name__)

LEAST: Final = timedelta(seconds=1)
"""Smaller steps are harmless, as transactions take as long."""
SURE: Final = timedelta(seconds=30)
"""A clock that is so far behind has surely stepped back, even if it has since passed the last time
that was read from it."""


class StepBack(NamedTuple):
    """When the clock showed `noticed`, it would have shown `before` without the step, and right
    after the step it showed at least `earliest`; `heard_at` is the moment of `noticed` by the
    monotonic clock."""

    before: datetime
    earliest: datetime
    noticed: datetime
    heard_at: float


class ClockWatch:
    """Compares two times read from the database with the time that passed between them. Any thread
    may report a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: tuple[datetime, float, float] | None = None
        self._steps: list[StepBack] = []

    def forget(self) -> None:
        """Do not compare later times with earlier ones."""
        with self._lock:
            self._last, self._steps = None, []

    def heard(self, now: datetime, asked_at: float, heard_at: float) -> None:
        """The database said `now`, sometime between these two readings of the monotonic clock."""
        with self._lock:
            last, self._last = self._last, (now, asked_at, heard_at)
            if last is None:
                return
            then, then_asked, then_heard = last
            back = timedelta(seconds=asked_at - then_heard) - (now - then)
            if back < LEAST or (now >= then and back < SURE):
                return
            most = timedelta(seconds=heard_at - then_asked)
            self._steps.append(StepBack(then + most, now - most, now, heard_at))

    def take(self) -> list[StepBack]:
        """The steps noticed since the last call."""
        with self._lock:
            steps, self._steps = self._steps, []
            return steps


def note_step(store: Store, step: StepBack, lease: timedelta, since: timedelta) -> None:
    """Record the step for later comparisons of times, and log it unless another node already has;
    `since` is how long ago it was noticed."""
    before, noticed = step.before + since, step.noticed + since
    noted = store.transact(
        lambda tx: tx.upkeep.note_clock_step(before, step.earliest, noticed, lease)
    )
    _log_clock_step(noted, before - noticed)


def notice_since_last_seen(tx: Tx, lease: timedelta) -> None:
    """Log and record it if the clock is behind the last time at which any node was seen."""
    seen = tx.upkeep.last_seen()
    if seen is not None and seen - tx.now >= LEAST:
        _log_clock_step(tx.upkeep.note_clock_step(seen, tx.now, tx.now, lease), seen - tx.now)


def _log_clock_step(first: bool, size: timedelta) -> None:
    if first:
        told = format_duration(timedelta(seconds=round(size.total_seconds())))
        log.warning("the database clock stepped back by %s; no due time runs twice", told)

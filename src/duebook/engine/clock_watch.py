"""Notices that the database's clock stepped back, by a clock of this machine that never does."""

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
"""A smaller step confuses nothing: transactions take as long."""
SURE: Final = timedelta(seconds=30)
"""By so much a clock is behind that stepped back while nobody heard it, and went on."""


class StepBack(NamedTuple):
    """The clock would have shown `before` when it showed `noticed`, and it showed at least
    `earliest` right after the step; `heard_at` is that moment by the monotonic clock."""

    before: datetime
    earliest: datetime
    noticed: datetime
    heard_at: float


class ClockWatch:
    """Compares what the database said at two times with the time that passed between them. Any
    thread may say what it heard."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: tuple[datetime, float, float] | None = None
        self._steps: list[StepBack] = []

    def forget(self) -> None:
        """What comes next is not to be compared with what was heard before."""
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
        """The steps that were noticed since it was asked last."""
        with self._lock:
            steps, self._steps = self._steps, []
            return steps


def note_step(store: Store, step: StepBack, lease: timedelta, since: timedelta) -> None:
    """Put the step down for whoever compares times later, and log it if nobody else has; it was
    heard of so long ago."""
    before, noticed = step.before + since, step.noticed + since
    noted = store.transact(
        lambda tx: tx.upkeep.note_clock_step(before, step.earliest, noticed, lease)
    )
    _log_clock_step(noted, before - noticed)


def notice_since_last_seen(tx: Tx, lease: timedelta) -> None:
    """Whether the clock is behind what any node has seen before this one begins."""
    seen = tx.upkeep.last_seen()
    if seen is not None and seen - tx.now >= LEAST:
        _log_clock_step(tx.upkeep.note_clock_step(seen, tx.now, tx.now, lease), seen - tx.now)


def _log_clock_step(first: bool, size: timedelta) -> None:
    if first:
        told = format_duration(timedelta(seconds=round(size.total_seconds())))
        log.warning("the database clock stepped back by %s; no due time runs twice", told)

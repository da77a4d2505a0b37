"""Notices that the database's clock stepped back, by a clock of this machine that never does."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.timetext import format_duration

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.store.base import Store, Tx

__all__ = ["ClockWatch", "StepBack", "note_step", "notice_since_last_seen"]

log = logging.getLogger(__name__)

LEAST: Final = timedelta(seconds=1)
"""A smaller step confuses nothing: transactions take as long."""


class StepBack(NamedTuple):
    """The clock would show `before`, and showed at least `earliest` right after the step."""

    before: datetime
    earliest: datetime


class ClockWatch:
    """Compares what the database said at two renewals with the time that passed between them."""

    def __init__(self, lease: timedelta) -> None:
        self._lease = lease
        self._last: tuple[datetime, float, float] | None = None

    def forget(self) -> None:
        """What comes next is not to be compared with what was heard before."""
        self._last = None

    def heard(self, now: datetime, asked_at: float, heard_at: float) -> StepBack | None:
        """The database said `now`, sometime between these two readings of the monotonic clock."""
        last, self._last = self._last, (now, asked_at, heard_at)
        if last is None:
            return None
        then, then_asked, then_heard = last
        back = timedelta(seconds=asked_at - then_heard) - (now - then)
        if back < LEAST or (now >= then and back < self._lease):
            return None
        most = timedelta(seconds=heard_at - then_asked)
        return StepBack(then + most, now - most)


def note_step(store: Store, step: StepBack, lease: timedelta) -> None:
    """Put the step down for whoever compares times later, and log it if nobody else has."""

    def work(tx: Tx) -> tuple[bool, timedelta]:
        return tx.note_clock_step(step.before, step.earliest, lease), step.before - tx.now

    _tell(*store.transact(work))


def notice_since_last_seen(tx: Tx, lease: timedelta) -> None:
    """Whether the clock is behind what any node has seen before this one begins."""
    seen = tx.last_seen()
    if seen is not None and seen - tx.now >= LEAST:
        _tell(tx.note_clock_step(seen, tx.now, lease), seen - tx.now)


def _tell(first: bool, size: timedelta) -> None:
    if first:
        told = format_duration(timedelta(seconds=round(size.total_seconds())))
        log.warning("the database clock stepped back by %s; nothing fires again", told)

"""Turns due times into runs: takes due schedules, plans, commits; decides nothing itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from duebook.errors import DuebookError
from duebook.planner import plan, plan_broken

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Plan, Snapshot
    from duebook.store.base import Store, Tx

__all__ = ["Ticker"]

log = logging.getLogger(__name__)

BATCH: Final = 1_000


class Ticker:
    """One per scheduler node; any number of them share the work."""

    def __init__(self, store: Store, session_id: str | None = None, batch: int = BATCH) -> None:
        self._store = store
        self.session_id = session_id
        self._batch = self._limit = batch

    def step(self) -> datetime | None:
        """Plan what is due now; returns when to look again, None when nothing is foreseen."""
        wake_at, now = self._store.read(lambda tx: (tx.earliest_wake(), tx.now))
        if wake_at is None or wake_at > now:
            return wake_at
        try:
            wake_at = self._store.transact(self._tick)
        except DuebookError:
            raise
        except Exception as error:
            return self._narrow_down(now, error)
        self._limit = min(self._limit * 2, self._batch)
        return wake_at

    def _tick(self, tx: Tx) -> datetime | None:
        snapshots = tx.take(self._limit)
        plans = [_plan(snapshot, tx.now) for snapshot in snapshots]
        tx.commit(plans, self.session_id)
        return tx.earliest_wake()

    def _narrow_down(self, now: datetime, error: Exception) -> datetime:
        """A batch that the database refuses is halved, until the one that spoils it is alone."""
        if self._limit == 1:
            log.error("a schedule cannot be committed and is set aside: %s", error)
            self._store.transact(lambda tx: self._set_aside(tx, error))
        self._limit = max(self._limit // 2, 1)
        return now

    def _set_aside(self, tx: Tx, error: Exception) -> None:
        broken = [plan_broken(snapshot, tx.now, error) for snapshot in tx.take(1)]
        tx.commit(broken, self.session_id)


def _plan(snapshot: Snapshot, now: datetime) -> Plan:
    """One schedule that cannot be planned never holds up the others."""
    try:
        return plan(snapshot, now)
    except Exception as error:
        log.exception("cannot plan schedule %s", snapshot.name)
        return plan_broken(snapshot, now, error)

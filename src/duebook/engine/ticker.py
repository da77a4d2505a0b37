"""Turns due times into runs: takes due schedules, plans, commits; decides nothing itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

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
        self._session_id = session_id
        self._batch = batch

    def step(self) -> datetime | None:
        """Plan what is due now; returns when to look again, None when nothing is foreseen."""
        wake_at, now = self._store.read(lambda tx: (tx.earliest_wake(), tx.now))
        if wake_at is not None and wake_at <= now:
            return self._store.transact(self._tick)
        return wake_at

    def _tick(self, tx: Tx) -> datetime | None:
        snapshots = tx.take(self._batch)
        plans = [_plan(snapshot, tx.now) for snapshot in snapshots]
        tx.commit(plans, self._session_id)
        return tx.earliest_wake()


def _plan(snapshot: Snapshot, now: datetime) -> Plan:
    """One schedule that cannot be planned never holds up the others."""
    try:
        return plan(snapshot, now)
    except Exception as error:
        log.exception("cannot plan schedule %s", snapshot.name)
        return plan_broken(snapshot, now, error)

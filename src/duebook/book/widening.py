"""Finds due times that were recorded as missed before an edit that widens catch-up.

They stay decided, so only a backfill runs them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.book.backfill import find_missing
from duebook.errors import Invalid
from duebook.model.edited import Missed
from duebook.model.plan import Reason
from duebook.settings import RETENTION

if TYPE_CHECKING:
    from duebook.model.plan import Snapshot
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.store.base import Tx

__all__ = ["find_missed", "widens"]

MOST_ENTRIES: Final = 1_000
_TICK: Final = timedelta(microseconds=1)
RECORDED: Final = (Reason.MISSED, Reason.EXPIRED, Reason.COALESCED)


def widens(before: ScheduleSpec, after: ScheduleSpec) -> bool:
    """Whether catch-up keeps more missed due times than before."""
    if after.catchup != "all":
        return False
    return before.catchup != "all" or _window(before) < _window(after)


def _window(spec: ScheduleSpec) -> timedelta:
    """None reaches back without limit, which in the database means the retention period."""
    return RETENTION if spec.catchup_window is None else min(spec.catchup_window, RETENTION)


def find_missed(
    tx: Tx, schedule: Schedule, snapshot: Snapshot, spec: ScheduleSpec
) -> Missed | None:
    """The due times without a run that were recorded as missed, but that `spec` would have kept.

    `snapshot` is the schedule before the edit.
    """
    if not widens(snapshot.spec, spec):
        return None
    since = max(tx.now - _window(spec), tx.history.of(schedule.id).since(tx.now) + _TICK)
    entries = [
        entry
        for entry in tx.ledger.list_ledger_between(schedule.id, since, tx.now, MOST_ENTRIES)
        if entry.reason in RECORDED
    ]
    if not entries:
        return None
    start = max(min(entry.due_from for entry in entries), since)
    end = max(entry.due_to for entry in entries)
    try:
        missing, _ = find_missing(tx, replace(snapshot, spec=spec), start, end, None)
    except Invalid:  # more than one backfill may run
        return Missed(schedule.namespace, schedule.name, start, end)
    if not missing:
        return None
    return Missed(schedule.namespace, schedule.name, missing[0], missing[-1], len(missing))

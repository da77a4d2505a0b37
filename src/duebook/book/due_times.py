"""Exceptions for single due times, in a transaction: move or skip the next one, or undo that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book.checks import refuse_decided
from duebook.errors import Conflict
from duebook.model.plan import DueException
from duebook.planner import DueTimes, plan, upcoming
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.book.audit import ScheduleAudit
    from duebook.model.plan import Snapshot
    from duebook.model.schedule import Schedule
    from duebook.store.base import Tx

__all__ = ["reschedule", "restore", "skip_next"]


def reschedule(
    tx: Tx, audit: ScheduleAudit, snapshot: Snapshot, moment: datetime, meant: datetime | None
) -> Schedule:
    """Move the next due time to `moment`; raises Conflict if it is not the one in `meant`."""
    next_due_at = _next(tx, snapshot, meant)
    if moment <= tx.now:  # behind the watermark it is due at once, not missed
        tx.plans.commit([plan(snapshot, tx.now)], None)
    refuse_decided(tx, snapshot, moment)
    moved = {_where_from(snapshot, next_due_at)}
    if next_due_at not in moved:
        former = DueException(next_due_at, "moved_here")
        tx.schedules.remove_exception(snapshot.schedule_id, former)
        if DueTimes.of(snapshot, tx.now).yields_itself(next_due_at):
            moved.add(next_due_at)  # it had been moved onto another one: both are moved
    away = [DueException(at, "moved_away", moment) for at in sorted(moved)]
    here = DueException(moment, "moved_here", moved_from=max(moved))
    said = _say(tx, snapshot, *away, here)
    audit.moved(tx, "reschedule", snapshot, next_due_at, moment)
    return said


def skip_next(
    tx: Tx, audit: ScheduleAudit, snapshot: Snapshot, meant: datetime | None
) -> tuple[Schedule, datetime]:
    """Skip the next due time; raises Conflict if it is not the one in `meant`."""
    next_due_at = _next(tx, snapshot, meant)
    said = _say(tx, snapshot, DueException(next_due_at, "skip"))
    audit.moved(tx, "skip_next", snapshot, next_due_at, said.next_due_at)
    return said, next_due_at


def restore(tx: Tx, audit: ScheduleAudit, snapshot: Snapshot, moment: datetime) -> Schedule:
    """Undo a skip or a move of a future due time; raises Conflict if there was none."""
    next_due_at = next(upcoming(snapshot, tx.now), None)
    said = [e for e in tx.schedules.list_exceptions(snapshot.schedule_id) if e.due_at == moment]
    taken = [e for e in said if e.kind in ("skip", "moved_away")]
    if not taken:
        raise Conflict(f"due time {format_instant(moment)} is not skipped or moved")
    if min(moment, *(e.moved_to or moment for e in taken)) <= tx.now:
        raise Conflict(f"due time {format_instant(moment)} has already been decided")
    for exception in taken:
        tx.schedules.remove_exception(snapshot.schedule_id, exception)
        if exception.moved_to is not None:
            here = DueException(exception.moved_to, "moved_here")
            tx.schedules.remove_exception(snapshot.schedule_id, here)
    restored = _say(tx, snapshot)
    audit.moved(tx, "restore", snapshot, next_due_at or moment, restored.next_due_at)
    return restored


def _next(tx: Tx, snapshot: Snapshot, meant: datetime | None) -> datetime:
    """The next due time; raises Conflict if it is not the one that the caller saw."""
    found = next(upcoming(snapshot, tx.now), None)
    if found is None:
        raise Conflict(f'schedule "{snapshot.name}" has no next due time')
    if meant is not None and meant != found:
        raise Conflict(
            f"due time {format_instant(meant)} is not the next one; the next one is "
            f"{format_instant(found)}"
        )
    return found


def _say(tx: Tx, snapshot: Snapshot, *exceptions: DueException) -> Schedule:
    """Record exceptions for due times, and plan again with them."""
    for exception in exceptions:
        tx.schedules.add_exception(snapshot.schedule_id, exception)
    tx.plans.commit([plan(tx.plans.snapshot(snapshot.schedule_id), tx.now)], None)
    return tx.schedules.get_schedule(snapshot.schedule_id)


def _where_from(snapshot: Snapshot, due_at: datetime) -> datetime:
    """The trigger's own due time that was moved to `due_at`; `due_at` if it was not moved."""
    here = (e.moved_from for e in snapshot.exceptions if e.due_at == due_at)
    return next((at for at in here if at is not None), due_at)

"""Actions on one or many schedules, in a transaction: pause, resume, trigger, skip the next
due time, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.book.manual_runs import begin
from duebook.errors import Invalid
from duebook.model.plan import DueException
from duebook.planner import (
    pause_unread,
    plan,
    plan_end,
    plan_pause,
    plan_resume,
    resume_unread,
    upcoming,
)
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.book.audit import ScheduleAudit
    from duebook.model.acted import Action, Pause
    from duebook.model.plan import Snapshot
    from duebook.model.unreadable import Salvaged
    from duebook.store.base import Tx

__all__ = ["STATES", "act", "delete_all", "refuse_past_end"]


def refuse_past_end(tx: Tx, pause: Pause) -> None:
    """Raises Invalid for a pause that would already be over."""
    if pause.until is not None and pause.until <= tx.now:
        raise Invalid(f"until {format_instant(pause.until)} is in the past")


STATES: Final[dict[str, Any]] = {"pause": "active", "resume": "paused", "skip_next": "active"}


def act(tx: Tx, audit: ScheduleAudit, action: Action, ids: Sequence[str], pause: Pause) -> set[str]:
    """Apply the action to schedules; returns those that it changed."""
    if action == "delete":
        return delete_all(tx, audit, ids)
    state = STATES.get(action)
    snapshots = [s for s in tx.plans.snapshots(ids) if state in (None, s.status)]
    match action:
        case "pause":
            return _pause(tx, audit, snapshots, _unreadable(tx, ids, snapshots, state), pause)
        case "resume":
            return _resume(tx, audit, snapshots, _unreadable(tx, ids, snapshots, state))
        case "trigger":
            for snapshot in snapshots:
                audit.told(tx, "trigger", snapshot, run_id=begin(tx, snapshot, None, audit.by))
        case "skip_next":
            return _skip_next(tx, audit, snapshots)
    return {snapshot.schedule_id for snapshot in snapshots}


def _unreadable(
    tx: Tx, ids: Sequence[str], read: Sequence[Snapshot], state: str | None
) -> list[Salvaged]:
    """Schedules with this status whose definitions cannot be read."""
    if len(read) == len(ids):
        return []
    return [salvaged for salvaged in tx.plans.salvage(ids) if salvaged.snapshot.status == state]


def _pause(
    tx: Tx,
    audit: ScheduleAudit,
    snapshots: Sequence[Snapshot],
    unreadable: Sequence[Salvaged],
    pause: Pause,
) -> set[str]:
    every = [*snapshots, *(salvaged.snapshot for salvaged in unreadable)]
    plans = [plan_pause(snapshot, tx.now) for snapshot in snapshots]
    plans += [pause_unread(salvaged.snapshot, tx.now) for salvaged in unreadable]
    tx.plans.pause(plans, pause.reason, pause.until)
    for salvaged in unreadable:
        tx.plans.mark_problem(salvaged.snapshot.schedule_id, salvaged.problem, pause.until)
    paused = [(s, "paused") for s in every]
    audit.acted_on(tx, "pause", paused, reason=pause.reason, until=pause.until)
    return {snapshot.schedule_id for snapshot in every}


def _resume(
    tx: Tx, audit: ScheduleAudit, snapshots: Sequence[Snapshot], unreadable: Sequence[Salvaged]
) -> set[str]:
    every = [*snapshots, *(salvaged.snapshot for salvaged in unreadable)]
    plans = [plan_resume(snapshot, tx.now) for snapshot in snapshots]
    plans += [resume_unread(salvaged.snapshot, tx.now) for salvaged in unreadable]
    tx.plans.commit(plans, None)
    for salvaged in unreadable:
        tx.plans.mark_problem(salvaged.snapshot.schedule_id, salvaged.problem, tx.now)
    audit.acted_on(tx, "resume", [(s, p.status) for s, p in zip(every, plans, strict=True)])
    return {snapshot.schedule_id for snapshot in every}


def _skip_next(tx: Tx, audit: ScheduleAudit, snapshots: Sequence[Snapshot]) -> set[str]:
    skipped: dict[str, datetime] = {}
    for snapshot in snapshots:
        if next_due_at := next(upcoming(snapshot, tx.now), None):
            tx.schedules.add_exception(snapshot.schedule_id, DueException(next_due_at, "skip"))
            skipped[snapshot.schedule_id] = next_due_at
    changed = tx.plans.snapshots(list(skipped))
    plans = [plan(snapshot, tx.now) for snapshot in changed]
    tx.plans.commit(plans, None)
    for snapshot, planned in zip(changed, plans, strict=True):
        was = skipped[snapshot.schedule_id]
        audit.moved(tx, "skip_next", snapshot, was, planned.next_due_at)
    return set(skipped)


def delete_all(tx: Tx, audit: ScheduleAudit, ids: Sequence[str]) -> set[str]:
    """Delete schedules in any state; returns those that were not deleted before."""
    snapshots = {snapshot.schedule_id: snapshot for snapshot in tx.plans.snapshots(ids)}
    ended = [
        # due times of a definition that cannot be read cannot be counted
        (schedule, plan_end(snapshots[schedule.id], tx.now) if schedule.id in snapshots else ())
        for schedule in tx.schedules.get_schedules(ids)
    ]
    tx.schedules.delete_schedules(ended)
    audit.deleted(tx, [schedule for schedule, _ in ended])
    return {schedule.id for schedule, _ in ended}

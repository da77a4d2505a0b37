"""Decides about the pending due times of one schedule; knows the policies, touches nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duebook.model.plan import Fire, Plan
from duebook.planner.backlog import pieces_until
from duebook.planner.controls import decide_controls
from duebook.planner.due import DueTimes
from duebook.planner.events import with_events
from duebook.planner.intervals import last_before
from duebook.planner.lifecycle import plan_resume
from duebook.planner.unattended import deferral
from duebook.planner.walk import Walk

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Snapshot, Unattended

__all__ = ["plan"]


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """Decide about every due time after the watermark, up to and including `now`.

    Each gets exactly one decision, in order; one that must wait is deferred, and those behind it
    wait as well. If the clock stepped back to before the watermark, nothing is pending. A schedule
    that is paused resumes when its time has come; otherwise its plan changes nothing. While no node
    reads the directory of the flow that it starts, everything waits, and counts as not seen yet.
    Runs that write an event have ended with the plan.
    """
    planned = _on_time(snapshot, now)
    if planned is None:
        planned = decide_controls(_by_all_rules(snapshot, now), snapshot, now)
    return with_events(planned, snapshot, now) if snapshot.spec.instant else planned


def _on_time(snapshot: Snapshot, now: datetime) -> Plan | None:
    """A plan at a third of the cost for nearly every tick: one due time, and no special rule."""
    spec, watermark = snapshot.spec, snapshot.watermark
    if not spec.plain or watermark is None or snapshot.status != "active":
        return None
    if snapshot.unattended or snapshot.exceptions or snapshot.seen or snapshot.delay is not None:
        return None
    if (snapshot.active and spec.overlap != "allow") or snapshot.windows or snapshot.shadows:
        return None
    trigger = spec.triggers[0]
    due_at = trigger.next_after(watermark)
    if due_at is None or not now - spec.grace <= due_at <= now:
        return None
    following = trigger.next_after(due_at)
    if following is None or following <= now:
        return None
    since = trigger.previous_before(due_at)
    if snapshot.handover is not None:
        since = last_before(snapshot, due_at)
    return Plan(
        snapshot.schedule_id,
        snapshot.version,
        (Fire(due_at, "schedule", False, (), None, since),),
        "active",
        now,
        following,
        following,
        fired=snapshot.fired + 1,
    )


def _by_all_rules(snapshot: Snapshot, now: datetime) -> Plan:
    if snapshot.status == "paused" and snapshot.paused_until and snapshot.paused_until <= now:
        return plan_resume(snapshot, now)
    if snapshot.status == "active" and snapshot.unattended is not None:
        return _unread(snapshot, snapshot.unattended, now)
    watermark, due = snapshot.decided_until(now), DueTimes.of(snapshot, now)
    until = now if snapshot.status == "active" else watermark
    walk = Walk(snapshot, due, pieces_until(snapshot, due, watermark, until), watermark, now)
    if snapshot.status == "active":
        walk.go()
    return walk.plan()


def _unread(snapshot: Snapshot, unattended: Unattended, now: datetime) -> Plan:
    """The flow files are not being read: nothing is decided, and nothing counts as seen."""
    watermark, due = snapshot.decided_until(now), DueTimes.of(snapshot, now)
    known = pieces_until(snapshot, due, watermark, watermark)
    planned = Walk(snapshot, due, known, watermark, now).plan()
    waiting = _first_waiting(snapshot, due, watermark, now)
    if waiting is None:
        return planned
    defer = deferral(unattended, waiting, now)
    decisions = (*planned.decisions, defer)
    return replace(planned, decisions=decisions, status="active", wake_at=defer.until)


def _first_waiting(
    snapshot: Snapshot, due: DueTimes, watermark: datetime, now: datetime
) -> datetime | None:
    """The earliest due time that is still to be decided, seen before or not."""
    if past := due.put_in_until(watermark):
        return min(past)
    for piece in pieces_until(snapshot, due, watermark, now):
        following = due.next_after(piece.after)
        if piece.kind != "done" and following is not None and following <= piece.until:
            return following
    return None

"""Decides about the pending due times of one schedule; knows the policies, touches nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.model.plan import Fire, Plan
from duebook.planner.backlog import pieces_until
from duebook.planner.due import DueTimes
from duebook.planner.lifecycle import plan_resume
from duebook.planner.walk import Walk

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Snapshot

__all__ = ["plan"]


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """Decide about every due time after the watermark, up to and including `now`.

    Each gets exactly one decision, in order; one that must wait is deferred, and those behind it
    wait as well. A clock that stepped back behind the watermark finds nothing pending. A schedule
    that is paused resumes when its time has come; otherwise its plan changes nothing.
    """
    return _on_time(snapshot, now) or _by_all_rules(snapshot, now)


def _on_time(snapshot: Snapshot, now: datetime) -> Plan | None:
    """The plan of nearly every tick, at a third of the cost: one due time, and no rule applies."""
    spec, watermark = snapshot.spec, snapshot.watermark
    if not spec.plain or watermark is None or snapshot.status != "active":
        return None
    if snapshot.exceptions or snapshot.seen or (snapshot.active and spec.overlap != "allow"):
        return None
    due_at = spec.triggers[0].next_after(watermark)
    if due_at is None or not now - spec.grace <= due_at <= now:
        return None
    following = spec.triggers[0].next_after(due_at)
    if following is None or following <= now:
        return None
    return Plan(
        snapshot.schedule_id,
        snapshot.version,
        (Fire(due_at, "schedule"),),
        "active",
        now,
        following,
        following,
        fired=snapshot.fired + 1,
    )


def _by_all_rules(snapshot: Snapshot, now: datetime) -> Plan:
    if snapshot.status == "paused" and snapshot.paused_until and snapshot.paused_until <= now:
        return plan_resume(snapshot, now)
    watermark, due = snapshot.decided_until(now), DueTimes.of(snapshot, now)
    until = now if snapshot.status == "active" else watermark
    walk = Walk(snapshot, due, pieces_until(snapshot, due, watermark, until), watermark, now)
    if snapshot.status == "active":
        walk.go()
    return walk.plan()

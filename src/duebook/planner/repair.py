"""Plans for schedules whose definition this node cannot read; no due time is decided or lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duebook.model.plan import Plan, Stretch
from duebook.planner.due import instant_before
from duebook.planner.lifecycle import end_of_pause, held, plan_edit

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Snapshot
    from duebook.model.schedule import ScheduleSpec, Status
    from duebook.model.unreadable import Salvaged

__all__ = ["pause_unread", "plan_repair", "resume_unread"]


def plan_repair(salvaged: Salvaged, spec: ScheduleSpec, now: datetime) -> Plan:
    """The state of a schedule whose unreadable definition is replaced.

    It is an edit. If it is unknown what the old definition had pending, the new one applies from
    the watermark on, and nothing is recorded as edited.
    """
    snapshot = salvaged.snapshot
    if not salvaged.knows_times:
        snapshot = replace(snapshot, spec=spec)
    return plan_edit(snapshot, spec, now)


def pause_unread(snapshot: Snapshot, now: datetime) -> Plan:
    """Possible due times up to now keep their class and wait."""
    old, place = instant_before(now - snapshot.spec.grace), _seen_until(snapshot, now)
    fresh = (Stretch(old, "missed", now), Stretch(now, "live", now))
    seen = (*snapshot.seen, *(stretch for stretch in fresh if stretch.until > place))
    return replace(_plan(snapshot, now, "paused", seen), delay=held(snapshot, now))


def resume_unread(snapshot: Snapshot, now: datetime) -> Plan:
    """Possible due times of the pause wait until `on_resume` is readable."""
    seen, until = snapshot.seen, end_of_pause(snapshot, now)
    if until > _seen_until(snapshot, now):
        seen = (*seen, Stretch(until, "paused", now))
    planned = _plan(snapshot, now, "active", seen)
    return replace(planned, wake_at=now, resumed=True)


def _seen_until(snapshot: Snapshot, now: datetime) -> datetime:
    return max((s.until for s in snapshot.seen), default=snapshot.decided_until(now))


def _plan(snapshot: Snapshot, now: datetime, status: Status, seen: tuple[Stretch, ...]) -> Plan:
    return Plan(
        snapshot.schedule_id,
        snapshot.version,
        (),
        status,
        snapshot.decided_until(now),
        None,
        None,
        seen=seen,
        considered_at=snapshot.considered_at,
        fired=snapshot.fired,
        delay=snapshot.delay,
    )

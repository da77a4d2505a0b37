"""Plans for what people do to a schedule: resume and delete; and for one that cannot be planned."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.errors import shorten
from duebook.model.plan import Plan, Reason, Skip
from duebook.planner.due import DueTimes
from duebook.planner.plan import settled_state

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Snapshot

__all__ = ["plan_broken", "plan_end", "plan_resume"]

RETRY_BROKEN: Final = timedelta(minutes=10)


def plan_resume(snapshot: Snapshot, now: datetime) -> Plan:
    """Make a paused schedule active; what fell while it was paused follows `on_resume`."""
    active = replace(snapshot, status="active")
    watermark = now if snapshot.watermark is None else snapshot.watermark
    due = DueTimes(snapshot.spec.triggers, snapshot.exceptions, watermark)
    if snapshot.spec.on_resume == "catchup":
        planned = settled_state(active, due, (), watermark, now)
        return replace(planned, wake_at=now) if planned.status == "active" else planned
    until = max(watermark, now)
    return settled_state(active, due, tuple(_all(due, watermark, until, Reason.PAUSED)), until, now)


def plan_end(snapshot: Snapshot, now: datetime) -> tuple[Skip, ...]:
    """What is recorded when a schedule is deleted: the due times that were still pending."""
    watermark = now if snapshot.watermark is None else snapshot.watermark
    due = DueTimes(snapshot.spec.triggers, snapshot.exceptions, watermark)
    return tuple(_all(due, watermark, max(watermark, now), Reason.DELETED))


def plan_broken(snapshot: Snapshot, now: datetime, error: Exception) -> Plan:
    """A schedule whose planning failed: the problem is shown, and it is tried again later."""
    return Plan(
        snapshot.schedule_id,
        snapshot.version,
        (),
        snapshot.status,
        snapshot.watermark or now,
        None,
        now + RETRY_BROKEN,
        problem=shorten(f"{type(error).__name__}: {error}", 500),
    )


def _all(due: DueTimes, after: datetime, until: datetime, reason: Reason) -> list[Skip]:
    skips = due.skip_all(after, until, due.moved_here(until), reason, {})
    return [*skips, *due.taken_out(after, until)]

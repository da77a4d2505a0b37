"""Runs that take no time: an event target's run ends with the plan that creates it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.model.plan import Fire
from duebook.targets.event import end_at_once

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Plan, Snapshot

__all__ = ["ended_fire", "with_events"]


def with_events(plan: Plan, snapshot: Snapshot, now: datetime) -> Plan:
    """The plan, with runs that write an event already ended."""
    return plan.deciding(
        tuple(
            ended_fire(decision, snapshot, now) if isinstance(decision, Fire) else decision
            for decision in plan.decisions
        )
    )


def ended_fire(
    fire: Fire, snapshot: Snapshot, now: datetime, payload: dict[str, Any] | None = None
) -> Fire:
    """With the event that it writes; nothing waits for its end."""
    ended = end_at_once(snapshot, fire, now, payload)
    return Fire(fire.due_at, fire.origin, False, fire.cancels, ended, fire.since, fire.nominal_at)

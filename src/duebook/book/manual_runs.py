"""What a person makes happen at once: a run of a schedule, and a plan after what was said of it.

An event takes no time, so what writes one has ended in the same transaction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duebook.ids import new_id
from duebook.model.plan import Fire
from duebook.planner import plan
from duebook.targets.event import end_at_once, with_events

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Plan, Snapshot
    from duebook.store.base import Tx

__all__ = ["begin", "plan_now"]


def begin(tx: Tx, snapshot: Snapshot, payload: dict[str, Any] | None = None) -> str:
    """A manual run of a schedule; returns its id."""
    if snapshot.spec.instant:
        fire = Fire(tx.now, "manual")
        fire = replace(fire, ended=end_at_once(snapshot, fire, tx.now, payload))
        (run_id,) = tx.create_ended(snapshot, [fire], payload)
    else:
        tx.create_run(snapshot, run_id := new_id(), payload)
    return run_id


def plan_now(snapshot: Snapshot, now: datetime) -> Plan:
    return with_events(plan(snapshot, now), snapshot, now)

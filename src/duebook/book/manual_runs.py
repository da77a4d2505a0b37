"""Starts manual runs of schedules.

A run that publishes an event takes no time: it ends in the transaction that creates it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.ids import new_id
from duebook.model.plan import Fire
from duebook.planner import ended_fire

if TYPE_CHECKING:
    from duebook.model.plan import Snapshot
    from duebook.store.base import Tx

__all__ = ["begin"]


def begin(tx: Tx, snapshot: Snapshot, payload: dict[str, Any] | None, by: str) -> str:
    """A manual run of a schedule that `by` asks for; returns its id."""
    if snapshot.spec.instant:
        fire = ended_fire(Fire(tx.now, "manual"), snapshot, tx.now, payload)
        (run_id,) = tx.runs.create_ended(snapshot, [fire], payload, by or None)
    else:
        tx.runs.create_run(snapshot, run_id := new_id(), payload, by or None)
    return run_id

"""Wakes schedules that are active but that no node would ever look at again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from duebook.model.change import Change
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.model.schedule import Schedule
    from duebook.store.base import Tx

__all__ = ["HEALER", "wake_asleep"]

log = logging.getLogger(__name__)

HEALER: Final = "duebook"
"""The actor in the audit log."""
BATCH: Final = 200


def wake_asleep(tx: Tx) -> int:
    """Let the planner decide about them now, log and audit each; returns how many there were."""
    woken = tx.schedules.get_schedules(ids) if (ids := tx.upkeep.wake_asleep(BATCH)) else []
    for schedule in woken:
        log.error(
            "schedule %s of namespace %s was %s, but no node would have planned it; "
            "it is planned now",
            schedule.name,
            schedule.namespace,
            schedule.status,
        )
    tx.audit.record([_change(tx, schedule) for schedule in woken])
    return len(woken)


def _change(tx: Tx, schedule: Schedule) -> Change:
    due, until = schedule.next_due_at, schedule.paused_until
    return Change(
        0,
        tx.now,
        HEALER,
        schedule.namespace,
        "wake",
        "schedule",
        schedule.name,
        schedule.id,
        {"wake_at": None, "next_due_at": due and format_instant(due)},
        {"wake_at": format_instant(until or tx.now)},
    )

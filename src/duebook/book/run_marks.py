"""The newest runs of schedules as marks, with the start times that their jitter allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.model.statistics import measure
from duebook.planner.due import jittered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from duebook.model.insight import RunMark
    from duebook.store.base import Tx
    from duebook.store.sql.definitions import Definition

__all__ = ["METRICS_LABEL", "MOST_MEASURED", "Measured", "measure_labelled", "read_marks"]

METRICS_LABEL: Final = ("metrics", "true")
"""The label that gives a schedule its own metrics."""
MOST_MEASURED: Final = 500
"""Schedules with their own metrics; the first by namespace and name."""
EACH: Final = 5
"""Runs read for each: the newest ones may not have started or ended."""


class Measured(NamedTuple):
    """Measurements from the newest runs of a schedule; None for those that are unknown."""

    namespace: str
    name: str
    ended: bool
    """whether any run has ended"""
    last_success_at: datetime | None
    last_duration: timedelta | None
    last_lateness: timedelta | None


def read_marks(tx: Tx, schedule_id: str, limit: int) -> list[RunMark]:
    """Oldest first."""
    return _read_marks(tx, [schedule_id], limit).get(schedule_id, [])


def measure_labelled(tx: Tx) -> list[Measured]:
    """The schedules that have their own metrics."""
    wanted = tx.insights.list_labelled(*METRICS_LABEL, MOST_MEASURED)
    if not wanted:
        return []
    ids = [schedule_id for schedule_id, *_ in wanted]
    marks, successes = _read_marks(tx, ids, EACH), tx.insights.list_last_successes(ids)
    found = []
    for schedule_id, namespace, name in wanted:
        told = measure(name, marks.get(schedule_id, []), "UTC")
        success, ended = successes.get(schedule_id), told.last_duration is not None
        about = (success, told.last_duration, told.last_lateness)
        found.append(Measured(namespace, name, ended or success is not None, *about))
    return found


def _read_marks(tx: Tx, schedule_ids: Sequence[str], each: int) -> dict[str, list[RunMark]]:
    found = tx.insights.list_marks(schedule_ids, each)
    pairs = {(id_, mark.version or 0): None for id_, marks in found.items() for mark in marks}
    known = tx.definitions.read(list(pairs))
    return {
        id_: [_planned(mark, known.get((id_, mark.version or 0))) for mark in marks]
        for id_, marks in found.items()
    }


def _planned(mark: RunMark, definition: Definition | None) -> RunMark:
    if definition is None or not definition.spec.jitter or mark.due_at is None:
        return mark
    jitter = definition.spec.jitter
    return replace(mark, planned_at=jittered(mark.due_at, jitter, definition.name))

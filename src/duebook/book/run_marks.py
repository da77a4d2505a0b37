"""The newest runs of a schedule as marks, with when their jitter let them begin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duebook.planner.due import jittered

if TYPE_CHECKING:
    from duebook.model.insight import RunMark
    from duebook.store.base import Tx
    from duebook.store.sql.definitions import Definition

__all__ = ["read_marks"]


def read_marks(tx: Tx, schedule_id: str, limit: int) -> list[RunMark]:
    """The oldest of them first."""
    found = tx.insights.list_marks([schedule_id], limit).get(schedule_id, [])
    pairs = [(schedule_id, mark.version or 0) for mark in found]
    known = tx.definitions.read(list(dict.fromkeys(pairs)))
    return [_planned(mark, known.get(pair)) for mark, pair in zip(found, pairs, strict=True)]


def _planned(mark: RunMark, definition: Definition | None) -> RunMark:
    if definition is None or not definition.spec.jitter or mark.due_at is None:
        return mark
    jitter = definition.spec.jitter
    return replace(mark, planned_at=jittered(mark.due_at, jitter, definition.name))

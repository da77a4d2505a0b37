"""Missed due times that wait for an operator, and the result of a decision, as values."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Id, Name, Shown, shown

__all__ = ["BulkDecision", "CatchupDecision", "DecisionKind", "HeldRange"]

DecisionKind = Literal["approve", "reject"]


@shown()
@dataclass(frozen=True, slots=True)
class HeldRange:
    """Missed due times of a schedule, from first to last, that wait for an operator.

    They are those of the definition in use at that time, regardless of later changes.
    """

    schedule: Name
    schedule_id: Id
    due_from: datetime
    due_to: datetime
    count: Annotated[int, Shown(least=1)]
    exact: Annotated[bool, Shown("false: there are at least this many.")]
    version: Annotated[int, Shown("The version of the definition that they belong to.", least=1)]
    held_at: Annotated[datetime, Shown("When they were set aside.")]


@shown()
@dataclass(frozen=True, slots=True)
class CatchupDecision:
    """How many held due times were, or would be, approved and rejected, and how many stay held."""

    approved: Annotated[int, Shown("Due times that run.")]
    rejected: Annotated[int, Shown("Due times that are recorded as `skipped_by_user`.")]
    held: Annotated[int, Shown("Due times that still wait for a decision.")]
    exact: Annotated[bool, Shown("false: at least so many are rejected or stay held.")]
    due_from: Annotated[datetime, Shown("The first due time that was chosen.")]
    due_to: Annotated[datetime, Shown("The last due time that was chosen.")]
    queued_at: Annotated[
        datetime | None, Shown("The `ready_at` of the runs, which identifies them for an undo.")
    ] = None
    dry_run: bool = False


@shown()
@dataclass(frozen=True, slots=True)
class BulkDecision:
    """How many held due times of how many schedules were, or would be, approved and rejected."""

    decision: DecisionKind
    schedules: Annotated[int, Shown("Schedules that it was done to.")]
    names: Annotated[tuple[Name, ...], Shown("The first of them.")]
    approved: Annotated[int, Shown("Due times that run.")]
    rejected: Annotated[int, Shown("Due times that are recorded as `skipped_by_user`.")]
    held: Annotated[int, Shown("Due times of these schedules that still wait for a decision.")]
    exact: Annotated[bool, Shown("false: at least so many are rejected or stay held.")]
    refused: Annotated[int, Shown("Schedules that it could not be done to.")]
    problems: Annotated[tuple[str, ...], Shown("Why not, for the first of them.")]
    dry_run: bool = False

"""What the planner may know and what it answers: Snapshot in, Plan out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duebook.model.run import Origin
    from duebook.model.schedule import ScheduleSpec, Status

__all__ = [
    "ActiveRun",
    "Decision",
    "DueException",
    "Fire",
    "Plan",
    "Reason",
    "Skip",
    "Snapshot",
]


class Reason(StrEnum):
    """Why a due time did not become a run, or not yet; the codes are stable."""

    OVERLAP = "overlap"
    PAUSED = "paused"
    MISSED = "missed"
    COALESCED = "coalesced"
    SUPERSEDED = "superseded"
    ALREADY_STARTED = "already_started"
    SKIPPED_BY_USER = "skipped_by_user"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run of the schedule that is queued, running or waiting for its retry."""

    id: str
    due_at: datetime | None
    since: datetime


@dataclass(frozen=True, slots=True)
class DueException:
    """What a person said about one due time.

    `skip` and `moved_away` take a due time of the trigger out; `moved_here` puts one in. Each is
    used up by the plan that decides its due time.
    """

    due_at: datetime
    kind: Literal["skip", "moved_away", "moved_here"]
    moved_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One schedule as it stands, with the facts its policies need."""

    schedule_id: str
    name: str
    version: int
    spec: ScheduleSpec
    status: Status
    watermark: datetime | None
    """every due time up to it is decided; None counts as new"""
    active: tuple[ActiveRun, ...] = ()
    exceptions: tuple[DueException, ...] = ()


@dataclass(frozen=True, slots=True)
class Fire:
    """The due time becomes a run."""

    due_at: datetime
    origin: Origin
    wakes: bool = False
    """settling the run wakes the schedule, because it waits for that"""


@dataclass(frozen=True, slots=True)
class Skip:
    """The due times from first to last (often one) do not become runs."""

    due_from: datetime
    due_to: datetime
    count: int
    exact: bool
    reason: Reason
    facts: Mapping[str, Any] = field(default_factory=dict)


Decision = Fire | Skip


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions about one schedule, and its state when they are committed."""

    schedule_id: str
    version: int
    decisions: tuple[Decision, ...]
    status: Status
    watermark: datetime
    next_due_at: datetime | None
    wake_at: datetime | None
    used: tuple[DueException, ...] = ()
    problem: str | None = None

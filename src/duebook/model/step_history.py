"""Steps of flows over time, as values: marks of steps, their attempts, and their output lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duebook.model.run import LogLine, RunStatus

__all__ = ["AttemptMark", "StepLine", "StepMark"]


@dataclass(frozen=True, slots=True)
class StepMark:
    """Everything of a step's run that a table of many runs shows."""

    flow_run_id: str
    step: str
    id: str
    status: RunStatus
    reason: str | None
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def took(self) -> timedelta | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at


@dataclass(frozen=True, slots=True)
class AttemptMark:
    """An attempt of a run that was followed by another."""

    run_id: str
    number: int
    claimed_at: datetime
    finished_at: datetime
    outcome: str


@dataclass(frozen=True, slots=True)
class StepLine:
    """A line of the log of one of several runs."""

    run_id: str
    attempt: int
    seq: int
    line: LogLine

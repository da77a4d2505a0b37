"""Where a run of a flow stands, and what is to be done next, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = [
    "Advance",
    "FlowEnd",
    "Skip",
    "SkipReason",
    "Standing",
    "StepEnd",
    "StepState",
    "StopReason",
]

StepStatus = Literal["queued", "running", "succeeded", "failed", "cancelled", "skipped"]
StopReason = Literal["flow_cancelled", "flow_timeout"]
"""of a step that its flow ended, or did not begin any more"""
SkipReason = (
    Literal["precondition", "upstream_failed", "upstream_skipped", "init_failed"] | StopReason
)


@dataclass(frozen=True, slots=True)
class StepState:
    """How far a step has come. One that waits for its next attempt is queued."""

    status: StepStatus
    reason: str | None = None
    exit_code: int | None = None
    matched: bool = False
    """whether it printed what its `continue_on.output` looks for"""

    @property
    def is_active(self) -> bool:
        return self.status in ("queued", "running")


@dataclass(frozen=True, slots=True)
class StepEnd:
    """What later steps can name of one that has ended."""

    status: StepStatus
    exit_code: int | None = None
    output: Any = None
    """text that a command printed, or JSON that a task or a flow returned"""


@dataclass(frozen=True, slots=True)
class Standing:
    """All that decides how a run of a flow goes on; a step without a state has not begun."""

    begun_at: datetime
    states: Mapping[str, StepState]
    stop_asked: bool = False


@dataclass(frozen=True, slots=True)
class Skip:
    """A step that will not run."""

    step: str
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class FlowEnd:
    """How a run of a flow ended."""

    status: Literal["succeeded", "failed", "cancelled"]
    reason: str | None = None
    failed: tuple[str, ...] = ()
    """the steps because of which it failed"""
    warnings: tuple[str, ...] = ()
    """the steps that failed, and were continued over"""


@dataclass(frozen=True, slots=True)
class Advance:
    """What is to be done now; nothing is an answer too."""

    start: tuple[str, ...] = ()
    skip: tuple[Skip, ...] = ()
    cancel: tuple[str, ...] = ()
    """active steps that are asked to end, for the reason below"""
    cancel_reason: StopReason | None = None
    end: FlowEnd | None = None
    wake_at: datetime | None = None
    """when to ask again, should nothing happen before"""

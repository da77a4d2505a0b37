"""Where a run of a flow stands, and what is to be done next, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from duebook.lazy_dataclasses import dataclass
from duebook.model.run import run_state

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duebook.model.run import Interval, Origin, RunState, RunStatus

__all__ = [
    "MATCHED",
    "Advance",
    "Apart",
    "FlowEnd",
    "FlowMove",
    "FlowParent",
    "NewStep",
    "Skip",
    "SkipReason",
    "Standing",
    "StepContext",
    "StepEnd",
    "StepRow",
    "StepState",
    "StopReason",
    "step_state",
]

StopReason = Literal["flow_cancelled", "flow_timeout"]
"""of a step that its flow ended, or did not begin any more"""
SkipReason = (
    Literal["precondition", "upstream_failed", "upstream_skipped", "init_failed"] | StopReason
)
MATCHED: Final = "matched"
"""Why a step failed that printed what its `continue_on.output` looks for."""


@dataclass(frozen=True, slots=True)
class StepState:
    """How far a step has come. One that waits for its next attempt is queued."""

    status: RunState
    reason: str | None = None
    exit_code: int | None = None
    matched: bool = False
    """whether it printed what its `continue_on.output` looks for"""

    @property
    def is_active(self) -> bool:
        return self.status in ("queued", "running")


@dataclass(frozen=True, slots=True)
class Apart:
    """An output that is too large for the row of its run."""

    run_id: str
    size: int


@dataclass(frozen=True, slots=True)
class StepEnd:
    """What later steps can name of one that has ended."""

    status: RunState
    exit_code: int | None = None
    output: Any = None
    """text that a command printed, or JSON that a task or a flow returned; Apart: not read"""


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

    status: Literal["succeeded", "partial", "failed", "cancelled"]
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


class StepRow(NamedTuple):
    """A step's run as the books have it."""

    step: str
    run_id: str
    status: RunStatus
    reason: str | None
    exit_code: int | None
    unmet: str | None = None
    """which condition of it was not met, and how"""


def step_state(status: RunStatus, reason: str | None, exit_code: int | None) -> StepState:
    """What a run says about its step: one that was never to run is a cancelled run."""
    state = run_state(status, reason)
    if state == "skipped":
        return StepState(state, reason)
    return StepState(state, reason, exit_code, state == "failed" and reason == MATCHED)


@dataclass(frozen=True, slots=True)
class FlowParent:
    """A run of a flow that wants to be looked at, and those of its steps."""

    run_id: str
    namespace: str
    flow: str
    digest: str | None
    params: dict[str, Any]
    depth: int
    status: RunStatus
    stop_asked: bool
    begun_at: datetime | None
    priority: int
    caller: RunStatus | None = None
    """how far the run has come of which it is a step"""
    ready_at: datetime | None = None
    """when it may begin"""
    failures: int = 0
    options: str | None = None
    """of the step that called it: retry and timeout, as JSON"""
    steps: tuple[StepRow, ...] = ()
    requested_by: str | None = None


@dataclass(frozen=True, slots=True)
class NewStep:
    """A step that begins, as its run is kept."""

    run_id: str
    step: str
    queue: str
    task: str | None = None
    needs: str | None = None
    """labels that its worker must have, as JSON"""
    options: str | None = None
    """retry and timeout, as JSON"""


@dataclass(frozen=True, slots=True)
class FlowMove:
    """What an advancer decided about a run of a flow."""

    parent: FlowParent
    start: tuple[NewStep, ...] = ()
    skip: tuple[tuple[str, Skip], ...] = ()
    """each with the id of the run that says so"""
    cancel: tuple[str, ...] = ()
    """runs"""
    cancel_reason: StopReason | None = None
    wake: tuple[str, ...] = ()
    """runs of flows that it called, and that waited for it to begin or to end"""
    end: FlowEnd | None = None
    error: str | None = None
    output: str | None = None
    """what the flow returns, as JSON"""
    wake_at: datetime | None = None
    again_at: datetime | None = None
    """when it is run once more, after it ended so"""
    forgotten: frozenset[str] | None = None
    """the steps that begin again then; None: all"""
    is_limited: bool = False
    """whether others of the flow may have to wait for its end"""


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a step may know of its flow's run when it begins."""

    flow: str
    digest: str | None
    params: dict[str, Any]
    run_id: str
    origin: Origin
    trigger: str
    due_at: datetime | None
    created_at: datetime
    schedule_id: str | None
    schedule: str | None
    ends: Mapping[str, tuple[StepState, Any]]
    """of the steps that have ended, and what each returned; Apart where that is large"""
    interval: Interval | None = None

"""The state of a flow's run, and what to do next, as values."""

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
"""for a step that its flow stopped or did not start"""
SkipReason = (
    Literal["precondition", "upstream_failed", "upstream_skipped", "init_failed", "values_failed"]
    | StopReason
)
MATCHED: Final = "matched"
"""Why a step failed whose output matches its `continue_on.output`."""


@dataclass(frozen=True, slots=True)
class StepState:
    """The state of a step. One that waits for its next attempt is queued."""

    status: RunState
    reason: str | None = None
    exit_code: int | None = None
    matched: bool = False
    """whether its output matches its `continue_on.output`"""

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
    """What later steps can refer to of one that has ended."""

    status: RunState
    exit_code: int | None = None
    output: Any = None
    """text printed by a command, or JSON returned by a task or flow; Apart: not read"""


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything that decides how a flow's run continues; a step without a state has not
    started."""

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
    """the steps that made it fail"""
    warnings: tuple[str, ...] = ()
    """the failed steps after which it continued"""


@dataclass(frozen=True, slots=True)
class Advance:
    """What to do now, if anything."""

    start: tuple[str, ...] = ()
    skip: tuple[Skip, ...] = ()
    cancel: tuple[str, ...] = ()
    """active steps that are asked to stop, with `cancel_reason`"""
    cancel_reason: StopReason | None = None
    end: FlowEnd | None = None
    wake_at: datetime | None = None
    """when to look again, if nothing happens before"""


class StepRow(NamedTuple):
    """A step's run as stored."""

    step: str
    run_id: str
    status: RunStatus
    reason: str | None
    exit_code: int | None
    unmet: str | None = None
    """which of its conditions was not met, and how"""


def step_state(status: RunStatus, reason: str | None, exit_code: int | None) -> StepState:
    """The state of a step by its run; a step that was not to run is a cancelled run."""
    state = run_state(status, reason)
    if state == "skipped":
        return StepState(state, reason)
    return StepState(state, reason, exit_code, state == "failed" and reason == MATCHED)


@dataclass(frozen=True, slots=True)
class FlowParent:
    """A run of a flow that is due for a look, with those of its steps."""

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
    """the state of the run of the step that called it"""
    ready_at: datetime | None = None
    """when it may start"""
    failures: int = 0
    options: str | None = None
    """retry and timeout of the step that called it, as JSON"""
    steps: tuple[StepRow, ...] = ()
    requested_by: str | None = None


@dataclass(frozen=True, slots=True)
class NewStep:
    """A step that starts, as its run is stored."""

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
    """each with the id of the run that records it"""
    cancel: tuple[str, ...] = ()
    """ids of runs"""
    cancel_reason: StopReason | None = None
    wake: tuple[str, ...] = ()
    """child runs of flows that waited for it to start or end"""
    end: FlowEnd | None = None
    error: str | None = None
    output: str | None = None
    """what the flow returns, as JSON"""
    wake_at: datetime | None = None
    again_at: datetime | None = None
    """when it is run again after this end"""
    forgotten: frozenset[str] | None = None
    """the steps that start again then; None: all"""
    is_limited: bool = False
    """whether other runs of the flow may be waiting for its end"""


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a step may know of its flow's run when it starts."""

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
    """of the steps that have ended, with their outputs; Apart if large"""
    interval: Interval | None = None

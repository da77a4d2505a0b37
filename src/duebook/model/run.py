"""Runs, their attempts and how those end, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.event import Draft
    from duebook.model.flow_run import StepContext
    from duebook.model.flow_target import FlowTarget
    from duebook.model.schedule import ScheduleSpec

__all__ = [
    "Attempt",
    "Claim",
    "LatestRun",
    "LogLine",
    "Origin",
    "Outcome",
    "Progress",
    "Run",
    "RunState",
    "RunStatus",
    "Token",
    "overlapped",
    "run_state",
]

RunStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
RunState = Literal[RunStatus, "skipped"]
"""a status as people see it"""
SKIPPED: Final = frozenset({"precondition", "upstream_failed", "upstream_skipped", "init_failed"})
"""Why steps and flows are cancelled that were not to run at all."""
_WHY: Final = {
    "precondition": "its condition was not met",
    "upstream_failed": "a step before it failed",
    "upstream_skipped": "a step before it was skipped",
    "init_failed": "the init handler did not succeed",
    "flow_cancelled": "its flow was stopped",
    "flow_timeout": "its flow took longer than its timeout_sec",
}
Origin = Literal["schedule", "catchup", "backfill", "manual", "enqueue", "flow"]


@dataclass(frozen=True, slots=True)
class Run:
    """The durable unit of work, with the node and times of its current attempt."""

    id: str
    namespace: str
    schedule_id: str | None
    schedule: str | None
    version: int | None
    due_at: datetime | None
    origin: Origin
    trigger: str
    queue: str
    priority: int
    status: RunStatus
    attempt: int
    failures: int
    losses: int
    payload: dict[str, Any] | None
    """what a person gave for this run; None: the payload of its schedule"""
    created_at: datetime
    ready_at: datetime
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    node: str | None = None
    cancel_requested_at: datetime | None = None
    reason: str | None = None
    error: str | None = None
    exit_code: int | None = None
    task: str | None = None
    """the task that it executes; None for other targets"""
    output: Any = None
    """what its task returned, or the answer to its request"""
    output_ref: str | None = None
    """where its task put what is too large for the books"""
    progress: float | None = None
    """of its latest attempt, from 0 to 1, as far as that tells"""
    progress_text: str | None = None
    beat_at: datetime | None = None
    """the latest sign of life that its task gave by itself"""
    parent_run_id: str | None = None
    """the run of the flow whose step it is"""
    step: str | None = None
    """None also once its flow was retried, and began the step again"""
    flow: str | None = None
    """the flow that it is a run of, or of which it is a step"""
    output_size: int | None = None
    """bytes of an output that is too large to be listed: `runs.output` returns it"""
    output_secrets: list[str] | None = None
    """what is hidden in its output where people see it"""

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return self.status in ("queued", "running")

    @property
    def state(self) -> RunState:
        """Its status in the word that people use: what was not to run at all was skipped."""
        return run_state(self.status, self.reason)

    @property
    def why(self) -> str:
        """Why it is as it is, in words as far as there are any."""
        return self.error or _WHY.get(self.reason or "", self.reason or "")


class Started(Protocol):
    """What lateness asks of a run, or of the mark of one."""

    @property
    def origin(self) -> Origin: ...
    @property
    def attempt(self) -> int: ...
    @property
    def due_at(self) -> datetime | None: ...
    @property
    def started_at(self) -> datetime | None: ...


def lateness(run: Started, planned_at: datetime | None = None) -> timedelta | None:
    """How long after its due time a run began, or after `planned_at`, which its jitter gave it.

    Only what a due time started can be late: None for backfills and runs by hand, and for a later
    attempt, which begins when the one before it has ended.
    """
    if run.due_at is None or run.started_at is None or run.attempt > 1:
        return None
    if run.origin not in ("schedule", "catchup"):
        return None
    return max(run.started_at - (planned_at or run.due_at), timedelta())


def run_state(status: RunStatus, reason: str | None) -> RunState:
    return "skipped" if status == "cancelled" and reason in SKIPPED else status


class Token(NamedTuple):
    """Proof of ownership: only the holder of the current one may settle the run."""

    run_id: str
    attempt: int
    session_id: str


class Claim(NamedTuple):
    """A run that this node took, with its token and the definition it runs by."""

    run: Run
    token: Token
    spec: ScheduleSpec
    user: str = ""
    """who made the schedule"""
    step_context: StepContext | None = None
    """of a step: what it may know of its flow's run"""
    secrets: frozenset[str] = frozenset()
    """of a step: what is secret in the variables of its flow"""

    @property
    def payload(self) -> dict[str, Any]:
        """What a person gave for this run, else what its definition says."""
        return self.spec.payload if self.run.payload is None else self.run.payload


@dataclass(frozen=True, slots=True)
class LatestRun:
    """What a schedule shows of its newest run."""

    id: str
    status: RunStatus
    at: datetime
    """when it began; before that, when it was made"""
    reason: str | None = None
    enqueued_at: datetime | None = None
    """when the last one was created of all runs of the schedule, which may be a backfill's"""

    @property
    def state(self) -> RunState:
        return run_state(self.status, self.reason)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended."""

    status: Literal["succeeded", "failed", "cancelled"]
    reason: str | None = None
    error: str | None = None
    exit_code: int | None = None
    output: str | None = None
    """what it returned, as JSON"""
    output_ref: str | None = None
    output_secrets: tuple[str, ...] = ()
    """what of its own secrets is in the output, to be hidden where people see that"""
    kinds: tuple[str, ...] = ()
    """the names of the exception's class and of those it derives from, for `retry`"""
    events: tuple[Draft, ...] = ()
    """what is written to the log if the attempt succeeded"""
    call: FlowTarget | None = None
    """the flow that its run becomes now, rather than to end"""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an attempt has come, as it says itself; None: only that it lives."""

    fraction: float | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a run that is over, while the run itself went on."""

    number: int
    node: str | None
    claimed_at: datetime
    finished_at: datetime
    outcome: Literal["succeeded", "failed", "cancelled", "lost", "handed_back"]
    error: str | None = None
    exit_code: int | None = None
    went_on_until: datetime | None = None
    """its task went on after the attempt had ended on the books: a thread cannot be killed"""


def overlapped(attempt: Attempt, attempts: Sequence[Attempt], run: Run) -> list[int]:
    """The numbers of the later attempts that had begun when the task of this one ended."""
    until = attempt.went_on_until
    if until is None:
        return []
    begun = {other.number: other.claimed_at for other in attempts}
    if run.claimed_at is not None:
        begun[run.attempt] = run.claimed_at
    return sorted(n for n, at in begun.items() if n > attempt.number and at < until)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A piece of what a run printed."""

    at: datetime
    stream: Literal["stdout", "stderr", "duebook"]
    text: str

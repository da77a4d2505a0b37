"""Runs, their attempts and outcomes, as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Protocol

from duebook.errors import Invalid
from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import NEVER_SHOWN, Id, Name, Shown, shown
from duebook.model.secret import show_payload
from duebook.model.unique_keys import KeyResult

if TYPE_CHECKING:
    from typing import Self

    from duebook.model.event import Draft
    from duebook.model.flow_run import StepContext
    from duebook.model.flow_target import FlowTarget
    from duebook.model.repeat import Repeat
    from duebook.model.schedule import ScheduleSpec
    from duebook.model.secret_values import SecretValues

__all__ = [
    "DONE",
    "Attempt",
    "Claim",
    "EnqueuedRun",
    "Interval",
    "LatestRun",
    "LogLine",
    "Origin",
    "Outcome",
    "Progress",
    "Run",
    "RunDetails",
    "RunState",
    "RunStatus",
    "Token",
    "overlapped",
    "run_state",
]

RunStatus = Literal["queued", "running", "succeeded", "partial", "failed", "cancelled"]
"""`partial`: a flow continued after a failure, and another step of it succeeded"""
DONE: Final = ("succeeded", "partial")
"""Statuses that satisfy `depends_on` and `skip_if_successful`."""
RunState = Literal[RunStatus, "skipped"]
"""a status as shown to people"""
SKIPPED: Final = frozenset(
    {"precondition", "upstream_failed", "upstream_skipped", "init_failed", "values_failed"}
)
"""Reasons of cancelled steps and flows that were not meant to run."""
_WHY: Final = {
    "precondition": "its condition was not met",
    "upstream_failed": "an earlier step failed",
    "upstream_skipped": "an earlier step was skipped",
    "init_failed": "the init handler did not succeed",
    "values_failed": "a command in the params or env of the flow failed",
    "flow_cancelled": "its flow was stopped",
    "flow_timeout": "its flow took longer than its timeout_sec",
}
Origin = Literal["schedule", "catchup", "backfill", "manual", "enqueue", "flow"]


@shown()
class Interval(NamedTuple):
    """From the previous due time to the run's own, as the triggers yield them: the time whose data
    the run works on."""

    start: datetime
    end: datetime


@shown()
class Run(NamedTuple):
    """The durable unit of work, with the node and times of its current attempt.

    A tuple, because workers and lists create very many: a frozen dataclass with this many fields
    takes twelve times as long.
    """

    id: Id
    namespace: Name
    schedule_id: Id | None
    schedule: Name | None
    version: int | None
    due_at: datetime | None
    origin: Origin
    trigger: Annotated[str, Shown(example="schedule:0 9 * * 1-5")]
    queue: Annotated[
        str,
        Shown(
            "For a flow run @flow, for a step that waits for a person @human; no worker serves "
            "these."
        ),
    ]
    priority: int
    status: RunStatus
    attempt: int
    failures: int
    losses: int
    payload: Annotated[
        dict[str, Any] | None,
        Shown("null: the payload of its schedule.", of=lambda run: show_payload(run.payload)),
    ]
    """the payload given for this run"""
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
    output: Annotated[Any, Shown(of=lambda run: run.show_output(run.output))] = None
    """what its task returned, or the response to its request"""
    output_ref: str | None = None
    """where its task stored an output that is too large for the database"""
    progress: Annotated[float | None, Shown(least=0, most=1)] = None
    """of its latest attempt, from 0 to 1, if reported"""
    progress_text: str | None = None
    beat_at: datetime | None = None
    """the latest heartbeat sent by its task"""
    parent_run_id: Annotated[Id | None, Shown("For a step: the run of its flow.")] = None
    step: str | None = None
    """None also if its flow was retried and started the step again"""
    flow: Annotated[str | None, Shown("The flow, for a flow run or a step.")] = None
    output_size: Annotated[
        int | None,
        Shown(
            "The size in bytes of an output that is too large for `output`; get it from `/output`."
        ),
    ] = None
    output_secrets: Annotated[list[str] | None, NEVER_SHOWN] = None
    """what to hide in its output when it is shown"""
    requested_by: Annotated[
        str | None, Shown("Who asked for it; null for a due time.", example="token:deploy")
    ] = None
    planned_by: Annotated[str | None, Shown("The node that planned its due time.")] = None
    interval: Annotated[
        Interval | None,
        Shown(
            "From the due time before to its own, as the triggers have them; null without a due "
            "time, and for the first of all."
        ),
    ] = None

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return self.status in ("queued", "running")

    @property
    def state(
        self,
    ) -> Annotated[
        RunState,
        Shown("The status, with `skipped` for a step or flow whose conditions were not met."),
    ]:
        return run_state(self.status, self.reason)

    def show_output(self, output: Any) -> Any:
        """Its output without secrets."""
        return show_payload(output, self.output_secrets or ())

    @property
    def why(self) -> str:
        """The explanation of its status, in words if there are any."""
        return self.error or _WHY.get(self.reason or "", self.reason or "")


@shown()
class EnqueuedRun(Run):
    """A run as `enqueue` returns it: with the result of the call, and a way to wait.

    It equals the Run with the same fields.
    """

    _result: KeyResult = "created"
    _wait: Callable[[str, str | timedelta | float | None], Run] | None = None

    @classmethod
    def of(
        cls,
        run: Run,
        result: KeyResult,
        wait: Callable[[str, str | timedelta | float | None], Run] | None = None,
    ) -> Self:
        made = cls._make(run)
        vars(made).update(_result=result, _wait=wait)
        return made

    @property
    def result(
        self,
    ) -> Annotated[
        KeyResult,
        Shown(
            "`created`, or if the key was taken: `existing` (same payload), `payload_ignored` (the "
            "run keeps its other payload), or `payload_replaced` (debounce, throttle)."
        ),
    ]:
        return self._result

    @property
    def is_new(self) -> bool:
        """Whether the call created it; otherwise it is the run that has the key."""
        return self._result == "created"

    def wait(self, timeout: str | timedelta | float | None = None) -> Run:
        """Wait until the run has ended, and return it; raises WaitTimeout."""
        if self._wait is None:
            raise Invalid(f"run {self.id} is a copy; use book.runs.wait(run.id)")
        return self._wait(self.id, timeout)


class Started(Protocol):
    """What is needed of a run, or of its mark, to compute lateness."""

    @property
    def origin(self) -> Origin: ...
    @property
    def attempt(self) -> int: ...
    @property
    def due_at(self) -> datetime | None: ...
    @property
    def started_at(self) -> datetime | None: ...


def lateness(
    run: Started, planned_at: datetime | None = None, begun_at: datetime | None = None
) -> timedelta | None:
    """How long after its due time a run started, or after `planned_at`, the time set by its jitter.

    `begun_at` is when it started, if the run does not include it because its node had buffered it.
    Only runs started by a due time can be late: None for backfills and manual runs, and for later
    attempts, which start after the previous one has ended.
    """
    began = begun_at or run.started_at
    if run.due_at is None or began is None or run.attempt > 1:
        return None
    if run.origin not in ("schedule", "catchup"):
        return None
    return max(began - (planned_at or run.due_at), timedelta())


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
    """who created the schedule"""
    step_context: StepContext | None = None
    """for a step: what it may know of its flow's run"""
    secrets: frozenset[str] = frozenset()
    """for a step: the secrets in the variables of its flow"""
    begun_at: datetime | None = None
    """if it was buffered: when it started here, by the database's clock"""
    secret_values: SecretValues | None = None
    """the values of its references to secrets, during the attempt"""
    traceparent: str | None = None
    """on a node that traces: the W3C context of the attempt"""

    @property
    def started_at(self) -> datetime | None:
        """When it started; None while it is buffered."""
        return self.begun_at or self.run.started_at

    @property
    def begun_run(self) -> Run:
        """Its run with the time at which it started, as its task sees it."""
        return self.run if self.begun_at is None else self.run._replace(started_at=self.begun_at)

    @property
    def payload(self) -> dict[str, Any]:
        """The payload given for this run, else that of its definition."""
        return self.spec.payload if self.run.payload is None else self.run.payload


@shown()
@dataclass(frozen=True, slots=True)
class LatestRun:
    """What a schedule shows of its newest run."""

    id: Annotated[Id, Shown(key="last_run_id")]
    status: Annotated[RunStatus, Shown(key="last_run_status")]
    at: Annotated[datetime, Shown(key="last_run_at")]
    """when it started; before that, when it was created"""
    reason: Annotated[str | None, Shown(key="last_run_reason")] = None
    enqueued_at: Annotated[
        datetime | None,
        Shown("When its latest run was created.", key="last_enqueued_at"),
    ] = None
    """when any run of the schedule was last created, including backfills"""

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
    """the run's own secrets in the output, to hide when it is shown"""
    kinds: tuple[str, ...] = ()
    """the names of the exception's class and its base classes, for `retry`"""
    events: tuple[Draft, ...] = ()
    """events written to the log if the attempt succeeded"""
    call: FlowTarget | None = None
    """the flow that the run continues as, instead of ending"""
    asks: str | None = None
    """the prompt for a person, whom the run waits for instead of ending"""
    repeat: Repeat | None = None
    """how it is executed again, unless the limit is reached"""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress that an attempt reports; None: only a heartbeat."""

    fraction: float | None = None
    text: str | None = None


@shown()
@dataclass(frozen=True, slots=True)
class Attempt:
    """An earlier attempt of a run."""

    number: int
    node: str | None
    claimed_at: datetime
    finished_at: datetime
    outcome: Literal["succeeded", "partial", "failed", "cancelled", "lost", "handed_back"]
    error: str | None = None
    exit_code: int | None = None
    went_on_until: Annotated[
        datetime | None,
        Shown(
            "When its task finished, if that was after the attempt had ended: a thread cannot be "
            "killed."
        ),
    ] = None


@shown()
class RunDetails(NamedTuple):
    """A run, with its earlier attempts."""

    run: Annotated[Run, Shown(spread=True)]
    attempts: Sequence[Attempt]


def overlapped(attempt: Attempt, attempts: Sequence[Attempt], run: Run) -> list[int]:
    """The numbers of later attempts that started before the task of this one ended."""
    until = attempt.went_on_until
    if until is None:
        return []
    begun = {other.number: other.claimed_at for other in attempts}
    if run.claimed_at is not None:
        begun[run.attempt] = run.claimed_at
    return sorted(n for n, at in begun.items() if n > attempt.number and at < until)


@shown()
@dataclass(frozen=True, slots=True)
class LogLine:
    """A piece of what a run printed."""

    at: datetime
    stream: Literal["stdout", "stderr", "duebook"]
    text: str

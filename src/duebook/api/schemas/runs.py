"""The shapes of runs, their attempts and their logs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from duebook.api.schemas.base import Id, Instant, Name, RunState, RunStatus, Shape

__all__ = ["LogList", "RunDetails", "RunList", "RunShape"]


class RunShape(Shape):
    """The durable unit of work, with the node and times of its current attempt."""

    model_config = ConfigDict(extra="forbid", title="Run")

    id: Id
    namespace: Name
    schedule_id: Id | None
    schedule: Name | None
    version: int | None
    due_at: Instant | None
    origin: Literal["schedule", "catchup", "backfill", "manual", "enqueue", "flow"]
    trigger: Annotated[str, Field(examples=["schedule:0 9 * * 1-5"])]
    queue: Annotated[str, Field(description="Of a run of a flow: @flow, which nobody serves.")]
    priority: int
    status: RunStatus
    state: Annotated[
        RunState,
        Field(description="As people see it: `skipped` is a step, or a flow, that was not to run."),
    ]
    attempt: int
    failures: int
    losses: int
    payload: Annotated[dict[str, Any] | None, Field(description="null: that of its schedule.")]
    created_at: Instant
    ready_at: Instant
    claimed_at: Instant | None
    started_at: Instant | None
    finished_at: Instant | None
    expires_at: Instant | None
    node: str | None
    cancel_requested_at: Instant | None
    reason: str | None
    error: str | None
    exit_code: int | None
    task: str | None
    output: Any
    output_ref: str | None
    progress: Annotated[float | None, Field(ge=0, le=1)]
    progress_text: str | None
    beat_at: Instant | None
    parent_run_id: Annotated[Id | None, Field(description="The run of its flow, of a step.")]
    step: str | None
    flow: Annotated[str | None, Field(description="That it is a run, or a step, of.")]
    output_size: Annotated[
        int | None,
        Field(description="Bytes of an output that is too large for `output`: see `/output`."),
    ]


class AttemptShape(Shape):
    """One try of a run that is over, while the run itself went on."""

    model_config = ConfigDict(extra="forbid", title="Attempt")

    number: int
    node: str | None
    claimed_at: Instant
    finished_at: Instant
    outcome: Literal["succeeded", "failed", "cancelled", "lost", "handed_back"]
    error: str | None
    exit_code: int | None
    went_on_until: Annotated[
        Instant | None,
        Field(
            description="Its task went on until then, after the attempt had ended: a thread "
            "cannot be killed."
        ),
    ]


class RunDetails(RunShape):
    """A run, with the attempts that it took before the current one."""

    model_config = ConfigDict(extra="forbid", title="RunDetails")

    attempts: list[AttemptShape]


class OutputShape(Shape):
    model_config = ConfigDict(extra="forbid", title="Output")

    output: Any


class RunList(Shape):
    items: list[RunShape]
    next_cursor: str | None


class LogLineShape(Shape):
    model_config = ConfigDict(extra="forbid", title="LogLine")

    place: Annotated[str, Field(description="As a cursor: go on after this line.")]
    at: Instant
    stream: Literal["stdout", "stderr", "duebook"]
    text: str


class LogList(Shape):
    items: list[LogLineShape]
    next_cursor: Annotated[
        str | None,
        Field(description="Where to go on; null when the run has ended and this is all."),
    ]

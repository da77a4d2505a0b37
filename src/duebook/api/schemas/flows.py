"""The shapes of flows and of what is wrong with their files."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from duebook.api.schemas.base import Id, Instant, Name, Shape
from duebook.api.schemas.runs import RunShape

__all__ = [
    "FlowExplanationShape",
    "FlowList",
    "FlowRetry",
    "FlowShape",
    "FlowSource",
    "FlowStart",
    "StepList",
    "ValidationShape",
]


class FlowShape(Shape):
    """A flow by its newest good revision."""

    model_config = ConfigDict(extra="forbid", title="Flow")

    name: Name
    place: Annotated[str, Field(description="The directory's name and the path in it.")]
    digest: str
    updated_at: Instant
    description: str
    labels: dict[str, str] | None
    starts: Annotated[str | None, Field(description="When it starts by itself, in words.")]
    params: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    problem: Annotated[
        str | None, Field(description="What is wrong with its file; it stays as it was.")
    ]
    last_run: RunShape | None
    waits: Annotated[
        list[str],
        Field(
            description="Why that run, or steps of it, do not begin: for others, or for a worker."
        ),
    ]
    stops: Annotated[str | None, Field(description="When it is stopped, if it is running.")]
    restarts: Annotated[str | None, Field(description="When it is stopped and started again.")]
    unread: Annotated[
        str | None,
        Field(description="Why its due times wait: no node reads the directory of its file."),
    ]


class FlowProblemShape(Shape):
    model_config = ConfigDict(extra="forbid", title="FlowProblem")

    file: str
    line: int
    column: int
    key: str
    message: str
    hint: str
    text: Annotated[str, Field(description="The line, as it may be shown.")] = ""


class FlowList(Shape):
    items: list[FlowShape]
    next_cursor: str | None
    problems: Annotated[
        list[FlowProblemShape],
        Field(description="What is wrong with files, also those of no flow."),
    ]


class FlowStart(Shape):
    params: dict[str, Any] | None = None


class FlowRetry(Shape):
    step: Annotated[str | None, Field(description="From this step on; else where it failed.")] = (
        None
    )


class StepList(Shape):
    """Runs of a flow, or of its steps."""

    items: list[RunShape]
    next_cursor: str | None


class StepExplanationShape(Shape):
    model_config = ConfigDict(extra="forbid", title="StepExplanation")

    step: str
    verdict: Literal["ran", "running", "queued", "waiting", "cancelled", "skipped"]
    text: Annotated[str, Field(description="What became of it, or what it waits for.")]
    run_id: Id | None


class FlowExplanationShape(Shape):
    """How far a run of a flow has come."""

    model_config = ConfigDict(extra="forbid", title="FlowExplanation")

    flow: Name
    run_id: Id
    verdict: Literal["ran", "running", "queued", "cancelled"]
    text: Annotated[str, Field(description="In a sentence.")]
    tz: str
    steps: list[StepExplanationShape]


class FlowDirectory(Shape):
    directory: Annotated[str, Field(description="Its name: flows, of flows/etl.yaml.")]


class ForgottenShape(Shape):
    """Flows that were deleted."""

    model_config = ConfigDict(extra="forbid", title="Forgotten")

    names: list[Name]


class FlowSource(Shape):
    source: Annotated[str, Field(description="The text of a flow file.")]
    name: Name | None = None


class ValidationShape(Shape):
    """What is wrong with a file; nothing when it is right."""

    problems: list[FlowProblemShape]

"""The shapes of flows and of what is wrong with their files."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from duebook.api.schemas.base import Instant, Name, Shape
from duebook.api.schemas.runs import RunShape

__all__ = [
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
        list[str], Field(description="Why steps of that run do not begin, for want of a worker.")
    ]


class FlowProblemShape(Shape):
    model_config = ConfigDict(extra="forbid", title="FlowProblem")

    file: str
    line: int
    column: int
    key: str
    message: str
    hint: str


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


class FlowSource(Shape):
    source: Annotated[str, Field(description="The text of a flow file.")]
    name: Name | None = None


class ValidationShape(Shape):
    """What is wrong with a file; nothing when it is right."""

    problems: list[FlowProblemShape]

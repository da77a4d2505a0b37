"""The shapes of queues, templates, health and the caller."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from duebook.api.schemas.base import Instant, Name, Shape

__all__ = [
    "Health",
    "Me",
    "NodeList",
    "QueueLimits",
    "QueueList",
    "QueueShape",
    "ReadinessShape",
    "TemplateList",
    "TemplateShape",
]


class QueueShape(Shape):
    model_config = ConfigDict(extra="forbid", title="Queue")

    name: Name
    concurrency: Annotated[int | None, Field(description="Most runs at once; null: no limit.")]
    rate: Annotated[str | None, Field(examples=["10/s"])]
    queued: int
    running: int


class QueueList(Shape):
    items: list[QueueShape]
    next_cursor: None


class QueueLimits(Shape):
    """One of the two at least; they replace the limits that the queue had."""

    concurrency: Annotated[int | None, Field(ge=0, le=1_000_000)] = None
    rate: Annotated[str | None, Field(examples=["10/s", "100/m", "5/10s"])] = None


class TemplateShape(Shape):
    """Named defaults that a schedule copies when it is made."""

    model_config = ConfigDict(extra="forbid", title="Template")

    namespace: Name
    name: Name
    defaults: dict[str, Any]
    created_at: Instant
    created_by: str
    updated_at: Instant
    updated_by: str


class TemplateList(Shape):
    items: list[TemplateShape]
    next_cursor: None


class NodeShape(Shape):
    """A session of a node whose lease has not run out."""

    model_config = ConfigDict(extra="forbid", title="Node")

    id: str
    node: Annotated[str, Field(description="The name of its machine.")]
    pid: int
    roles: list[str]
    version: str
    tzdata: str
    tasks: Annotated[list[str], Field(description="Those that it knows.")]
    queues: Annotated[list[str], Field(description="Those that it serves.")]
    namespaces: Annotated[
        list[str], Field(description='Those whose runs it executes; ["*"] for all.')
    ]
    labels: Annotated[dict[str, str], Field(description="For steps that ask for them.")]
    started_at: Instant
    seen_at: Annotated[Instant, Field(description="Its last sign of life.")]
    expires_at: Annotated[Instant, Field(description="When its lease ends, unless renewed.")]
    clock_ahead: Annotated[
        float, Field(description="Seconds ahead of the books' clock at its last sign of life.")
    ]
    running: Annotated[int, Field(description="Its runs under way.")]
    leads: Annotated[bool, Field(description="Whether it is the one that plans.")]


class NodeList(Shape):
    items: list[NodeShape]
    next_cursor: None


class Me(Shape):
    """Who the token is that asks."""

    name: str
    role: Literal["viewer", "operator", "admin"]
    namespaces: Annotated[list[str], Field(description='["*"] for all.')]


class ReadinessProblem(Shape):
    """What is in the way, and what helps."""

    code: Annotated[str, Field(examples=["scheduler"])]
    message: str


class StatusShape(Shape):
    """Whether everything that is due can run, and what is in the way."""

    model_config = ConfigDict(extra="forbid", title="Status")

    ready: bool
    checked_at: Annotated[
        Instant | None, Field(description="null when the database could not be asked.")
    ]
    checks: Annotated[
        dict[str, bool | None], Field(description="null for what could not be asked.")
    ]
    problems: list[ReadinessProblem]
    notes: Annotated[
        list[ReadinessProblem], Field(description="What stops nothing, but needs attention.")
    ]


class ReadinessShape(Shape):
    """Whether a node works; strangers learn only that."""

    model_config = ConfigDict(extra="forbid", title="Readiness")

    ready: bool
    checked_at: Instant | None = None
    checks: Annotated[
        dict[str, bool | None] | None, Field(description="null for what could not be asked.")
    ] = None
    problems: list[ReadinessProblem] | None = None
    notes: Annotated[
        list[ReadinessProblem] | None, Field(description="What stops nothing, but needs attention.")
    ] = None


class Health(Shape):
    status: Literal["ok"]

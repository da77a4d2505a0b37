"""The shapes of events, of those who read them, and of dead letters."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from duebook.api.schemas.base import Id, Instant, Name, Shape

__all__ = [
    "ConsumerDetails",
    "ConsumerList",
    "DeadLetterList",
    "DeadLettersAnswer",
    "DeadLettersRequest",
    "EventList",
    "EventShape",
    "LogPosition",
    "Publication",
    "Published",
    "ReplayAnswer",
    "ReplayRequest",
    "SinkDefinition",
    "SinkMade",
    "TopicList",
]

Position = Annotated[int, Field(ge=0, le=2**62)]
Topic = Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,248}$", examples=["shop.stock"])]


class EventShape(Shape):
    """A fact on the log; what is secret in its data, by its name, is hidden."""

    model_config = ConfigDict(extra="forbid", title="Event")

    id: Id
    position: Annotated[int | None, Field(description="Its place in the log.")]
    namespace: Name
    topic: Topic
    type: str
    key: Annotated[str, Field(description="Events of one key come in their order.")]
    data: Any
    meta: Annotated[dict[str, Any], Field(description="Where it comes from.")]
    at: Instant
    aggregate: Annotated[str | None, Field(description="Whose history it belongs to.")]
    version: Annotated[int | None, Field(description="Its place there, without gaps.")]


class EventList(Shape):
    items: list[EventShape]
    next_cursor: Annotated[str | None, Field(description="null at the end of the log.")]
    position: Annotated[
        int,
        Field(description="Up to there it was looked through, or back to there; see `after`."),
    ]


class Publication(Shape):
    topic: Topic
    data: Any = None
    key: Annotated[str | None, Field(max_length=500)] = None
    type: Annotated[
        str | None, Field(pattern="^[!-~]{1,200}$", description="The topic unless it is given.")
    ] = None


class Published(Shape):
    id: Id


class LogPosition(Shape):
    position: int


class TopicShape(Shape):
    """A topic of the last 50,000 positions."""

    model_config = ConfigDict(extra="forbid", title="Topic")

    topic: Topic
    events: int
    position: Annotated[int, Field(description="Of the latest.")]
    at: Instant


class TopicList(Shape):
    items: list[TopicShape]
    next_cursor: None


class ConsumerShape(Shape):
    """A group of programs, or a sink that relays publish to."""

    model_config = ConfigDict(extra="forbid", title="Consumer")

    name: Name
    kind: Literal["group", "kafka", "webhook"]
    topics: Annotated[list[Topic] | None, Field(description="null: all but life cycles.")]
    partitions: int
    attempts: Annotated[int, Field(description="Before an event is a dead letter.")]
    options: Annotated[dict[str, Any], Field(description="Secrets are hidden.")]
    behind: Annotated[int, Field(description="Positions from the first event it has not got.")]
    failing: Annotated[int, Field(description="Partitions that wait for another try.")]
    dead: Annotated[int, Field(description="Dead letters.")]


class ConsumerList(Shape):
    items: list[ConsumerShape]
    next_cursor: None


class PartitionShape(Shape):
    model_config = ConfigDict(extra="forbid", title="Partition")

    part: int
    position: int
    behind: int
    owner: Annotated[str | None, Field(description="The member that reads it.")]
    held: Annotated[int, Field(description="Keys that wait for another try.")]
    failures: Annotated[int, Field(description="Refusals of an event that waits, at most.")]
    retry_at: Instant | None
    error: str | None
    replay_until: Annotated[int, Field(description="Up to there it gets what it had before.")]


class ConsumerDetails(ConsumerShape):
    """A group or sink, with its partitions."""

    model_config = ConfigDict(extra="forbid", title="ConsumerDetails")

    parts: list[PartitionShape]


class SinkDefinition(Shape):
    """A webhook has `url` and `secret`; Kafka `servers`, `prefix` and `config`."""

    kind: Literal["kafka", "webhook"]
    topics: Annotated[list[Topic] | None, Field(min_length=1)] = None
    start: Annotated[
        Literal["beginning", "end"] | Position | None,
        Field(description="Where a new one begins; `end` unless it is given."),
    ] = None
    attempts: Annotated[int | None, Field(ge=1, le=1000)] = None
    partitions: Annotated[int | None, Field(ge=1, le=256)] = None
    options: dict[str, Any]


class SinkMade(ConsumerShape):
    """A sink, with its secret if one was made, shown this once."""

    model_config = ConfigDict(extra="forbid", title="SinkMade")

    secret: str | None = None


class ReplayRequest(Shape):
    """One of the two."""

    after: Position | None = None
    since: Instant | None = None


class ReplayAnswer(Shape):
    position: Annotated[int, Field(description="After which it begins.")]
    partitions: Annotated[int, Field(description="Those that go back.")]


class DeadLetterShape(Shape):
    """An event that could not be delivered, kept until somebody decides."""

    model_config = ConfigDict(extra="forbid", title="DeadLetter")

    consumer: Name
    event: EventShape
    error: str
    attempts: int
    at: Instant
    again: Annotated[bool, Field(description="Whether it will be delivered once more.")]


class DeadLetterList(Shape):
    items: list[DeadLetterShape]
    next_cursor: str | None


class DeadLettersRequest(Shape):
    event: Annotated[str | None, Field(description="This one; all of them otherwise.")] = None


class DeadLettersAnswer(Shape):
    count: int

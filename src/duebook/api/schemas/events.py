"""The shapes of events, their consumers, and dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from duebook.api.shapes import items_of
from duebook.model.codec import Id, Shown
from duebook.model.consumer import ConsumerState
from duebook.model.event import Event, Topic

__all__ = [
    "ConsumerList",
    "DeadLettersAnswer",
    "EventList",
    "LogPosition",
    "Publication",
    "Published",
    "ReplayAnswer",
    "ReplayRequest",
    "SinkDefinition",
]

Position = Annotated[int, Shown(least=0, most=2**62)]
EventType = Annotated[str, Shown(pattern="^[!-~]{1,200}$", example="run.failed")]
ConsumerList: Final = items_of("ConsumerList", ConsumerState)


class EventList(TypedDict):
    items: list[Event]
    next_cursor: Annotated[str | None, Shown("null at the end of the log.")]
    position: Annotated[
        int, Shown("The position up to which, or back to which, the log was searched; see `after`.")
    ]


class Publication(TypedDict):
    topic: Topic
    data: NotRequired[Any]
    key: NotRequired[Annotated[str | None, Shown(most=500)]]
    type: NotRequired[
        Annotated[str | None, Shown("The default is the topic.", pattern="^[!-~]{1,200}$")]
    ]


class Published(TypedDict):
    id: Id


class LogPosition(TypedDict):
    position: int


class SinkDefinition(TypedDict):
    """A webhook has `url` and `secret`; Kafka `servers`, `prefix` and `config`."""

    kind: Literal["kafka", "webhook"]
    topics: NotRequired[Annotated[list[Topic] | None, Shown(least=1)]]
    start: NotRequired[
        Annotated[
            Literal["beginning", "end"] | Position | None,
            Shown("Where a new sink starts; the default is `end`."),
        ]
    ]
    types: NotRequired[
        Annotated[
            list[EventType] | None,
            Shown("Only these. Life cycle types such as run.failed need no topic.", least=1),
        ]
    ]
    labels: NotRequired[
        Annotated[
            dict[str, str] | None, Shown("Only events of schedules that have all of them now.")
        ]
    ]
    attempts: NotRequired[Annotated[int | None, Shown(least=1, most=1000)]]
    partitions: NotRequired[Annotated[int | None, Shown(least=1, most=256)]]
    options: dict[str, Any]


class ReplayRequest(TypedDict, total=False):
    """Give one of the two."""

    after: Position | None
    since: datetime | None


class ReplayAnswer(TypedDict):
    position: Annotated[int, Shown("The position after which it starts.")]
    partitions: Annotated[int, Shown("The partitions that go back.")]


class DeadLettersAnswer(TypedDict):
    count: int

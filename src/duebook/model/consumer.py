"""Who reads the log of events, as values: groups and sinks, their cursors, their dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

from duebook.errors import Invalid, quoted
from duebook.ids import check_name
from duebook.model.codec import NEVER_SHOWN, Name, Shown, shown
from duebook.model.event import Event, Topic, check_topic
from duebook.model.fields import whole
from duebook.model.sink import show_options

__all__ = [
    "Consumer",
    "ConsumerDetails",
    "ConsumerState",
    "Cursor",
    "DeadLetter",
    "Delivery",
    "HeldKey",
    "Kind",
    "Lag",
    "Move",
    "Partition",
    "Report",
    "SinkMade",
    "load_topics",
    "new_consumer",
]

Kind = Literal["group", "kafka", "webhook"]
MOST_PARTITIONS: Final = 256
MOST_ATTEMPTS: Final = 1_000
MOST_TOPICS: Final = 1_000


@shown("ConsumerSettings")
@dataclass(frozen=True, slots=True)
class Consumer:
    """Somebody who gets events: those of one key one after another, at least once."""

    namespace: Annotated[str, NEVER_SHOWN]
    name: Name
    kind: Kind
    topics: Annotated[tuple[Topic, ...] | None, Shown("null: all except life cycle events.")]
    partitions: int
    attempts: Annotated[int, Shown("Attempts before an event becomes a dead letter.")]
    options: Annotated[dict[str, Any], Shown("Secrets are hidden.", write=show_options)] = field(
        default_factory=dict
    )


class Cursor(NamedTuple):
    """How far a consumer has come in one partition; only who owns it under its term moves it."""

    part: int
    position: int
    term: int
    retry_at: datetime | None = None
    """when the receiver, which took nothing, is tried again"""
    replay_until: int = 0
    """up to there it gets events that it had before"""


class HeldKey(NamedTuple):
    """A key that is behind its cursor, because one of its events was not delivered."""

    part: int
    key: str
    position: int
    """of the first event that was not delivered; later ones of the key wait behind it"""
    failures: int
    """how often the receiver refused that event: after some it is a dead letter"""
    tries: int
    """how often that event was not delivered, for whatever reason"""
    retry_at: datetime
    error: str | None = None


class Move(NamedTuple):
    """Where a cursor goes: forward, or to rest before what could not be delivered at all."""

    part: int
    term: int
    position: int
    retry_at: datetime | None = None
    error: str | None = None
    held: tuple[HeldKey, ...] = ()
    """keys that wait by themselves from now on, or go on waiting"""
    freed: tuple[str, ...] = ()
    """keys that have caught up with the cursor"""
    buried: tuple[tuple[Event, str], ...] = ()
    """become dead letters, and why"""


class Delivery(NamedTuple):
    """An event for a consumer."""

    event: Event
    part: int
    replay: bool = False
    """whether it was delivered before, and somebody wanted it again"""
    letter: bool = False
    """whether it comes from the dead letters"""


@shown()
@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that could not be delivered, kept until it is replayed or discarded."""

    consumer: Name
    event: Event
    error: str
    attempts: int
    at: datetime
    again: Annotated[bool, Shown("Whether it will be delivered again.")]


@dataclass(frozen=True, slots=True)
class Report:
    """How a round of deliveries went, by the ids of events; what is in none was delivered."""

    rejected: dict[str, str] = field(default_factory=dict)
    """the receiver does not take these, and why: after some attempts they are dead letters"""
    undelivered: dict[str, str] = field(default_factory=dict)
    """the receiver could not be reached, or was busy: they wait, however long that takes"""
    untried: set[str] = field(default_factory=set)
    """not sent, because an event of their key failed before them or the receiver seems down"""


@shown()
class Lag(NamedTuple):
    """How far a consumer is behind."""

    namespace: Annotated[str, NEVER_SHOWN]
    consumer: Annotated[str, NEVER_SHOWN]
    kind: Annotated[str, NEVER_SHOWN]
    behind: Annotated[
        int, Shown("Positions from the first undelivered event to the end of the log.")
    ]
    """to the end of the log"""
    dead: Annotated[int, Shown("Dead letters.")]
    failing: Annotated[int, Shown("Partitions waiting for another attempt.")]


@shown()
@dataclass(frozen=True, slots=True)
class Partition:
    """The progress of a consumer in one partition."""

    part: int
    position: int
    behind: int
    """positions from the first event that it has not got to the end of the log"""
    owner: Annotated[str | None, Shown("The member that reads it.")]
    held: Annotated[int, Shown("Keys waiting for another attempt.")]
    """while the others go on"""
    failures: Annotated[int, Shown("The most failed attempts of a waiting event.")]
    retry_at: datetime | None
    """when the next of them, or the receiver, is tried again"""
    error: str | None
    replay_until: Annotated[int, Shown("The end of the replay.")]


@shown("Consumer")
class ConsumerState(NamedTuple):
    """A group of programs, or a sink that relays publish to."""

    settings: Annotated[Consumer, Shown(spread=True)]
    lag: Annotated[Lag, Shown(spread=True)]


@shown()
class ConsumerDetails(NamedTuple):
    """A group or sink, with its partitions."""

    settings: Annotated[Consumer, Shown(spread=True)]
    lag: Annotated[Lag, Shown(spread=True)]
    parts: tuple[Partition, ...]


@shown()
class SinkMade(NamedTuple):
    """A sink, with its secret if one was created; it is shown only once."""

    settings: Annotated[Consumer, Shown(spread=True)]
    lag: Annotated[Lag, Shown(spread=True)]
    secret: Annotated[str | None, Shown(sparse=True)] = None


def new_consumer(
    namespace: str,
    name: object,
    kind: Kind,
    topics: object,
    partitions: object,
    attempts: object,
    options: dict[str, Any] | None = None,
) -> Consumer:
    """Raises Invalid that names the part."""
    what = "group" if kind == "group" else "sink"
    return Consumer(
        namespace,
        check_name(name, what),
        kind,
        load_topics(topics),
        whole(1, MOST_PARTITIONS)("partitions", partitions),
        whole(1, MOST_ATTEMPTS)("attempts", attempts),
        options or {},
    )


def load_topics(topics: object) -> tuple[str, ...] | None:
    """A topic, several, or None and `*` for all of them; raises Invalid."""
    if topics is None or topics == "*":
        return None
    items = [topics] if isinstance(topics, str) else topics
    if not isinstance(items, Sequence | AbstractSet):
        raise Invalid(f"topics {quoted(topics)} is not a topic or a list of topics")
    if not items:
        raise Invalid("topics is empty; leave it out to get all topics")
    if len(items) > MOST_TOPICS:
        raise Invalid(f"topics has {len(items):,} items; at most {MOST_TOPICS:,} are allowed")
    return tuple(sorted({check_topic(item) for item in items}))

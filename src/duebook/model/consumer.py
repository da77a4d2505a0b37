"""Consumers of the event log, as values: groups and sinks, their cursors, their dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

from duebook.errors import Invalid, quoted, shorten
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.channel import load_channel, show_channel
from duebook.model.codec import NEVER_SHOWN, Name, Shown, shown
from duebook.model.event import LIFECYCLE_TYPES, Event, Topic, check_topic, check_type
from duebook.model.fields import read_labels, whole
from duebook.model.secret import HIDDEN
from duebook.model.sink import show_options

__all__ = [
    "SINKS",
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
    "load_types",
    "new_consumer",
]

Kind = Literal["group", "kafka", "ping", "webhook", "alert_rules", "alert_channel"]
SINKS: Final = ("kafka", "ping", "webhook")
"""Kinds that people can define as sinks."""
MOST_PARTITIONS: Final = 256
MOST_ATTEMPTS: Final = 1_000
MOST_TOPICS: Final = 1_000
MOST_TYPES: Final = 100


def _shown(options: dict[str, Any]) -> dict[str, Any]:
    """Options as they may be shown."""
    channel = options.get("channel")
    if channel is None:
        return show_options(options)
    try:
        return {"channel": show_channel(load_channel(channel))}
    except Invalid:  # already hidden, or stored by another version
        return {"channel": dict.fromkeys(channel, HIDDEN) | {"kind": channel.get("kind")}}


@shown("ConsumerSettings")
@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader of events; it gets those of one key one after another, at least once."""

    namespace: Annotated[str, NEVER_SHOWN]
    name: Name
    kind: Kind
    topics: Annotated[tuple[Topic, ...] | None, Shown("null: all except life cycle events.")]
    partitions: int
    attempts: Annotated[int, Shown("Attempts before an event becomes a dead letter.")]
    options: Annotated[dict[str, Any], Shown("Secrets are hidden.", write=_shown)] = field(
        default_factory=dict
    )
    types: Annotated[tuple[str, ...] | None, Shown("null: all types.")] = None
    labels: Annotated[
        dict[str, str], Shown("Only events of schedules that have all these labels.")
    ] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The only keys whose events it gets; None: all."""
        return tuple(sorted(self.options["urls"])) if self.kind == "ping" else None


class Cursor(NamedTuple):
    """A consumer's progress in one partition; only its owner, under its term, moves it."""

    part: int
    position: int
    term: int
    retry_at: datetime | None = None
    """when a receiver that accepted nothing is retried"""
    replay_until: int = 0
    """up to this position it receives events again"""


class HeldKey(NamedTuple):
    """A key that is behind its cursor because one of its events was not delivered."""

    part: int
    key: str
    position: int
    """of the first undelivered event; later ones of the key wait behind it"""
    failures: int
    """how often the receiver refused that event; after some attempts it becomes a dead letter"""
    tries: int
    """how often that event was not delivered, for any reason"""
    retry_at: datetime
    error: str | None = None


class Move(NamedTuple):
    """The next place of a cursor: forward, or waiting before what could not be delivered."""

    part: int
    term: int
    position: int
    retry_at: datetime | None = None
    error: str | None = None
    held: tuple[HeldKey, ...] = ()
    """keys that wait by themselves from now on, or still wait"""
    freed: tuple[str, ...] = ()
    """keys that have caught up with the cursor"""
    buried: tuple[tuple[Event, str], ...] = ()
    """events that become dead letters, and why"""


class Delivery(NamedTuple):
    """An event for a consumer."""

    event: Event
    part: int
    replay: bool = False
    """whether it was delivered before, and a replay was requested"""
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
    """The result of a round of deliveries, by event id; events in no field were delivered."""

    rejected: dict[str, str] = field(default_factory=dict)
    """refused by the receiver, and why; after some attempts they are dead letters"""
    undelivered: dict[str, str] = field(default_factory=dict)
    """the receiver was unreachable or busy; these wait, however long that takes"""
    untried: set[str] = field(default_factory=set)
    """not sent, because an earlier event of their key failed or the receiver seems down"""


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
    """positions from the first undelivered event to the end of the log"""
    owner: Annotated[str | None, Shown("The member that reads it.")]
    held: Annotated[int, Shown("Keys waiting for another attempt.")]
    """while the others continue"""
    failures: Annotated[int, Shown("The most failed attempts of a waiting event.")]
    retry_at: datetime | None
    """when the next of them, or the receiver, is retried"""
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
    types: object = None,
    labels: object = None,
) -> Consumer:
    """Raises Invalid that names the part."""
    what = "group" if kind == "group" else "sink"
    kinds = load_types(types)
    return Consumer(
        namespace,
        check_name(name, what),
        kind,
        _topics_of(kinds) if topics is None and kinds else load_topics(topics),
        whole(1, MOST_PARTITIONS)("partitions", partitions),
        whole(1, MOST_ATTEMPTS)("attempts", attempts),
        options or {},
        kinds,
        dict(read_labels("labels", labels or {})),
    )


def load_types(types: object) -> tuple[str, ...] | None:
    """A type of event, several, or None for all of them; raises Invalid."""
    if types is None:
        return None
    items = [types] if isinstance(types, str) else types
    if not isinstance(items, Sequence | AbstractSet) or not items:
        raise Invalid(f"types {quoted(types)} is not a type or a list of types")
    if len(items) > MOST_TYPES:
        raise Invalid(f"types has {len(items):,} items; at most {MOST_TYPES} are allowed")
    return tuple(sorted({check_type(item) for item in items}))


def _topics_of(types: tuple[str, ...]) -> tuple[str, ...] | None:
    """The topics of Duebook's own types, as a consumer of all topics does not get those."""
    known = {LIFECYCLE_TYPES[type_] for type_ in types if type_ in LIFECYCLE_TYPES}
    others = [type_ for type_ in types if type_ not in LIFECYCLE_TYPES]
    reserved = [type_ for type_ in others if type_.startswith(("run.", "schedule.", "flow."))]
    if reserved:
        told = ", ".join(LIFECYCLE_TYPES)
        raise Invalid(
            f'type "{shorten(reserved[0])}" is not one of {told}; if it is a type of your own, '
            "name its topic"
        )
    if known and others:
        raise Invalid(
            f'type "{shorten(others[0])}" is not on {", ".join(sorted(known))}, as the others are; '
            "name the topics"
        )
    return tuple(sorted(known)) or None


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

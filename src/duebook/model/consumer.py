"""Who reads the log of events, as values: groups and sinks, their cursors, their dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from duebook.errors import Invalid, quoted
from duebook.ids import check_name
from duebook.model.event import check_topic, event_form
from duebook.model.fields import whole
from duebook.model.sink import show_options
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.event import Event

__all__ = [
    "Consumer",
    "Cursor",
    "DeadLetter",
    "Delivery",
    "HeldKey",
    "Kind",
    "Lag",
    "Move",
    "Partition",
    "Report",
    "consumer_form",
    "lag_form",
    "letter_form",
    "load_topics",
    "new_consumer",
    "partition_form",
]

Kind = Literal["group", "kafka", "webhook"]
MOST_PARTITIONS: Final = 256
MOST_ATTEMPTS: Final = 1_000
MOST_TOPICS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Consumer:
    """Somebody who gets events: those of one key one after another, at least once."""

    namespace: str
    name: str
    kind: Kind
    topics: tuple[str, ...] | None
    """None: all but those about life cycles"""
    partitions: int
    attempts: int
    """deliveries of an event after which it is a dead letter"""
    options: dict[str, Any] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that could not be delivered, kept until somebody decides."""

    consumer: str
    event: Event
    error: str
    attempts: int
    at: datetime
    again: bool
    """whether it will be delivered once more"""


@dataclass(frozen=True, slots=True)
class Report:
    """How a round of deliveries went, by the ids of events; what is in none was delivered."""

    rejected: dict[str, str] = field(default_factory=dict)
    """the receiver does not take these, and why: after some attempts they are dead letters"""
    undelivered: dict[str, str] = field(default_factory=dict)
    """the receiver could not be reached, or was busy: they wait, however long that takes"""
    untried: set[str] = field(default_factory=set)
    """not sent, because an event of their key failed before them or the receiver seems down"""


class Lag(NamedTuple):
    """How far a consumer is behind."""

    namespace: str
    consumer: str
    kind: str
    behind: int
    """positions from the first event that it has not got to the end of the log"""
    dead: int
    failing: int
    """partitions that wait for another try"""


@dataclass(frozen=True, slots=True)
class Partition:
    """How far a consumer has come with some of the keys."""

    part: int
    position: int
    behind: int
    """positions from the first event that it has not got to the end of the log"""
    owner: str | None
    """the member that reads it"""
    held: int
    """keys that wait for another try while the others go on"""
    failures: int
    """how often one of the events that wait was refused, at most"""
    retry_at: datetime | None
    """when the next of them, or the receiver, is tried again"""
    error: str | None
    replay_until: int
    """up to there it gets events that it had before"""


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


def letter_form(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter as a JSON object, the same wherever it is shown."""
    return {
        "consumer": letter.consumer,
        "event": event_form(letter.event),
        "error": letter.error,
        "attempts": letter.attempts,
        "at": format_instant(letter.at),
        "again": letter.again,
    }


def consumer_form(consumer: Consumer) -> dict[str, Any]:
    """A group or sink as a JSON object, without its secrets."""
    return {
        "name": consumer.name,
        "kind": consumer.kind,
        "topics": None if consumer.topics is None else list(consumer.topics),
        "partitions": consumer.partitions,
        "attempts": consumer.attempts,
        "options": show_options(consumer.options),
    }


def lag_form(lag: Lag) -> dict[str, Any]:
    return {"behind": lag.behind, "failing": lag.failing, "dead": lag.dead}


def partition_form(partition: Partition) -> dict[str, Any]:
    form = asdict(partition)
    return form | {"retry_at": partition.retry_at and format_instant(partition.retry_at)}


def load_topics(topics: object) -> tuple[str, ...] | None:
    """A topic, several, or None and `*` for all of them; raises Invalid."""
    if topics is None or topics == "*":
        return None
    items = [topics] if isinstance(topics, str) else topics
    if not isinstance(items, Sequence | AbstractSet):
        raise Invalid(f"topics {quoted(topics)} is no topic, and no list of them")
    if not items:
        raise Invalid("topics is empty; leave it out for all of them")
    if len(items) > MOST_TOPICS:
        raise Invalid(f"topics are {len(items):,}; at most {MOST_TOPICS:,} are named")
    return tuple(sorted({check_topic(item) for item in items}))

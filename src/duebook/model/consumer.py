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
    failures: int = 0
    """of the event after the position"""
    retry_at: datetime | None = None
    replay_until: int = 0
    """up to there it gets events that it had before"""


class Move(NamedTuple):
    """Where a cursor goes: forward, or to rest before an event that could not be delivered."""

    part: int
    term: int
    position: int
    failures: int = 0
    retry_at: datetime | None = None
    error: str | None = None
    buried: Event | None = None
    """becomes a dead letter"""


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
    """How a round of deliveries went, by the ids of events; what is in neither was delivered."""

    rejected: dict[str, str] = field(default_factory=dict)
    """the receiver does not take these, and why: after some attempts they are dead letters"""
    undelivered: dict[str, str] = field(default_factory=dict)
    """the receiver could not be reached: they wait, however long that takes"""
    untried: set[str] = field(default_factory=set)
    """nobody tried, for something before them failed"""


class Lag(NamedTuple):
    """How far a consumer is behind."""

    namespace: str
    consumer: str
    kind: str
    behind: int
    """positions that its slowest partition has before it"""
    dead: int
    failing: int
    """partitions that wait for another try"""


@dataclass(frozen=True, slots=True)
class Partition:
    """How far a consumer has come with some of the keys."""

    part: int
    position: int
    behind: int
    """positions of the log beyond it"""
    owner: str | None
    """the member that reads it"""
    failures: int
    """of the event after the position"""
    retry_at: datetime | None
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

"""What people do with events: publish, list and follow them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from duebook.book.consuming import Received, received
from duebook.delivery.courier import LEASE, Courier
from duebook.delivery.handling import HandlerOutlet, TransactionCourier, wants_connection
from duebook.delivery.serving import serve
from duebook.errors import Invalid, NotFound, quoted, shorten
from duebook.ids import new_id
from duebook.model.consumer import new_consumer
from duebook.model.event import Event, check_topic, new_draft
from duebook.model.sink import ATTEMPTS, load_options, new_secret
from duebook.timetext import parse_duration, parse_instant
from duebook.triggers.base import check_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime, timedelta

    from duebook.model.consumer import Consumer, DeadLetter, Lag
    from duebook.store.base import Batch, Store, Tx

    Consumers = list[Consumer]
    Handler = tuple[Callable[..., object], tuple[Any, ...], int, timedelta]
    Lags = list[Lag]
    Letters = list[DeadLetter]
    Listed = list[Event]

__all__ = ["Events"]

F = TypeVar("F", bound="Callable[..., object]")
PARTITIONS: Final = 8
SINK_PARTITIONS: Final = 4
LONGEST_END: Final = 10.0

POLL: Final = 0.2
"""Seconds between two looks of somebody who follows the log."""
MOST_READ: Final = 500
MOST_LOOKED_AT: Final = 50_000
"""Positions that are looked through for the latest events."""


class Events:
    """The log of events of a namespace."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._handlers: list[Handler] = []

    def publish(
        self,
        topic: str,
        data: Any = None,
        *,
        key: str = "",
        type: str | None = None,  # noqa: A002 - as it is called everywhere
        connection: Any = None,
    ) -> str:
        """Write an event; returns its id. `type` is the topic unless it is given.

        Events of one `key` reach everybody in their order. With `connection` (as for `enqueue`)
        the event exists if and only if the caller's transaction commits. Raises Invalid.

        >>> import tempfile
        >>> from duebook import Duebook
        >>> with Duebook(f"{tempfile.mkdtemp()}/books.db") as book:
        ...     _ = book.events.publish("orders", {"id": 17}, key="17", type="placed")
        ...     [(event.type, event.data) for event in book.events.list("orders")]
        [('placed', {'id': 17})]
        """
        draft = new_draft(new_id(), self._namespace, topic, type, key, data)
        if connection is None:
            self._store.transact(lambda tx: tx.append_events([draft]))
        else:
            with self._store.join(connection) as tx:
                tx.append_events([draft])
        return draft.id

    def get(self, event_id: str) -> Event:
        """Raises NotFound."""
        return self._store.read(lambda tx: tx.get_event(self._namespace, event_id))

    def position(self, since: str | datetime | None = None) -> int:
        """The end of the log; with `since` the position after which what came then comes."""
        moment = None if since is None else parse_instant(since)
        return self._store.read(
            lambda tx: tx.last_position() if moment is None else tx.position_at(moment)
        )

    def list(
        self,
        topic: str | Sequence[str] | None = None,
        after: int | None = None,
        since: str | datetime | None = None,
        limit: int = 100,
    ) -> Listed:
        """The events after a position, or from a time on, in their order; all of them otherwise.

        Without a topic: of all but those about the life cycles of runs and schedules.
        """
        check_limit(limit)
        found: Listed = []
        for batch in self._batches(_topics(topic), self._start(after, since), limit):
            found += batch.events[: limit - len(found)]
            if len(found) == limit or not batch.more:
                break
        return found

    def latest(self, topic: str | Sequence[str] | None = None, limit: int = 20) -> Listed:
        """The last events of the log, in their order; of a rare topic those of its last part."""
        check_limit(limit)
        found: Listed = []
        end = self.position()
        topics = _topics(topic)
        for begin in range(max(end - MOST_READ, 0), -MOST_READ, -MOST_READ):
            if len(found) >= limit or end - begin > MOST_LOOKED_AT:
                break
            found = self._between(topics, max(begin, 0), begin + MOST_READ) + found
        return found[-limit:]

    def _between(self, topics: Sequence[str] | None, after: int, until: int) -> Listed:
        batch = self._store.read(
            lambda tx: tx.read_events(self._namespace, after, MOST_READ, topics)
        )
        return [event for event in batch.events if (event.position or 0) <= until]

    def tail(
        self,
        topic: str | Sequence[str] | None = None,
        after: int | None = None,
        since: str | datetime | None = None,
        pause: Callable[[float], object] = time.sleep,
    ) -> Iterator[Event]:
        """As `list`, and then what comes, for ever; from the end of the log on by default."""
        begin = self.position() if after is None and since is None else self._start(after, since)
        for batch in self._batches(_topics(topic), begin, MOST_READ):
            yield from batch.events
            if not batch.more:
                pause(POLL)

    # -- reading as a member of a group

    def consume(
        self,
        topic: str | Sequence[str] | None,
        group: str,
        *,
        start: str | int = "beginning",
        batch: int = 100,
        attempts: int = 5,
        partitions: int = PARTITIONS,
        lease: str | timedelta = LEASE,
        follow: bool = True,
    ) -> Iterator[Received]:
        """The events of a topic, shared with the other members of the group, for ever.

        Each key is in order and with one member at a time. An event is done when the loop goes
        on; that is put on the books after each `batch`, so that what a process had that is killed
        comes again, under the same id. `event.settle_in(connection)` makes it part of the
        caller's own transaction instead: then it counts once. A loop that is left has not done the
        event that it had, unless `event.done()` was called; after so many `attempts` such an event
        is a dead letter. A new group begins at the `start`: `beginning`, `end`, or after a
        position. Another member takes over from one that gave no sign of life for a `lease`.
        Without `follow` the loop ends when there is nothing more.

        >>> import tempfile
        >>> from duebook import Duebook
        >>> with Duebook(f"{tempfile.mkdtemp()}/books.db") as book:
        ...     _ = book.events.publish("orders", {"id": 17})
        ...     for event in book.events.consume("orders", group="billing", follow=False):
        ...         print(event.data)
        {'id': 17}

        Raises Invalid. In a SQLite file a group has one partition, and so one reader.
        """
        joined = self._join(topic, group, start, attempts, partitions)
        return received(self._store, joined, batch, parse_duration(lease), follow)

    def _join(
        self,
        topic: str | Sequence[str] | None,
        group: str,
        start: str | int,
        attempts: int,
        partitions: int,
    ) -> Consumer:
        parts = partitions if self._store.sequences else 1
        wanted = new_consumer(self._namespace, group, "group", topic, parts, attempts)
        return self._store.transact(lambda tx: tx.save_consumer(wanted, _start(tx, start)))

    def consumer(
        self,
        topic: str | Sequence[str] | None,
        group: str,
        *,
        start: str | int = "beginning",
        batch: int = 100,
        attempts: int = 5,
        partitions: int = PARTITIONS,
        lease: str | timedelta = LEASE,
    ) -> Callable[[F], F]:
        """A function that gets the events of a topic, as a member of a group, while `serve` runs.

        It takes the event; or the event and a psycopg connection to the database of the books,
        whose transaction holds also that the event is done: what the function writes there counts
        once. When it raises, that is undone to a savepoint, and tried again after a while; after
        so many `attempts` the event is a dead letter. It may be called again for events whose
        writes were undone because another one of the `batch` failed.
        """

        def declare(function: F) -> F:
            how = (topic, group, start, attempts, partitions)
            self._handlers.append((function, how, batch, parse_duration(lease)))
            return function

        return declare

    def serve(self, stop: threading.Event | None = None) -> None:
        """Give events to the functions that were declared, a thread each, until `stop` is set."""
        ending = stop or threading.Event()
        threads = [
            threading.Thread(target=serve, args=(self._store, courier, ending), daemon=True)
            for courier in map(self._courier, self._handlers)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(POLL)
        finally:
            ending.set()
            for thread in threads:
                thread.join(LONGEST_END)

    def _courier(self, handler: Handler) -> Courier:
        function, how, batch, lease = handler
        consumer = self._join(*how)
        if not wants_connection(function):
            return Courier(self._store, consumer, HandlerOutlet(function), batch, lease)
        if not self._store.sequences:
            raise Invalid(
                f'consumer of group "{consumer.name}" wants a connection: that needs PostgreSQL'
            )
        return TransactionCourier(self._store, consumer, None, batch, lease, function=function)

    # -- those who read the log

    def consumers(self) -> Consumers:
        """The groups and sinks of this namespace, by name."""
        return self._store.read(lambda tx: tx.list_consumers(self._namespace))

    def sinks(self) -> Consumers:
        """The sinks alone; `sink_form` shows one without its secrets."""
        return [one for one in self.consumers() if one.kind != "group"]

    def add_sink(
        self,
        name: str,
        kind: Literal["kafka", "webhook"],
        topic: str | Sequence[str] | None = None,
        *,
        start: str | int = "end",
        attempts: int = ATTEMPTS,
        partitions: int = SINK_PARTITIONS,
        **options: Any,
    ) -> Consumer:
        """Publish the events of a topic, or of all: relays do it from now on.

        A webhook has a `url` and a `secret` (made when it is not given: see `options` of what is
        returned); Kafka has `servers`, perhaps a `prefix` for its topics, and `config`, settings
        of librdkafka. A name that exists is changed, and goes on where it is. Raises Invalid, and
        Conflict when the name belongs to another kind.
        """
        if kind == "webhook":
            known = {one.name: one.options for one in self.sinks()}
            made = known.get(name, {}).get("secret") or new_secret()
            options = {"secret": made} | options
        parts = partitions if self._store.sequences else 1
        kept = load_options(kind, options)
        wanted = new_consumer(self._namespace, name, kind, topic, parts, attempts, kept)
        return self._store.transact(lambda tx: tx.save_consumer(wanted, _start(tx, start)))

    def lags(self) -> Lags:
        """How far each of them is behind."""
        found = self._store.read(lambda tx: tx.list_lags())
        return [lag for lag in found if lag.namespace == self._namespace]

    def remove(self, name: str) -> None:
        """Forget a group or sink, with its dead letters; raises NotFound."""
        if not self._store.transact(lambda tx: tx.remove_consumer(self._namespace, name)):
            raise NotFound(f'no group and no sink is called "{shorten(name)}"')

    def replay(
        self, name: str, after: int | None = None, since: str | datetime | None = None
    ) -> int:
        """Have a group or sink get again what it got after a position, or from a time on.

        It is marked as a replay. Returns in how many partitions; raises NotFound, and Invalid for
        a position that is not on the log.
        """
        place = self._start(after, since)
        return self._store.transact(lambda tx: tx.replay(self._namespace, name, place))

    def dead_letters(self, name: str | None = None, limit: int = 100) -> Letters:
        """What a group or sink did not take, or any of them; the newest first."""
        check_limit(limit)
        return self._store.read(lambda tx: tx.list_letters(self._namespace, name, limit))

    def replay_dead(self, name: str, event_id: str | None = None) -> int:
        """Have dead letters delivered once more: one, or all; returns how many."""
        return self._store.transact(lambda tx: tx.replay_letters(self._namespace, name, event_id))

    def drop_dead(self, name: str, event_id: str | None = None) -> int:
        """Give dead letters up: one, or all; returns how many."""
        return self._store.transact(lambda tx: tx.drop_letters(self._namespace, name, event_id))

    def _start(self, after: int | None, since: str | datetime | None) -> int:
        if since is not None:
            return self.position(since)
        return 0 if after is None else after

    def _batches(self, topics: Sequence[str] | None, after: int, limit: int) -> Iterator[Batch]:
        """One stretch of the log after another, for ever."""
        place = after

        def work(tx: Tx) -> Batch:
            return tx.read_events(self._namespace, place, min(limit, MOST_READ), topics)

        while True:
            batch = self._store.read(work)
            place = batch.after
            yield batch


def _start(tx: Tx, start: str | int) -> int:
    """The position after which a new consumer begins; raises Invalid."""
    if start == "beginning":
        return 0
    if start == "end":
        return tx.last_position()
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        return start
    raise Invalid(f'start {quoted(start)} is not "beginning", "end" or a position')


def _topics(topic: str | Sequence[str] | None) -> Sequence[str] | None:
    """None: all of them."""
    if topic is None or topic == "*":
        return None
    return [check_topic(name) for name in ([topic] if isinstance(topic, str) else topic)]

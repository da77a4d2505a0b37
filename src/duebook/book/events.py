"""Use cases of events: those of `listeners`, and receiving them as members of a group."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from duebook.book.consuming import Received, received
from duebook.book.listeners import Listeners
from duebook.delivery.courier import LEASE, Courier
from duebook.delivery.handling import HandlerOutlet, TransactionCourier, wants_connection
from duebook.delivery.serving import serve
from duebook.errors import Invalid, quoted
from duebook.model.consumer import load_topics, new_consumer
from duebook.model.fields import whole
from duebook.timetext import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from duebook.model.consumer import Consumer
    from duebook.store.base import Store

    Handler = tuple[Callable[..., object], tuple[Any, ...], int, timedelta]

__all__ = ["Events"]

F = TypeVar("F", bound="Callable[..., object]")
PARTITIONS: Final = 8
LONGEST_END: Final = 10.0
MOST_AT_ONCE: Final = 10_000
SHORTEST_LEASE: Final = timedelta(seconds=1)
LOOK_EVERY: Final = 0.2
"""Seconds between two checks whether a thread has ended."""


class Events(Listeners):
    """The event log of a namespace, and its consumers."""

    def __init__(self, store: Store, namespace: str, by: str = "") -> None:
        super().__init__(store, namespace, by)
        self._handlers: list[Handler] = []

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
        """Iterate over the events of a topic forever, sharing them with the rest of the group.

        Events with one key arrive in order, and at one member at a time. An event is done when the
        loop asks for the next one. This is stored after each `batch`, so events of a killed
        process are delivered again, with the same id. `event.settle_in(connection)` stores it in
        the caller's own transaction instead: then each event counts exactly once. If the loop is
        left, its current event is not done, unless `event.done()` was called; after this many
        `attempts` the event becomes a dead letter. A new group starts at `start`: `beginning`,
        `end`, or after a position. If a member sends no heartbeat for a `lease`, another one takes
        over. Without `follow`, the loop ends when there are no more events.

        >>> import tempfile
        >>> from duebook import Duebook
        >>> with Duebook(f"{tempfile.mkdtemp()}/books.db") as book:
        ...     _ = book.events.publish("orders", {"id": 17})
        ...     for event in book.events.consume("orders", group="billing", follow=False):
        ...         print(event.data)
        {'id': 17}

        Raises Invalid. In an SQLite file a group has one partition, and so one reader.
        """
        pace = _pace(batch, lease)
        joined = self._join(topic, group, start, attempts, partitions)
        return received(self._store, joined, *pace, follow)

    def _join(
        self,
        topic: str | Sequence[str] | None,
        group: str,
        start: str | int,
        attempts: int,
        partitions: int,
    ) -> Consumer:
        wanted = new_consumer(self._namespace, group, "group", topic, partitions, attempts)
        return self._store.transact(lambda tx: self._save(tx, wanted, start))

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
        """Declare a function that receives the events of a topic as a member of a group, while
        `serve` runs.

        It takes the event, or the event and a psycopg connection to the database. The transaction
        of that connection also marks the event as done, so that what the function writes counts
        exactly once. If the function raises, its writes are rolled back to a savepoint, and the
        event is retried later; after this many `attempts` it becomes a dead letter. The function
        may be called again for events whose writes were rolled back because another event of the
        `batch` failed. Raises Invalid if the group has a function for other topics: each would miss
        events that the other one receives.
        """

        def declare(function: F) -> F:
            for _, (other, its_group, *_), *_ in self._handlers:
                if its_group == group and load_topics(other) != load_topics(topic):
                    raise Invalid(
                        f"group {quoted(group)} already has a function for other topics; "
                        "use the same topics in both, or another group"
                    )
            how = (topic, group, start, attempts, partitions)
            self._handlers.append((function, how, *_pace(batch, lease)))
            return function

        return declare

    def serve(self, stop: threading.Event | None = None) -> None:
        """Pass events to the declared functions, each in its own thread, until `stop` is set."""
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
                    thread.join(LOOK_EVERY)
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
                f'consumer of group "{consumer.name}" takes a connection, which needs PostgreSQL'
            )
        return TransactionCourier(self._store, consumer, None, batch, lease, function=function)


def _pace(batch: object, lease: str | timedelta) -> tuple[int, timedelta]:
    """How many events at a time, and the longest time without a heartbeat; raises Invalid."""
    length = parse_duration(lease)
    if length < SHORTEST_LEASE:
        raise Invalid(f"lease {quoted(lease)} is shorter than 1s")
    return whole(1, MOST_AT_ONCE)("batch", batch), length

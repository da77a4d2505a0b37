"""What people do with events: publish, list and follow them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from duebook.ids import new_id
from duebook.model.event import Event, check_topic, new_draft
from duebook.timetext import parse_instant
from duebook.triggers.base import check_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from duebook.store.base import Batch, Store, Tx

    Listed = list[Event]

__all__ = ["Events"]

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


def _topics(topic: str | Sequence[str] | None) -> Sequence[str] | None:
    """None: all of them."""
    if topic is None or topic == "*":
        return None
    return [check_topic(name) for name in ([topic] if isinstance(topic, str) else topic)]

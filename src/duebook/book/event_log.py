"""Use cases of the event log itself: publish events, and list a page of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.book.audit import PEOPLE, Auditor
from duebook.book.event_reader import MOST_LOOKED_AT, EventReader
from duebook.errors import Invalid
from duebook.ids import new_id
from duebook.model.change import digest_of
from duebook.model.consumer import load_topics
from duebook.model.event import (
    EventPage,
    check_key,
    check_position,
    check_type,
    new_draft,
)
from duebook.model.fields import whole
from duebook.model.listing import read_cursor, write_cursor
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.model.event import Event, TopicUse
    from duebook.store.base import Store, Tx
    from duebook.store.values import Batch

    Listed = list[Event]  # inside the class below `list` is a method
    TopicList = list[TopicUse]

__all__ = ["EventLog"]

MOST_LISTED: Final = 10_000
LOOKS: Final = 20
"""Parts of the log that one page reads through."""
ENOUGH: Final = 4_000_000
"""Bytes of data after which a page ends."""


class EventLog(EventReader):
    """The event log of a namespace."""

    def __init__(self, store: Store, namespace: str, by: str = "") -> None:
        self._store = store
        self._namespace = namespace
        self._by = by
        self._audit = Auditor(namespace, by)

    def publish(
        self,
        topic: str,
        data: Any = None,
        *,
        key: str = "",
        type: str | None = None,  # noqa: A002 - as it is called everywhere
        connection: Any = None,
    ) -> str:
        """Publish an event and return its id; the default `type` is the topic.

        Events with the same `key` reach every consumer in order. With `connection` (as for
        `enqueue`), the event exists if and only if the caller's transaction commits. Events that
        are published through the API or the command line are recorded in the audit log, with a
        digest of their data. Raises Invalid.

        >>> import tempfile
        >>> from duebook import Duebook
        >>> with Duebook(f"{tempfile.mkdtemp()}/books.db") as book:
        ...     _ = book.events.publish("orders", {"id": 17}, key="17", type="placed")
        ...     [(event.type, event.data) for event in book.events.list("orders")]
        [('placed', {'id': 17})]
        """
        meta = {"user": self._by} if self._by else {}
        draft = new_draft(new_id(), self._namespace, topic, type, key, data, meta)

        def work(tx: Tx) -> None:
            tx.events.append_events([draft])
            if self._by.startswith(PEOPLE):
                form = {"topic": draft.topic, "type": draft.type, "key": draft.key}
                after = form | {"data": digest_of(data)}
                self._audit.note(tx, "publish", "event", draft.topic, draft.id, after=after)

        if connection is None:
            self._store.transact(work)
        else:
            with self._store.join(connection) as tx:
                work(tx)
        return draft.id

    def get(self, event_id: str) -> Event:
        """Return one event; raises NotFound."""
        return self._store.read(lambda tx: tx.events.get_event(self._namespace, event_id))

    def position(self, since: str | datetime | None = None) -> int:
        """Return the end of the log; with `since`, the position just before that time."""
        moment = None if since is None else parse_instant(since)
        return self._store.read(
            lambda tx: (
                tx.events.last_position() if moment is None else tx.events.position_at(moment)
            )
        )

    def topics(self) -> TopicList:
        """Return the topics at the end of the log, by name, including life cycle topics."""

        def work(tx: Tx) -> TopicList:
            return tx.events.list_topics(
                self._namespace, max(tx.events.last_position() - MOST_LOOKED_AT, 0)
            )

        return self._store.read(work)

    def page(
        self,
        topic: str | Sequence[str] | None = None,
        after: int | None = None,
        since: str | datetime | None = None,
        limit: int = 100,
        *,
        type: str | None = None,  # noqa: A002 - as it is called everywhere
        key: str | None = None,
        newest: bool = False,
        cursor: str | None = None,
    ) -> EventPage:
        """Like `list`, but for a part of the log: a page may be short or empty and still have a
        next one.

        `newest` lists backwards from the end of the log to that position. Raises Invalid, and
        BadCursor for a cursor of another query.
        """
        whole(1, MOST_LISTED)("limit", limit)
        if after is not None and since is not None:
            raise Invalid("give either after or since, not both")
        topics = load_topics(topic)
        kind = None if type is None else check_type(type)
        only = None if key is None else check_key(key)
        begin = 0 if after is None else check_position(after, "after")
        moment = None if since is None else parse_instant(since)
        asked = ["events", self._namespace, topics, kind, only, newest, after, moment]
        seal = self._store.cursor_key()
        place = _place(seal, asked, cursor)

        def forward(tx: Tx, at: int, most: int) -> Batch:
            keys = None if only is None else [only]
            types = None if kind is None else [kind]
            return tx.events.read_events(self._namespace, at, most, topics, types=types, keys=keys)

        def back(tx: Tx, at: int, most: int) -> Batch:
            return tx.events.read_events_back(self._namespace, at, most, topics, kind, only)

        def work(tx: Tx) -> EventPage:
            least = begin if moment is None else tx.events.position_at(moment)
            if not newest:
                return _collect(tx, forward, least if place is None else place, limit, seal, asked)
            start = tx.events.last_position() + 1 if place is None else place
            found = _collect(tx, back, start, limit, seal, asked)
            kept = [event for event in found if (event.position or 0) > least]
            more = len(kept) == len(found) and found.position > least + 1
            return EventPage(kept, found.next_cursor if more else None, found.position)

        return self._store.read(work)


def _collect(
    tx: Tx,
    read: Callable[[Tx, int, int], Batch],
    begin: int,
    limit: int,
    seal: bytes,
    asked: Any,
) -> EventPage:
    """Read one part of the log after another, until there is enough for a page."""
    found: Listed = []
    place, size = begin, 0
    for _ in range(LOOKS):
        batch = read(tx, place, limit - len(found))
        found += batch.events
        size += batch.size
        place = batch.after
        if not batch.more:
            return EventPage(found, None, place)
        if len(found) >= limit or size >= ENOUGH:
            break
    return EventPage(found, write_cursor(seal, asked, (place,)), place)


def _place(seal: bytes, asked: Any, cursor: str | None) -> int | None:
    found = read_cursor(seal, asked, cursor, "i")
    return None if found is None else int(found[0])

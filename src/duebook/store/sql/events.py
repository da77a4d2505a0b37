"""The log of events in a transaction: events are appended, get positions, and are read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import NotFound, shorten
from duebook.model.event import Draft, Event, TopicUse, slot_of
from duebook.store.sql.statements import Part, Row
from duebook.store.values import Batch, News

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    Topics = Sequence[str] | None
    Versioned = tuple[Draft, str | None, int | None]
    """with the aggregate that it belongs to, and its version there"""

__all__ = ["MOST_BYTES", "Events"]

WINDOW: Final = 10_000
"""Positions that one read searches: rare topics must not make it read the whole log."""
MOST_BYTES: Final = 4_000_000
"""Bytes of data in one read, except its last event: large ones must not fill the memory."""
_POSITION: Final = 8
_BYTES: Final = 11


class Events(Part):
    """Appending joins any transaction; positions follow the order of visibility."""

    def append_events(self, drafts: Sequence[Draft]) -> None:
        """Write events that belong to no schedule or run."""
        self.append([(draft, None, None) for draft in drafts])

    def append(self, drafts: Sequence[Versioned]) -> None:
        """Write events, each with its aggregate and its version there."""
        if not drafts:
            return
        now = self._db.stamp(self._db.now)
        rows = [
            (
                draft.id,
                draft.namespace,
                draft.topic,
                draft.type,
                draft.key,
                slot_of(draft.key),
                aggregate,
                version,
                draft.data,
                draft.meta,
                now,
            )
            for draft, aggregate, version in drafts
        ]
        self._db.insert("insert_event", rows)
        self._db.notify(News.EVENTS)

    def stamp_events(self, limit: int) -> int | None:
        """Assign positions to up to `limit` visible events; returns how many.

        None when another process is doing it. Readers of the log never find a position beyond which
        a smaller one appears later.
        """
        # with one writer at a time, each event got its position when it was written
        return 0 if limit else None

    def last_position(self) -> int:
        """0 for an empty log."""
        return int(self._db.value("get_last_position") or 0)

    def last_own_position(self, namespace: str, after: int, until: int) -> int:
        """The position of the last event of a namespace after `after` and up to `until`; 0 when
        there is none."""
        found = self._db.one("get_own_position", namespace=namespace, after=after, until=until)
        return 0 if found is None else int(found[0])

    def first_position(self) -> int:
        """Where the log starts, as older events have been deleted; 1 while it is empty."""
        return int(self._db.value("get_first_position") or 1)

    def position_at(self, moment: datetime) -> int:
        """The position after which all events follow that were written at `moment` or later."""
        found = self._db.value("get_position_at", at=moment)
        return self.last_position() if found is None else int(found) - 1

    def read_events(
        self,
        namespace: str,
        after: int,
        limit: int,
        topics: Topics = None,
        parts: Sequence[int] = (0,),
        partitions: int = 1,
        types: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
    ) -> Batch:
        """Up to `limit` events after a position, in their order; optionally of some partitions of
        the keys, or of some types or keys only.

        Without topics, all except those about life cycles. It ends early with the event that
        exceeds MOST_BYTES of data.
        """
        last = self.last_position()
        until = min(after + WINDOW, last)
        if until <= after:
            return Batch([], after, False)
        rows = self._db.all(
            "list_events",
            namespace=namespace,
            after=after,
            until=until,
            parts=list(parts),
            partitions=partitions,
            every=topics is None,
            topics=list(topics or ()),
            any_type=types is None,
            types=list(types or ()),
            any_key=keys is None,
            keys=list(keys or ()),
            limit=limit,
            most=MOST_BYTES,
        )
        if _is_full(rows, limit):
            until = rows[-1][_POSITION]
        elif not rows:
            until = max(until, self.first_position() - 1)
        return self._batch(rows, until, until < last)

    def read_events_back(
        self,
        namespace: str,
        before: int,
        limit: int,
        topics: Topics = None,
        type_: str | None = None,
        key: str | None = None,
    ) -> Batch:
        """Up to `limit` events before a position, the newest first; the batch's `after` is where to
        continue: everything from there on was searched."""
        first = self.first_position()
        after = max(before - 1 - WINDOW, first - 1)
        if before <= first:
            return Batch([], before, False)
        rows = self._db.all(
            "list_events_back",
            namespace=namespace,
            after=after,
            until=before - 1,
            every=topics is None,
            topics=list(topics or ()),
            type=type_,
            key=key,
            limit=limit,
            most=MOST_BYTES,
        )
        begin = rows[-1][_POSITION] if _is_full(rows, limit) else after + 1
        return self._batch(rows, begin, begin > first)

    def _batch(self, rows: Sequence[Row], place: int, more: bool) -> Batch:
        size = int(rows[-1][_BYTES]) if rows else 0
        return Batch([read_event(row[:_BYTES], self._db.time) for row in rows], place, more, size)

    def list_topics(self, namespace: str, after: int) -> list[TopicUse]:
        """The topics of events after a position, by name."""
        rows = self._db.all("list_topics", namespace=namespace, after=after)
        return [TopicUse(topic, n, position, self._db.time(at)) for topic, n, position, at in rows]

    def with_labels(self, events: Sequence[Event], labels: Mapping[str, str]) -> list[Event]:
        """Those of schedules that have all these labels now, in their order."""
        owners = {event.meta.get("schedule_id") for event in events} - {None}
        rows = self._db.all("list_labels_of", ids=sorted(map(str, owners)))
        found = {id_ for id_, text in rows if labels.items() <= json.loads(text).items()}
        return [event for event in events if event.meta.get("schedule_id") in found]

    def get_event(self, namespace: str, event_id: str) -> Event:
        """Raises NotFound."""
        row = self._db.one("get_event", id=event_id, namespace=namespace)
        if row is None:
            raise NotFound(
                f'event "{shorten(event_id)}" does not exist, or is past the retention period'
            )
        return read_event(row, self._db.time)


def _is_full(rows: Sequence[Row], limit: int) -> bool:
    return bool(rows) and (len(rows) == limit or rows[-1][_BYTES] >= MOST_BYTES)


def read_event(row: Row, time: Callable[[Any], Any]) -> Event:
    id_, namespace, topic, type_, key, data, meta, at, position, aggregate, version = row
    return Event(
        id_,
        namespace,
        topic,
        type_,
        key,
        json.loads(data),
        json.loads(meta),
        time(at),
        position,
        aggregate,
        version,
    )

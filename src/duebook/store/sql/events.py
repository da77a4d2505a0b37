"""The log of events in a transaction: what happened is appended, gets a position, and is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import NotFound, shorten
from duebook.model.event import Event, slot_of
from duebook.store.base import Batch, News
from duebook.store.sql.statements import Row, Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.model.event import Draft
    from duebook.store.base import Topics

    Versioned = tuple[Draft, str | None, int | None]
    """with the aggregate that it belongs to, and its version there"""

__all__ = ["EventLog"]

WINDOW: Final = 10_000
"""Positions that one look goes through: rare topics must not make it read the whole log."""
_POSITION: Final = 8


class EventLog(Statements):
    """Appending takes part in any transaction; positions follow the order of visibility."""

    def append_events(self, drafts: Sequence[Draft]) -> None:
        self._append([(draft, None, None) for draft in drafts])

    def _append(self, drafts: Sequence[Versioned]) -> None:
        if not drafts:
            return
        now = self._stamp(self.now)
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
        self._insert("insert_event", rows)
        self._tell(News.EVENTS)

    def stamp_events(self, limit: int) -> int | None:
        """Here one writes at a time, so that each event got its position when it was written."""
        return 0 if limit else None

    def last_position(self) -> int:
        return int(self._value("get_last_position") or 0)

    def position_at(self, moment: datetime) -> int:
        found = self._value("get_position_at", at=moment)
        return self.last_position() if found is None else int(found) - 1

    def read_events(
        self,
        namespace: str,
        after: int,
        limit: int,
        topics: Topics = None,
        parts: Sequence[int] = (0,),
        partitions: int = 1,
    ) -> Batch:
        last = self.last_position()
        until = min(after + WINDOW, last)
        if until <= after:
            return Batch([], after, False)
        rows = self._all(
            "list_events",
            namespace=namespace,
            after=after,
            until=until,
            parts=list(parts),
            partitions=partitions,
            every=topics is None,
            topics=list(topics or ()),
            limit=limit,
        )
        if len(rows) == limit:
            until = rows[-1][_POSITION]
        return Batch([read_event(row, self._time) for row in rows], until, until < last)

    def get_event(self, namespace: str, event_id: str) -> Event:
        row = self._one("get_event", id=event_id, namespace=namespace)
        if row is None:
            raise NotFound(f'event "{shorten(event_id)}" does not exist, or is no longer kept')
        return read_event(row, self._time)


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

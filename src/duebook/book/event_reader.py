"""Lists and follows the event log, a page at a time; for a database or a server alike."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from duebook.model.event import Event, EventPage

    Listed = list[Event]  # inside the class below `list` is a method

__all__ = ["MOST_LOOKED_AT", "EventReader"]

POLL: Final = 0.2
"""Seconds between two checks of a follower for new events."""
MOST_LOOKED_AT: Final = 50_000
"""Positions that are searched for the latest events, and for topics."""


class EventReader(Protocol):
    """Lists events from the pages of the log."""

    def position(self, since: str | datetime | None = None) -> int: ...

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
    ) -> EventPage: ...

    def list(
        self,
        topic: str | Sequence[str] | None = None,
        after: int | None = None,
        since: str | datetime | None = None,
        limit: int = 100,
        *,
        type: str | None = None,  # noqa: A002 - as it is called everywhere
        key: str | None = None,
    ) -> Listed:
        """Return the events after a position, or from a time on, in order; by default all of them.

        Without a topic, life cycle events of runs and schedules are left out.
        """
        found: Listed = []
        cursor = None
        while True:
            most = limit - len(found)
            page = self.page(topic, after, since, most, type=type, key=key, cursor=cursor)
            found += page
            cursor = page.next_cursor
            if cursor is None or len(found) >= limit:
                return found

    def latest(
        self,
        topic: str | Sequence[str] | None = None,
        limit: int = 20,
        *,
        type: str | None = None,  # noqa: A002 - as it is called everywhere
        key: str | None = None,
    ) -> Listed:
        """Return the last events of the log, in order; for a rare topic, those in its last part."""
        found: Listed = []
        cursor, end = None, None
        while True:
            most = limit - len(found)
            page = self.page(topic, limit=most, type=type, key=key, newest=True, cursor=cursor)
            found += page
            cursor = page.next_cursor
            end = page.position if end is None else end
            far = end - page.position >= MOST_LOOKED_AT
            if cursor is None or far or len(found) >= limit:
                return found[::-1]

    def tail(
        self,
        topic: str | Sequence[str] | None = None,
        after: int | None = None,
        since: str | datetime | None = None,
        pause: Callable[[float], object] = time.sleep,
        *,
        type: str | None = None,  # noqa: A002 - as it is called everywhere
        key: str | None = None,
    ) -> Iterator[Event]:
        """Like `list`, then new events forever; by default from the end of the log on."""
        place = self.position(since) if after is None else after
        cursor = None
        while True:
            page = self.page(topic, place, type=type, key=key, limit=1_000, cursor=cursor)
            yield from page
            cursor = page.next_cursor
            if cursor is None:
                place = page.position
                pause(POLL)

"""The event log as server-sent events: from a position on, then new events as they come."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool

from duebook.api.log_stream import Stream, Streams, sent
from duebook.api.problems import Malformed
from duebook.errors import shorten
from duebook.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.api.permissions import Caller
    from duebook.book import Book
    from duebook.model.event import EventPage

__all__ = ["EventStream", "read_position"]

BATCH: Final = 100
_POSITION: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


def read_position(text: str | None) -> int | None:
    """The position that a stream continues from, by its last id; raises Malformed."""
    if text is None:
        return None
    if not _POSITION.fullmatch(text):
        raise Malformed(f'Last-Event-ID "{shorten(text)}" is not a position of this log')
    return int(text)


class EventStream(Stream):
    """An endless stream of matching events; the id of each is its position."""

    def __init__(
        self,
        book: Book,
        after: int,
        asked: dict[str, Any],
        streams: Streams,
        still: Callable[[], Caller | None],
        who: str,
        shown: Callable[[int], int] = int,
    ) -> None:
        super().__init__(streams, still, who)
        self._log = book.events
        self._after = after
        self._asked = asked
        self._shown = shown
        self._id = shown(after)

    async def _look(self) -> tuple[list[str], str | None]:
        page = await run_in_threadpool(self._read)
        return [sent("event", encode(event), str(event.position)) for event in page], None

    def _read(self) -> EventPage:
        """The next events, if there are any."""
        while True:
            page = self._log.page(after=self._after, limit=BATCH, **self._asked)
            if page.position > self._after:
                self._after, self._id = page.position, self._shown(page.position)
            if page or page.next_cursor is None:
                return page

    def _alive(self) -> str:
        """Contains the position read so far, or the part of it that its reader may see."""
        return f": still there\nid: {self._id}\n\n"

"""Server-sent event streams, limited in number, such as a run's log: its lines so far, then new
ones until the run has ended."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool

from duebook.api.limits import CONNECTIONS
from duebook.api.log_tails import LOOK_EVERY, LogTails
from duebook.api.problems import Busy, Malformed, Unauthorized, problem_of
from duebook.errors import DuebookError, Unavailable, shorten
from duebook.model.codec import encode
from duebook.store.values import START, Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from duebook.api.log_tails import LogTail
    from duebook.api.permissions import Caller
    from duebook.book import Book
    from duebook.model.run import LogLine, Run

__all__ = ["LogStream", "StillLetIn", "Stream", "Streams", "place_text", "read_place", "sent"]

CHECK_EVERY: Final = 0.2
"""Seconds between checks of the token: a stream ends within a second of its token."""
ALIVE_EVERY: Final = 15.0
"""Seconds after which a silent stream sends a sign of life, so that proxies do not cut it."""
PATIENCE: Final = 10.0
"""Seconds that a stream continues while the database does not respond."""
MOST: Final = 200
"""Streams of logs and events."""
MOST_OF_ONE: Final = 20
"""Those of one token, so that it cannot take the places of all others."""
MOST_PAGES_OF_ONE: Final = 100
"""Self-refreshing pages of one token."""
_PLACE: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,12})", re.ASCII)


def read_place(text: str | None) -> Page:
    """Parse a position in a log; raises Malformed."""
    if text is None:
        return START
    found = _PLACE.fullmatch(text)
    if found is None:
        raise Malformed(f'cursor "{shorten(text)}" does not belong to this log')
    return Page(int(found[1]), int(found[2]))


def place_text(place: Page) -> str:
    return f"{place.attempt}.{place.seq}"


class Streams:
    """The streams of a server, live pages included: limited in number, and ended with the server.

    A stream is never closed to make room for other connections, so all streams together take at
    most half of the server's connections, and those of one token a quarter of that half.
    """

    def __init__(self, connections: int = CONNECTIONS) -> None:
        self._of: Counter[tuple[str, bool]] = Counter()
        self.connections = connections
        self.tails = LogTails()
        self.ending = False

    @property
    def open(self) -> int:
        return self._of.total()

    @property
    def most(self) -> int:
        """Maximum number of streams of all kinds."""
        return max(1, self.connections // 2)

    def refuse_more(self, who: str, page: bool = False) -> None:
        """Raises Unavailable if there are too many, and Busy if one token has too many; counts live
        pages separately from other streams."""
        if self.open >= self.most:
            raise Unavailable(f"{self.most:,} streams are already open; try again later")
        if not page and self._logs >= MOST:
            raise Unavailable(f"{MOST} streams are already open; read the log page by page")
        most = min(MOST_PAGES_OF_ONE if page else MOST_OF_ONE, max(1, self.most // 4))
        if self._of[who, page] >= most:
            told = f"this token has {most} {'live pages' if page else 'streams'} already open"
            raise Busy(
                f"{told}; close one, or {'reload the page' if page else 'read page by page'}"
            )

    @property
    def _logs(self) -> int:
        return sum(count for (_, page), count in self._of.items() if not page)

    @contextmanager
    def count(self, who: str, page: bool = False) -> Iterator[None]:
        """Count a stream while it is open; raises as `refuse_more`."""
        self.refuse_more(who, page)
        self._of[who, page] += 1
        try:
            yield
        finally:
            self._of[who, page] -= 1
            if not self._of[who, page]:
                del self._of[who, page]


class StillLetIn:
    """Checks regularly whether the reader of a stream still has access. While the database does not
    respond, the reader keeps access for some seconds."""

    def __init__(self, still: Callable[[], object]) -> None:
        self._still = still
        self._checked_at = self._answered_at = time.monotonic()

    async def __call__(self) -> bool:
        """Raises Unavailable if the database has not responded for long."""
        if time.monotonic() - self._checked_at <= CHECK_EVERY:
            return True
        self._checked_at = time.monotonic()
        try:
            found = await run_in_threadpool(self._still)
        except Unavailable:
            if time.monotonic() - self._answered_at > PATIENCE:
                raise
            return True
        self._answered_at = time.monotonic()
        return found is not None


class Stream:
    """The stream of one reader; `_look` returns what is new. `who` is the id of its token."""

    def __init__(self, streams: Streams, still: Callable[[], Caller | None], who: str) -> None:
        self._streams = streams
        self._is_let_in = StillLetIn(still)
        self._who = who
        streams.refuse_more(who)

    async def _look(self) -> tuple[list[str], str | None]:
        """New events; and the final event, if nothing will follow it."""
        raise NotImplementedError

    def _alive(self) -> str:
        """What is sent regularly while nothing is new."""
        return ": still there\n\n"

    async def events(self) -> AsyncIterator[str]:
        """Ends with the log, with the server, or with an event `problem`."""
        try:
            with self._streams.count(self._who):
                async for event in self._events():
                    yield event
        except DuebookError as error:
            yield sent("problem", problem_of(error).form())

    async def _events(self) -> AsyncIterator[str]:
        told_at = self._looked_at = time.monotonic()
        while not self._streams.ending:
            new, end = await self._look_patiently()
            await self._check()
            for event in new:
                yield event
                await self._check()  # a slow reader may take long
            if time.monotonic() - told_at > ALIVE_EVERY:
                told_at = time.monotonic()
                yield self._alive()
            if new:
                continue
            if end is not None:
                yield end
                return
            await asyncio.sleep(LOOK_EVERY)

    async def _look_patiently(self) -> tuple[list[str], str | None]:
        """As `_look`, but returns nothing while the database does not respond. Raises Unavailable
        if it has not responded for long."""
        try:
            found = await self._look()
        except Unavailable:
            if time.monotonic() - self._looked_at > PATIENCE:
                raise
            return [], None
        self._looked_at = time.monotonic()
        return found

    async def _check(self) -> None:
        """Raises Unauthorized once the token or session has ended; checks only at intervals."""
        if not await self._is_let_in():
            raise Unauthorized("the token or session is no longer valid")


class LogStream(Stream):
    """The log of a run, read once for all its readers."""

    def __init__(
        self,
        book: Book,
        run_id: str,
        place: Page,
        streams: Streams,
        still: Callable[[], Caller | None],
        who: str,
    ) -> None:
        super().__init__(streams, still, who)
        self._runs = book.runs
        self._run_id = run_id
        self._place = place
        self._tail: LogTail

    async def events(self) -> AsyncIterator[str]:
        """Ends with the run, with the server, or with an event `problem`."""
        with self._streams.tails.of(self._run_id, self._read) as self._tail:
            async for event in super().events():
                yield event

    async def _look(self) -> tuple[list[str], str | None]:
        run, lines = await self._tail.after(self._place)
        if lines:
            self._place = lines[-1][0]
        ended = not run.is_active
        new = [sent("line", encode(line), place_text(place)) for place, line in lines]
        return new, sent("end", encode(run)) if ended else None

    def _read(self, place: Page, limit: int) -> tuple[Run, list[tuple[Page, LogLine]]]:
        return self._runs.get(self._run_id), self._runs.log(self._run_id, place, limit)


def sent(kind: str, form: dict[str, Any], place: str | None = None) -> str:
    """One event of a stream."""
    number = "" if place is None else f"id: {place}\n"
    return f"{number}event: {kind}\ndata: {json.dumps(form, ensure_ascii=False)}\n\n"

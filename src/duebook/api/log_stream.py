"""Streams of server-sent events, bounded in number: a run's log, what is there and then what comes,
until the run has ended."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool

from duebook.api.problems import Malformed, Unauthorized, problem_of
from duebook.api.tails import LOOK_EVERY, Tails
from duebook.errors import DuebookError, Unavailable, shorten
from duebook.model.forms import log_form, run_form
from duebook.store.values import START, Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from duebook.api.permissions import Caller
    from duebook.api.tails import Tail
    from duebook.book import Book
    from duebook.model.run import LogLine, Run

__all__ = ["LogStream", "Stream", "Streams", "place_text", "read_place", "sent"]

CHECK_EVERY: Final = 0.2
"""Seconds after which the token is looked at again: a stream ends within a second of its token."""
ALIVE_EVERY: Final = 15.0
"""Seconds after which a stream says that it lives, so that nobody in between cuts it."""
MOST: Final = 200
MOST_OF_ONE: Final = 20
"""Streams of one token, so that nobody takes the places of all others."""
_PLACE: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,12})", re.ASCII)


def read_place(text: str | None) -> Page:
    """A place in a log from the text of it; raises Malformed."""
    if text is None:
        return START
    found = _PLACE.fullmatch(text)
    if found is None:
        raise Malformed(f'cursor "{shorten(text)}" is none that this log gave')
    return Page(int(found[1]), int(found[2]))


def place_text(place: Page) -> str:
    return f"{place.attempt}.{place.seq}"


class Streams:
    """The streams of a server: bounded in number, and ended with it."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()
        self.tails = Tails()
        self.ending = False

    @property
    def open(self) -> int:
        return self._of.total()

    def refuse_more(self, who: str) -> None:
        """Raises Unavailable when there are too many, or too many of one token."""
        if self.open >= MOST:
            raise Unavailable(f"{MOST} streams are open already; read the log page by page")
        if self._of[who] >= MOST_OF_ONE:
            told = f"this token has {MOST_OF_ONE} streams open already"
            raise Unavailable(f"{told}; close one, or read page by page")

    @contextmanager
    def count(self, who: str) -> Iterator[None]:
        """Counts a stream while it is open; raises Unavailable as `refuse_more`."""
        self.refuse_more(who)
        self._of[who] += 1
        try:
            yield
        finally:
            self._of[who] -= 1
            if not self._of[who]:
                del self._of[who]


class Stream:
    """What one reader gets; `_look` says what comes next. `who` is the id of its token."""

    def __init__(self, streams: Streams, still: Callable[[], Caller | None], who: str) -> None:
        self._streams = streams
        self._still = still
        self._who = who
        streams.refuse_more(who)

    async def _look(self) -> tuple[list[str], str | None]:
        """What is new; and the last words, when nothing will come after it."""
        raise NotImplementedError

    def _alive(self) -> str:
        """What is said now and then while nothing is new."""
        return ": still there\n\n"

    async def events(self) -> AsyncIterator[str]:
        """Ends with what is told, with the server, or with an event `problem`."""
        try:
            with self._streams.count(self._who):
                async for event in self._events():
                    yield event
        except DuebookError as error:
            yield sent("problem", problem_of(error).form())

    async def _events(self) -> AsyncIterator[str]:
        told_at = self._checked_at = time.monotonic()
        while not self._streams.ending:
            new, end = await self._look()
            await self._check()
            for event in new:
                yield event
                await self._check()  # who reads slowly may do so for long
            if time.monotonic() - told_at > ALIVE_EVERY:
                told_at = time.monotonic()
                yield self._alive()
            if new:
                continue
            if end is not None:
                yield end
                return
            await asyncio.sleep(LOOK_EVERY)

    async def _check(self) -> None:
        """Raises Unauthorized once the token or session has ended; looks now and then."""
        if time.monotonic() - self._checked_at > CHECK_EVERY:
            self._checked_at = time.monotonic()
            if await run_in_threadpool(self._still) is None:
                raise Unauthorized("the token or session is no longer valid")


class LogStream(Stream):
    """The log of a run, read once for all who follow it."""

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
        self._tail: Tail

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
        new = [sent("line", log_form(line), place_text(place)) for place, line in lines]
        return new, sent("end", run_form(run)) if ended else None

    def _read(self, place: Page, limit: int) -> tuple[Run, list[tuple[Page, LogLine]]]:
        return self._runs.get(self._run_id), self._runs.log(self._run_id, place, limit)


def sent(kind: str, form: dict[str, Any], place: str | None = None) -> str:
    """One event of a stream."""
    number = "" if place is None else f"id: {place}\n"
    return f"{number}event: {kind}\ndata: {json.dumps(form, ensure_ascii=False)}\n\n"

"""A run's log as server-sent events: what is there, then what comes, until the run has ended."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool

from duebook.api.problems import Malformed, Unauthorized, problem_of
from duebook.api.tails import LOOK_EVERY, Tails
from duebook.errors import DuebookError, Unavailable, shorten
from duebook.model.forms import log_form, run_form
from duebook.store.base import START, Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from duebook.api.permissions import Caller
    from duebook.api.tails import Tail
    from duebook.book import Book
    from duebook.model.run import LogLine, Run

__all__ = ["LogStream", "Streams", "place_text", "read_place"]

CHECK_EVERY: Final = 15.0
"""Seconds after which the token is looked at again, and the stream says that it lives, so that
nobody in between cuts it."""
MOST: Final = 200
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
        self.open = 0
        self.tails = Tails()
        self.ending = False

    def refuse_more(self) -> None:
        """Raises Unavailable when there are too many."""
        if self.open >= MOST:
            raise Unavailable(f"{MOST} streams are open already; read the log page by page")


class LogStream:
    """The events of one reader."""

    def __init__(
        self,
        book: Book,
        run_id: str,
        place: Page,
        streams: Streams,
        still: Callable[[], Caller | None],
    ) -> None:
        self._book = book
        self._run_id = run_id
        self._place = place
        self._streams = streams
        self._still = still
        streams.refuse_more()

    async def events(self) -> AsyncIterator[str]:
        """Ends with the run, with the server, or with an event `problem`."""
        self._streams.open += 1
        try:
            with self._streams.tails.of(self._run_id, self._look) as tail:
                async for event in self._events(tail):
                    yield event
        except DuebookError as error:
            yield _event("problem", problem_of(error).form())
        finally:
            self._streams.open -= 1

    async def _events(self, tail: Tail) -> AsyncIterator[str]:
        checked_at = time.monotonic()
        while not self._streams.ending:
            run, lines = await tail.after(self._place)
            for place, line in lines:
                self._place = place
                yield _event("line", log_form(line), place_text(place))
            if time.monotonic() - checked_at > CHECK_EVERY:
                checked_at = time.monotonic()
                if await run_in_threadpool(self._still) is None:
                    raise Unauthorized("the token is no longer valid")
                yield ": still there\n\n"
            if lines:
                continue
            if run.status not in ("queued", "running"):
                yield _event("end", run_form(run))
                return
            await asyncio.sleep(LOOK_EVERY)

    def _look(self, place: Page, limit: int) -> tuple[Run, list[tuple[Page, LogLine]]]:
        runs = self._book.runs
        return runs.get(self._run_id), runs.log(self._run_id, place, limit)


def _event(kind: str, form: dict[str, Any], place: str | None = None) -> str:
    number = "" if place is None else f"id: {place}\n"
    return f"{number}event: {kind}\ndata: {json.dumps(form, ensure_ascii=False)}\n\n"

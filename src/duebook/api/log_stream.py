"""A run's log as server-sent events: what is there, then what comes, until the run has ended."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool

from duebook.api.problems import Malformed, problem_of
from duebook.errors import DuebookError, Unavailable, shorten
from duebook.model.forms import log_form, run_form
from duebook.store.base import START, Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from duebook.book import Book
    from duebook.model.run import LogLine, Run

__all__ = ["LogStream", "Streams", "place_text", "read_place"]

LOOK_EVERY: Final = 0.25
"""Seconds between two looks at the books while nothing is new."""
SIGN_OF_LIFE: Final = 15.0
"""Seconds after which a silent stream says that it lives, so that nobody in between cuts it."""
BATCH: Final = 1000
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
        self._open = 0
        self.ending = False

    def begin(self) -> None:
        """Raises Unavailable when there are too many."""
        if self._open >= MOST:
            raise Unavailable(f"{MOST} streams are open already; read the log page by page")
        self._open += 1

    def end(self) -> None:
        self._open -= 1


class LogStream:
    """The events of one reader."""

    def __init__(self, book: Book, run_id: str, place: Page, streams: Streams) -> None:
        self._book = book
        self._run_id = run_id
        self._place = place
        self._streams = streams
        streams.begin()

    async def events(self) -> AsyncIterator[str]:
        """Ends with the run, with the server, or with an event `problem`."""
        try:
            async for event in self._events():
                yield event
        except DuebookError as error:
            yield _event("problem", problem_of(error).form())
        finally:
            self._streams.end()

    async def _events(self) -> AsyncIterator[str]:
        said_at = time.monotonic()
        while not self._streams.ending:
            run, lines = await run_in_threadpool(self._look)
            for place, line in lines:
                self._place = place
                yield _event("line", log_form(line), place_text(place))
            if lines:
                said_at = time.monotonic()
                continue
            if run.status not in ("queued", "running"):
                yield _event("end", run_form(run))
                return
            if time.monotonic() - said_at > SIGN_OF_LIFE:
                said_at = time.monotonic()
                yield ": still there\n\n"
            await asyncio.sleep(LOOK_EVERY)

    def _look(self) -> tuple[Run, list[tuple[Page, LogLine]]]:
        """The run first: when it had ended, the lines that follow are all there are."""
        runs = self._book.runs
        return runs.get(self._run_id), runs.log(self._run_id, self._place, BATCH)


def _event(kind: str, form: dict[str, Any], place: str | None = None) -> str:
    number = "" if place is None else f"id: {place}\n"
    return f"{number}event: {kind}\ndata: {json.dumps(form, ensure_ascii=False)}\n\n"

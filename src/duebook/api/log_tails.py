"""The ends of logs that are being followed: one query serves all readers of a run."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.model.run import LogLine, Run
    from duebook.store.values import Page

    Lines = list[tuple[Page, LogLine]]
    Look = Callable[[Page, int], tuple[Run, Lines]]
    """reads the run first: if it had ended, the lines that follow are complete"""

__all__ = ["LogTail", "LogTails"]

LOOK_EVERY: Final = 0.25
"""Seconds between two queries while nothing is new."""
BATCH: Final = 1_000
KEPT: Final = 4_000
"""Lines kept for readers that are a little behind."""


class LogTail:
    """The newest lines of an active run, from its first reader's position on."""

    def __init__(self, look: Look, clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._clock = clock
        self._looking = asyncio.Lock()
        self._since: Page | None = None
        self._last: Page | None = None
        self._lines: Lines = []
        self._run: Run | None = None
        self._looked_at = float("-inf")
        self._more = True
        """whether the latest query may have left lines for the next one"""

    async def after(self, place: Page) -> tuple[Run, Lines]:
        """The run, and the lines after a position; empty if the reader has all so far."""
        async with self._looking:
            since = self._since = self._since or place
            if _order(place) >= _order(since):
                return await self._follow(place)
        return await run_in_threadpool(self._look, place, BATCH)

    async def _follow(self, place: Page) -> tuple[Run, Lines]:
        run = self._run
        if run is None or self._more or self._clock() - self._looked_at >= LOOK_EVERY:
            seen, fresh = await run_in_threadpool(self._look, self._last or place, BATCH)
            run = self._run = seen
            self._looked_at = self._clock()
            self._more = len(fresh) == BATCH
            self._keep(place, fresh)
        return run, [found for found in self._lines if _order(found[0]) > _order(place)]

    def _keep(self, place: Page, fresh: Lines) -> None:
        self._lines += fresh
        self._last = self._lines[-1][0] if self._lines else place
        if len(self._lines) > KEPT:
            self._since = self._lines[-KEPT - 1][0]
            del self._lines[:-KEPT]


def _order(place: Page) -> tuple[int, int]:
    return place.attempt, place.seq


class LogTails:
    """The tails that are being read, by the id of their run."""

    def __init__(self) -> None:
        self._tails: dict[str, tuple[LogTail, int]] = {}

    @contextmanager
    def of(self, run_id: str, look: Look) -> Iterator[LogTail]:
        """The tail of a run, while it is read; `look` is the query of its first reader."""
        tail, readers = self._tails.get(run_id) or (LogTail(look), 0)
        self._tails[run_id] = (tail, readers + 1)
        try:
            yield tail
        finally:
            readers = self._tails[run_id][1] - 1
            if readers:
                self._tails[run_id] = (tail, readers)
            else:
                del self._tails[run_id]

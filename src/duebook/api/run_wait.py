"""A response that is sent when a run has ended, or when the time is up. It occupies no thread, and
counts as one of the server's streams."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.log_stream import StillLetIn
from duebook.api.log_tails import LOOK_EVERY
from duebook.api.problems import Unauthorized, problem_of
from duebook.book.waiting import read_timeout, watch_of
from duebook.errors import DuebookError, Invalid
from duebook.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from duebook.api.log_stream import Streams
    from duebook.api.permissions import Caller
    from duebook.book import Book
    from duebook.model.run import Run

__all__ = ["RunWait", "read_patience"]

DEFAULT: Final = 30.0
LONGEST: Final = 60.0


def read_patience(text: str | None) -> float:
    """How many seconds a request waits; raises Invalid."""
    seconds = read_timeout(text)
    if seconds is None:
        return DEFAULT
    if seconds > LONGEST:
        raise Invalid(
            f"timeout {text} is longer than {LONGEST:.0f}s; send the request again if the run has "
            "not ended"
        )
    return seconds


class RunWait(Response):
    """The run, once it has ended or `seconds` have passed. `who` is the id of the token."""

    def __init__(
        self,
        book: Book,
        run_id: str,
        seconds: float,
        streams: Streams,
        still: Callable[[], Caller | None],
        who: str,
    ) -> None:
        super().__init__()
        self._runs, self._watch = book.runs, watch_of(book.store)
        self._run_id = run_id
        self._until = time.monotonic() + seconds
        self._streams = streams
        self._is_let_in = StillLetIn(still)
        self._who = who
        streams.refuse_more(who)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._streams.count(self._who):
                run = await self._ended(receive)
            answer = None if run is None else Answer(encode(run)).response()
        except DuebookError as error:
            answer = problem_of(error).response()
        if answer is not None:
            await answer(scope, receive, send)

    async def _ended(self, receive: Receive) -> Run | None:
        """The run when it has ended, or its current state when the time is up or the server stops;
        None: the client is gone. Raises Unauthorized once the token has ended."""
        ended = asyncio.wrap_future(self._watch.when_ended(self._run_id))
        gone = asyncio.ensure_future(_disconnected(receive))
        either: set[asyncio.Future[Any]] = {ended, gone}
        try:
            while (left := self._until - time.monotonic()) > 0 and not self._streams.ending:
                pause = min(left, LOOK_EVERY)
                await asyncio.wait(either, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    return None
                if not await self._is_let_in():
                    raise Unauthorized("the token or session is no longer valid")
                if ended.done():
                    return ended.result()
            return await run_in_threadpool(self._runs.get, self._run_id)
        finally:
            ended.cancel()
            gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

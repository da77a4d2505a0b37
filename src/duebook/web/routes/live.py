"""The stream that tells pages that something changed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from duebook.api.gate import STILL
from duebook.api.operations import Operations
from duebook.errors import Unavailable
from duebook.model.access import Role
from duebook.web.visits import Visiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from duebook.api.log_stream import Streams
    from duebook.web.watching import Watches

__all__ = ["operations"]

operations = Operations("", "pages")

CHECK_EVERY: Final = 0.2
"""Seconds after which the session is looked at again: a stream ends within a second of it."""
ALIVE_EVERY: Final = 15.0
"""Seconds after which the stream says that it lives."""
MOST: Final = 1_000


@operations("GET", "/live", Role.VIEWER, None)
async def get_live(visit: Visiting) -> Response:
    """An event `changed` with its number, now and whenever a page may look different.

    Who does not ask for a stream gets the number alone.
    """
    state, scope = visit.request.app.state, visit.request.scope
    if "text/event-stream" not in visit.request.headers.get("accept", ""):
        return PlainTextResponse(str(await state.watches.of(visit.ask.namespace).look()))
    if state.watches.viewers >= MOST:
        raise Unavailable(f"{MOST:,} pages are live already; reload this one by hand")
    events = changes(state.watches, visit.ask.namespace, state.streams, scope[STILL])
    return StreamingResponse(events, media_type="text/event-stream")


async def changes(
    watches: Watches, namespace: str, streams: Streams, still: Callable[[], object]
) -> AsyncIterator[str]:
    """Ends with the server, and with the session."""
    told_at = checked_at = time.monotonic()
    watches.viewers += 1
    try:
        async for number in watches.changes(namespace):
            if streams.ending:
                return
            if time.monotonic() - checked_at > CHECK_EVERY:
                checked_at = time.monotonic()
                if await run_in_threadpool(still) is None:
                    yield "event: over\ndata: 0\n\n"
                    return
            if number:
                yield f"event: changed\nid: {number}\ndata: {number}\n\n"
            if time.monotonic() - told_at > ALIVE_EVERY:
                told_at = time.monotonic()
                yield ": still there\n\n"
    finally:
        watches.viewers -= 1

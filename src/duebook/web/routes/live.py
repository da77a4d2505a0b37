"""The stream that notifies live pages of changes."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from duebook.api.gate import STILL
from duebook.api.log_stream import ALIVE_EVERY, StillLetIn
from duebook.api.operations import Operations
from duebook.errors import DuebookError
from duebook.model.access import Role
from duebook.web.page_request import CurrentPage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from duebook.api.log_stream import Streams
    from duebook.web.watching import Watches

__all__ = ["operations"]

log = logging.getLogger(__name__)

operations = Operations("", "pages")


@operations("GET", "/live", Role.VIEWER)
async def get_live(page: CurrentPage) -> Response:
    """An event `changed` with its number, now and whenever a page may have changed.

    A request that does not accept a stream gets just the number.
    """
    state, scope = page.request.app.state, page.request.scope
    if "text/event-stream" not in page.request.headers.get("accept", ""):
        return PlainTextResponse(str(await state.watches.of(page.ask.namespace).look()))
    who = page.caller.id
    state.streams.refuse_more(who, page=True)
    events = changes(state.watches, page.ask.namespace, state.streams, scope[STILL], who)
    return StreamingResponse(events, media_type="text/event-stream")


async def changes(
    watches: Watches, namespace: str, streams: Streams, still: Callable[[], object], who: str
) -> AsyncIterator[str]:
    """The events of a stream; ends with the server or the session, or if the database has been
    unavailable for long. `who` is the id of the token."""
    try:
        with streams.count(who, page=True):
            async for event in _changes(watches, namespace, streams, StillLetIn(still)):
                yield event
    except DuebookError as error:
        log.debug(
            "a live page was disconnected: %s", error
        )  # the browser reconnects, and is told why


async def _changes(
    watches: Watches, namespace: str, streams: Streams, is_let_in: StillLetIn
) -> AsyncIterator[str]:
    told_at = time.monotonic()
    async for number in watches.changes(namespace):
        if streams.ending:
            return
        if not await is_let_in():
            yield "event: over\ndata: 0\n\n"
            return
        if number:
            yield f"event: changed\nid: {number}\ndata: {number}\n\n"
        if time.monotonic() - told_at > ALIVE_EVERY:
            told_at = time.monotonic()
            yield ": still there\n\n"

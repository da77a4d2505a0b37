"""The log of events: what is on it, as pages and as a stream that grows; publishing."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.responses import Response, StreamingResponse

from duebook.api.answers import Answer, listed, paged
from duebook.api.asking import Cursor, Here, Limit, Writing
from duebook.api.bodies import read_as_it_is, read_fields
from duebook.api.event_stream import EventStream, read_position
from duebook.api.gate import STILL
from duebook.api.operations import V1, Operations
from duebook.api.parameters import Header, Query
from duebook.api.schemas.events import (
    EventList,
    LogPosition,
    Publication,
    Published,
    TopicList,
)
from duebook.book import Book
from duebook.model.access import Role
from duebook.model.codec import encode
from duebook.model.event import EventPage

__all__ = ["operations"]

operations = Operations(f"{V1}/events", "events")


@operations("GET", "", Role.VIEWER, EventList, media=("text/event-stream",))
def list_events(
    ask: Here,
    topic: Annotated[
        list[str] | None, Query(description="All but life cycles, when it is left out.")
    ] = None,
    type: Annotated[str | None, Query()] = None,  # noqa: A002 - as it is called everywhere
    key: Annotated[str | None, Query()] = None,
    after: Annotated[int | None, Query(ge=0, le=2**62, description="After this position.")] = None,
    since: Annotated[str | None, Query(description="Written then or later.")] = None,
    newest: Annotated[bool, Query(description="The newest first, back to that place.")] = False,
    cursor: Cursor = None,
    limit: Limit = 100,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="Where a stream goes on.")
    ] = None,
) -> Response:
    """The events of a namespace, in the order of the log; what is secret in their data is hidden.

    With `Accept: text/event-stream` a stream that goes on for ever, from the end of the log unless
    `after` or `since` says otherwise: an event `event` for each, whose id is its position.
    """
    asked: dict[str, Any] = {"topic": topic, "type": type, "key": key}
    if "text/event-stream" in ask.request.headers.get("accept", ""):
        place = read_position(last_event_id)
        place = after if place is None else place
        place = ask.book.events.position(since) if place is None else place
        ask.book.events.page(after=place, limit=1, **asked)  # refuses what is no question
        streams, still = ask.request.app.state.streams, ask.request.scope[STILL]
        stream = EventStream(ask.book, place, asked, streams, still, ask.caller.id, ask.shown)
        return StreamingResponse(stream.events(), media_type="text/event-stream")
    positions: dict[str | None, int] = {}

    def read(at: str | None, most: int) -> EventPage:
        page = ask.book.events.page(
            after=after, since=since, limit=most, newest=newest, cursor=at, **asked
        )
        positions[page.next_cursor] = max(ask.shown(page.position), after or 0)
        return page

    found = paged(read, encode, cursor, limit)
    return Answer(found.body | {"position": positions[found.body["next_cursor"]]}).response()


@operations("POST", "", Role.ADMIN, Published, body=Publication, status=201)
def publish_event(ask: Writing) -> Response:
    """Write an event: whoever listens to its topic gets it."""
    known = ("topic", "data", "key", "type")
    given = read_fields(ask.body, dict.fromkeys(known, read_as_it_is), required=("topic",))

    def work(book: Book) -> Answer:
        event_id = book.events.publish(**given)
        return Answer({"id": event_id}, 201, {"Location": f"{V1}/events/{event_id}"})

    return ask.write(work)


@operations("GET", "/position", Role.VIEWER, LogPosition)
def get_position(
    ask: Here,
    since: Annotated[str | None, Query(description="An instant; the end otherwise.")] = None,
) -> Response:
    """The end of the log, or the position after which what was written then comes.

    For a token that sees only some namespaces, that of the last event of this one up to there.
    """
    return Answer({"position": ask.shown(ask.book.events.position(since))}).response()


@operations("GET", "/topics", Role.VIEWER, TopicList)
def list_topics(ask: Here) -> Response:
    """The topics of the last 50,000 positions of the log, by name."""
    return listed([encode(use) for use in ask.book.events.topics()]).response()

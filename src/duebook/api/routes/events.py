"""The event log as pages and as a stream, and its consumers with their lag."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from starlette.responses import Response, StreamingResponse

from duebook.api.answers import Answer, listed, paged
from duebook.api.asking import Ask
from duebook.api.event_stream import EventStream, read_position
from duebook.api.gate import STILL
from duebook.api.operations import Handlers
from duebook.api.parameters import Header
from duebook.api.problems import InvalidFields
from duebook.book import Book
from duebook.client import TABLE
from duebook.client.use_cases import V1
from duebook.errors import NotFound, shorten
from duebook.model.codec import encode
from duebook.model.consumer import ConsumerDetails, ConsumerState, Lag, SinkMade
from duebook.model.event import EventPage

__all__ = ["handlers"]

handlers = Handlers()


@handlers
def list_events(
    book: Book,
    ask: Ask,
    after: int | None,
    since: str | None,
    newest: bool,
    cursor: str | None,
    limit: int,
    last_event_id: Annotated[
        str | None, Header("Where to continue a stream.", alias="Last-Event-ID")
    ] = None,
    **asked: Any,
) -> Answer | Response:
    if "text/event-stream" in ask.request.headers.get("accept", ""):
        place = read_position(last_event_id)
        place = after if place is None else place
        place = book.events.position(since) if place is None else place
        book.events.page(after=place, limit=1, **asked)  # rejects invalid arguments
        streams, still = ask.request.app.state.streams, ask.request.scope[STILL]
        stream = EventStream(book, place, asked, streams, still, ask.caller.id, ask.shown)
        return StreamingResponse(stream.events(), media_type="text/event-stream")
    positions: dict[str | None, int] = {}

    def read(at: str | None, most: int) -> EventPage:
        page = book.events.page(
            after=after, since=since, limit=most, newest=newest, cursor=at, **asked
        )
        positions[page.next_cursor] = max(ask.shown(page.position), after or 0)
        return page

    found = paged(read, encode, cursor, limit)
    beside = {"position": positions[found.body["next_cursor"]]}
    return replace(found, body=found.body | beside)


@handlers
def publish_event(book: Book, **given: Any) -> Answer:
    event_id = book.events.publish(**given)
    return Answer({"id": event_id}, 201, {"Location": f"{V1}/events/{event_id}"})


@handlers
def get_position(book: Book, ask: Ask, since: str | None) -> Answer:
    return Answer({"position": ask.shown(book.events.position(since))})


@handlers
def list_consumers(book: Book) -> Answer:
    return listed([encode(state) for state in _consumers(book)])


@handlers
def get_consumer(book: Book, name: str) -> Answer:
    parts = tuple(book.events.partitions(name))
    return Answer(encode(ConsumerDetails(*_consumer(book, name), parts)))


@handlers
def save_sink(book: Book, name: str, kind: Any, options: dict[str, Any], **given: Any) -> Answer:
    reserved = options.keys() & {"self", *TABLE["save_sink"].names}
    if reserved:
        named = sorted(map(shorten, reserved))
        raise InvalidFields({key: f'"{key}" is not an option of a {kind} sink' for key in named})
    _, secret = book.events.add_sink(name, kind, **given, **options)
    return Answer(encode(SinkMade(*_consumer(book, name), secret)))


def _consumers(book: Book) -> list[ConsumerState]:
    lags = {lag.consumer: lag for lag in book.events.lags()}
    return [
        ConsumerState(one, lags.get(one.name, Lag(one.namespace, one.name, one.kind, 0, 0, 0)))
        for one in book.events.consumers()
    ]


def _consumer(book: Book, name: str) -> ConsumerState:
    for state in _consumers(book):
        if state.settings.name == name:
            return state
    raise NotFound(f'there is no group or sink "{shorten(name)}"')

"""Those who read the log of events: groups and sinks, their lag, replays, dead letters."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.responses import Response

from duebook.api.answers import Answer, listed, paged
from duebook.api.asking import Cursor, Here, Limit, Writing
from duebook.api.bodies import read_as_it_is, read_fields
from duebook.api.operations import V1, Operations
from duebook.api.parameters import Query
from duebook.api.problems import InvalidFields
from duebook.api.schemas.events import (
    ConsumerDetails,
    ConsumerList,
    DeadLetterList,
    DeadLettersAnswer,
    DeadLettersRequest,
    EventShape,
    ReplayAnswer,
    ReplayRequest,
    SinkDefinition,
    SinkMade,
)
from duebook.book import Book
from duebook.errors import Invalid, NotFound, shorten
from duebook.model.access import Role
from duebook.model.codec import encode
from duebook.model.consumer import ConsumerState, Lag
from duebook.model.fields import one_of, read_instant, read_text

__all__ = ["operations"]

operations = Operations(f"{V1}/events", "events")


@operations("GET", "/consumers", Role.VIEWER, ConsumerList)
def list_consumers(ask: Here) -> Response:
    """The groups and sinks of a namespace by name, with how far each is behind."""
    return listed([encode(state) for state in _consumers(ask.book)]).response()


@operations("GET", "/consumers/{name}", Role.VIEWER, ConsumerDetails, errors=(404,))
def get_consumer(ask: Here, name: str) -> Response:
    """A group or sink with its partitions: how far each has come, and whose it is."""
    parts = tuple(ask.book.events.partitions(name))
    return Answer(encode(ConsumerDetails(*_consumer(ask.book, name), parts))).response()


@operations(
    "PUT", "/consumers/{name}", Role.ADMIN, SinkMade, body=SinkDefinition, errors=(404, 409)
)
def save_sink(ask: Here, name: str) -> Response:
    """Have relays publish events to a webhook or to Kafka, or change how.

    It gets the events of its namespace. One that exists goes on where it is. The secret of a
    webhook is made when none is given, and shown this once; `***` for a secret leaves it as it is,
    as long as no endpoint changes: the URL, or Kafka's servers, token endpoint and protocol.
    """
    readers = {
        "kind": one_of(("kafka", "webhook")),
        "topics": read_as_it_is,
        "start": read_as_it_is,
        "attempts": read_as_it_is,
        "partitions": read_as_it_is,
        "options": _read_options,
    }
    given = read_fields(ask.body, readers, required=("kind", "options"))
    options = given.pop("options")
    if "topics" in given:
        given["topic"] = _read_topics(given.pop("topics"))
    kind = given.pop("kind")
    reserved = options.keys() & {"name", "kind", "topic", "self", *given}
    if reserved:
        named = sorted(map(shorten, reserved))
        raise InvalidFields({key: f'"{key}" is no option of a {kind} sink' for key in named})
    _, secret = ask.book.events.add_sink(name, kind, **given, **options)
    return Answer(encode(SinkMade(*_consumer(ask.book, name), secret))).response()


@operations("DELETE", "/consumers/{name}", Role.ADMIN, None, status=204, errors=(404,))
def remove_consumer(ask: Here, name: str) -> Response:
    """Forget a group or sink: where it was, and its dead letters."""
    ask.book.events.remove(name)
    return Answer().response()


@operations(
    "POST",
    "/consumers/{name}/replay",
    Role.OPERATOR,
    ReplayAnswer,
    body=ReplayRequest,
    errors=(404,),
)
def replay_events(ask: Writing, name: str) -> Response:
    """Have a group or sink get again what it got `after` a position, or `since` a time.

    It is marked as a replay. What is no longer kept does not come again.
    """
    given = read_fields(ask.body, {"after": read_as_it_is, "since": read_instant})

    def work(book: Book) -> Answer:
        place, count = book.events.replay(name, **given)
        return Answer({"position": place, "partitions": count})

    return ask.write(work)


@operations("GET", "/dead-letters", Role.VIEWER, DeadLetterList, errors=(404,))
def list_dead_letters(
    ask: Here,
    consumer: Annotated[str | None, Query(description="Of this group or sink only.")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """What was not taken, and why; the newest first."""
    read = ask.book.events.dead_letters
    return paged(lambda at, most: read(consumer, most, cursor=at), encode, cursor, limit).response()


@operations(
    "POST",
    "/consumers/{name}/dead-letters/replay",
    Role.OPERATOR,
    DeadLettersAnswer,
    body=DeadLettersRequest,
    errors=(404,),
)
def replay_dead_letters(ask: Writing, name: str) -> Response:
    """Deliver dead letters once more: one, or all of a group or sink."""
    given = read_fields(ask.body, {"event": read_text})
    return ask.write(
        lambda book: Answer({"count": book.events.replay_dead(name, given.get("event"))})
    )


@operations(
    "POST",
    "/consumers/{name}/dead-letters/drop",
    Role.OPERATOR,
    DeadLettersAnswer,
    body=DeadLettersRequest,
    errors=(404,),
)
def drop_dead_letters(ask: Writing, name: str) -> Response:
    """Give dead letters up: one, or all of a group or sink."""
    given = read_fields(ask.body, {"event": read_text})
    return ask.write(
        lambda book: Answer({"count": book.events.drop_dead(name, given.get("event"))})
    )


@operations("GET", "/{event_id}", Role.VIEWER, EventShape, errors=(404,))
def get_event(ask: Here, event_id: str) -> Response:
    """One event by its id."""
    return Answer(encode(ask.book.events.get(event_id))).response()


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
    raise NotFound(f'no group and no sink is called "{shorten(name)}"')


def _read_options(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise Invalid(f"{key} {shorten(value)} is no JSON object")


def _read_topics(value: Any) -> Any:
    if isinstance(value, list):
        return value
    raise InvalidFields({"topics": f"topics {shorten(value)} is no list of topics"})

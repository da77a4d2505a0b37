"""The use cases of the event log, and of the groups and sinks that read it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Protocol, TypeVar

from duebook.book.consuming import Received
from duebook.book.event_reader import EventReader
from duebook.book.events import PARTITIONS
from duebook.book.listeners import SINK_PARTITIONS
from duebook.client.arguments import JUDGED, LIMIT, NOT_SENT, Cursor, Given, Limit, named
from duebook.client.use_cases import needs_database, operation, part_of
from duebook.delivery.courier import LEASE
from duebook.errors import Invalid, shorten
from duebook.model.access import Role
from duebook.model.consumer import Consumer, DeadLetter, Lag, Partition, load_topics
from duebook.model.event import Event, EventPage, TopicUse
from duebook.model.listing import Listing
from duebook.model.sink import ATTEMPTS

__all__ = ["EventsClient"]

# inside the class below `list` is a method
Consumers = list[Consumer]
Lags = list[Lag]
Letters = Listing[DeadLetter]
Partitions = list[Partition]
TopicList = list[TopicUse]

F = TypeVar("F", bound=Callable[..., object])
_Reader = Annotated[str, named("name")]
_Schedule = Annotated[str, named("schedule")]
_Letter = Annotated[str | None, Given("Only this one; by default all of them.", alias="event")]


def _on_a_page(limit: Any) -> Any:
    """The limit, reduced to what a server returns at once; the server rejects non-numbers."""
    most = LIMIT.le
    return most if isinstance(limit, int) and most is not None and limit > most else limit


def _read_topics(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return value
    raise Invalid(f"{key} {shorten(value)} is not a list of topics")


def _read_options(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise Invalid(f"{key} {shorten(value)} is not a JSON object")


class EventsClient(EventReader, Protocol):
    """The event log of a namespace, and the groups and sinks that read it."""

    @operation(
        *("list_events", "GET", "/events", Role.VIEWER, "events tail"), media=("text/event-stream",)
    )
    def page(
        self,
        topic: Annotated[
            str | Sequence[str] | None,
            Given("By default all except life cycle topics.", send=load_topics),
        ] = None,
        after: Annotated[int | None, Given("After this position.", ge=0, le=2**62)] = None,
        since: Annotated[str | datetime | None, Given("Written at this time or later.")] = None,
        limit: Annotated[int, replace(LIMIT, send=_on_a_page)] = 100,
        *,
        type: str | None = None,
        key: str | None = None,
        newest: Annotated[bool, Given("Newest first, back to that position.")] = False,
        cursor: Cursor = None,
    ) -> EventPage:
        """List the events of a namespace in the order of the log; secrets in their data are hidden.

        With `Accept: text/event-stream` the response is an endless stream. It starts at the end
        of the log unless `after` or `since` is given, and each event has the type `event` and its
        position as the id.
        """

    @operation(
        *("publish_event", "POST", "/events", Role.ADMIN),
        no_cli="programs publish, and schedules with an event target",
        status=201,
        result="id",
    )
    def publish(
        self,
        topic: Annotated[str, JUDGED],
        data: Annotated[Any, JUDGED] = None,
        *,
        key: Annotated[str, JUDGED] = "",
        type: Annotated[str | None, JUDGED] = None,
        connection: Annotated[Any, NOT_SENT] = None,
    ) -> str:
        """Publish an event; the groups and sinks that read its topic receive it."""

    @operation(
        "get_position", "GET", "/events/position", Role.VIEWER, "events tail", result="position"
    )
    def position(
        self,
        since: Annotated[
            str | datetime | None, Given("A time; by default the end of the log.")
        ] = None,
    ) -> int:
        """Get the position of the end of the log, or of the last event before `since`.

        A token for some namespaces gets the position of the last event of this namespace before
        that.
        """

    @operation("list_topics", "GET", "/events/topics", Role.VIEWER, "events topics")
    def topics(self) -> TopicList:
        """List the topics of the last 50,000 positions of the log, by name."""

    @operation(
        *("list_consumers", "GET", "/events/consumers", Role.VIEWER),
        *("events groups", "events sink ls"),
    )
    def consumers(self) -> Consumers:
        """List the groups and sinks of a namespace by name, with how far each is behind."""

    @part_of("list_consumers", "items")
    def lags(self) -> Lags: ...

    @operation(
        "get_consumer",
        "GET",
        "/events/consumers/{name}",
        Role.VIEWER,
        "events groups",
        result="parts",
    )
    def partitions(self, name: _Reader) -> Partitions:
        """Get a group or sink with its partitions: the position and the owner of each."""

    @operation(
        *("save_sink", "PUT", "/events/consumers/{name}", Role.ADMIN, "events sink add"),
        errors=(409,),
        result=("", "secret"),
    )
    def add_sink(
        self,
        name: _Reader,
        kind: Literal["kafka", "webhook"],
        topic: Annotated[
            str | Sequence[str] | None, Given(alias="topics", read=_read_topics, send=load_topics)
        ] = None,
        *,
        start: Annotated[str | int, JUDGED] = "end",
        attempts: Annotated[int, JUDGED] = ATTEMPTS,
        partitions: Annotated[int, JUDGED] = SINK_PARTITIONS,
        types: Annotated[str | Sequence[str] | None, JUDGED] = None,
        labels: Annotated[Mapping[str, str] | None, JUDGED] = None,
        **options: Annotated[Any, Given(alias="options", read=_read_options)],
    ) -> tuple[Consumer, str | None]:
        """Create or change a sink, which publishes events to a webhook or to Kafka.

        It receives the events of its namespace; with `types` only those, and with `labels` only
        those of schedules that have all of them. An existing sink keeps its position. For a webhook
        without a secret one is created, and shown only this once. `***` keeps a secret, if no
        endpoint changes: the URL, or Kafka's servers, token endpoint and protocol.
        """

    @operation(
        *("set_ping", "PUT", "/events/pings/{name}", Role.ADMIN, "events ping"),
        status=204,
        errors=(409,),
    )
    def set_ping(self, name: _Schedule, url: Annotated[str, JUDGED]) -> None:
        """Send a request to a URL whenever a run of a schedule ends.

        A success goes to the URL, a failure to the URL with /fail and the error as the body, as
        Healthchecks expects it. The sink `pings` of the namespace sends them.
        """

    @operation(
        *("remove_ping", "DELETE", "/events/pings/{name}", Role.ADMIN, "events ping"),
        status=204,
    )
    def remove_ping(self, name: _Schedule) -> None:
        """Stop sending pings about a schedule."""

    @operation(
        *("remove_consumer", "DELETE", "/events/consumers/{name}", Role.ADMIN, "events rm"),
        status=204,
        errors=(409,),
    )
    def remove(self, name: _Reader) -> None:
        """Delete a group or sink, with its positions and dead letters."""

    @operation(
        *("replay_events", "POST", "/events/consumers/{name}/replay", Role.OPERATOR),
        "events replay",
        result=("position", "partitions"),
    )
    def replay(
        self,
        name: _Reader,
        after: Annotated[int | None, JUDGED] = None,
        since: str | datetime | None = None,
    ) -> tuple[int, int]:
        """Deliver events again to a group or sink: those `after` a position, or `since` a time.

        They are marked as replayed. Events that are no longer kept are not delivered.
        """

    @operation("list_dead_letters", "GET", "/events/dead-letters", Role.VIEWER, "events dlq")
    def dead_letters(
        self,
        name: Annotated[str | None, Given("Only of this group or sink.", alias="consumer")] = None,
        limit: Limit = 100,
        *,
        cursor: Cursor = None,
    ) -> Letters:
        """List the dead letters and why each was not delivered, newest first."""

    @operation(
        *("replay_dead_letters", "POST", "/events/consumers/{name}/dead-letters/replay"),
        *(Role.OPERATOR, "events dlq"),
        result="count",
    )
    def replay_dead(self, name: _Reader, event_id: _Letter = None) -> int:
        """Deliver dead letters again: one, or all of a group or sink."""

    @operation(
        *("drop_dead_letters", "POST", "/events/consumers/{name}/dead-letters/drop"),
        *(Role.OPERATOR, "events dlq"),
        result="count",
    )
    def drop_dead(self, name: _Reader, event_id: _Letter = None) -> int:
        """Discard dead letters: one, or all of a group or sink."""

    @operation(
        *("get_event", "GET", "/events/{event_id}", Role.VIEWER), no_cli="`events tail` shows all"
    )
    def get(self, event_id: Annotated[str, named("event")]) -> Event:
        """Get an event by its id."""

    def sinks(self) -> Consumers:
        """List the sinks among the consumers."""

    @needs_database("consuming events")
    def consume(
        self,
        topic: str | Sequence[str] | None,
        group: str,
        *,
        start: str | int = "beginning",
        batch: int = 100,
        attempts: int = 5,
        partitions: int = PARTITIONS,
        lease: str | timedelta = LEASE,
        follow: bool = True,
    ) -> Iterator[Received]: ...

    @needs_database("consuming events")
    def consumer(
        self,
        topic: str | Sequence[str] | None,
        group: str,
        *,
        start: str | int = "beginning",
        batch: int = 100,
        attempts: int = 5,
        partitions: int = PARTITIONS,
        lease: str | timedelta = LEASE,
    ) -> Callable[[F], F]: ...

    @needs_database("consuming events")
    def serve(self, stop: threading.Event | None = None) -> None: ...

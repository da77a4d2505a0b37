"""What people do with the log of events of a server, and with those who read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn

from duebook.book.events import PARTITIONS, Events
from duebook.book.listeners import SINK_PARTITIONS
from duebook.delivery.courier import LEASE
from duebook.errors import Invalid, shorten
from duebook.model.consumer import Lag
from duebook.model.event import EventPage
from duebook.model.sink import ATTEMPTS
from duebook.remote.needs import needs_database
from duebook.remote.readings import (
    read_consumer,
    read_event,
    read_letter,
    read_partition,
    read_topic,
)
from duebook.remote.server import PAGE

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from duebook.book.event_log import TopicList
    from duebook.book.listeners import Consumers, Lags, Letters, Partitions
    from duebook.model.consumer import Consumer
    from duebook.model.event import Event
    from duebook.remote.server import Server

__all__ = ["RemoteEvents"]


class RemoteEvents(Events):
    """As Events; what is secret in the data of events is hidden."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def publish(
        self,
        topic: str,
        data: Any = None,
        *,
        key: str = "",
        type: str | None = None,  # noqa: A002 - as it is called everywhere
        connection: Any = None,
    ) -> str:
        if connection is not None:
            raise needs_database("publishing in a transaction")
        body = {"topic": topic, "data": data, "key": key, "type": type}
        event_id: str = self._server.post("events", body=body)["id"]
        return event_id

    def get(self, event_id: str) -> Event:
        return read_event(self._server.get("events", _text("event", event_id)))

    def position(self, since: str | datetime | None = None) -> int:
        place: int = self._server.get("events", "position", since=since)["position"]
        return place

    def topics(self) -> TopicList:
        return [read_topic(form) for form in self._server.get("events", "topics")["items"]]

    def page(
        self,
        topic: str | Sequence[str] | None = None,
        after: int | None = None,
        since: str | datetime | None = None,
        limit: int = 100,
        *,
        type: str | None = None,  # noqa: A002 - as it is called everywhere
        key: str | None = None,
        newest: bool = False,
        cursor: str | None = None,
    ) -> EventPage:
        form = self._server.get(
            "events",
            topic=None if topic == "*" else topic,
            after=after,
            since=since,
            limit=min(limit, PAGE),
            type=type,
            key=key,
            newest=newest or None,
            cursor=cursor,
        )
        return EventPage(map(read_event, form["items"]), form["next_cursor"], form["position"])

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
    ) -> NoReturn:
        raise needs_database("consuming events")

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
    ) -> NoReturn:
        raise needs_database("consuming events")

    def serve(self, stop: threading.Event | None = None) -> NoReturn:
        raise needs_database("consuming events")

    def consumers(self) -> Consumers:
        return [self._read(form) for form in self._listed()]

    def add_sink(
        self,
        name: str,
        kind: Literal["kafka", "webhook"],
        topic: str | Sequence[str] | None = None,
        *,
        start: str | int = "end",
        attempts: int = ATTEMPTS,
        partitions: int = SINK_PARTITIONS,
        **options: Any,
    ) -> tuple[Consumer, str | None]:
        topics = [topic] if isinstance(topic, str) else topic
        body = {
            "kind": kind,
            "topics": None if topic in (None, "*") else list(topics or ()),
            "start": start,
            "attempts": attempts,
            "partitions": partitions,
            "options": options,
        }
        form = self._server.send("PUT", *_path(name), body=body)
        return self._read(form), form.get("secret")

    def lags(self) -> Lags:
        here = self._server.namespace
        return [
            Lag(here, form["name"], form["kind"], form["behind"], form["dead"], form["failing"])
            for form in self._listed()
        ]

    def partitions(self, name: str) -> Partitions:
        return [read_partition(form) for form in self._server.get(*_path(name))["parts"]]

    def remove(self, name: str) -> None:
        self._server.send("DELETE", *_path(name))

    def replay(
        self, name: str, after: int | None = None, since: str | datetime | None = None
    ) -> tuple[int, int]:
        form = self._server.post(*_path(name), "replay", body={"after": after, "since": since})
        return form["position"], form["partitions"]

    def dead_letters(
        self, name: str | None = None, limit: int = 100, *, cursor: str | None = None
    ) -> Letters:
        path = ("events", "dead-letters")
        return self._server.pages(read_letter, limit, *path, consumer=name, cursor=cursor)

    def replay_dead(self, name: str, event_id: str | None = None) -> int:
        return self._decide(name, "replay", event_id)

    def drop_dead(self, name: str, event_id: str | None = None) -> int:
        return self._decide(name, "drop", event_id)

    def _decide(self, name: str, action: str, event_id: str | None) -> int:
        body = {"event": event_id}
        count: int = self._server.post(*_path(name), "dead-letters", action, body=body)["count"]
        return count

    def _listed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._server.get("events", "consumers")["items"]
        return found

    def _read(self, form: dict[str, Any]) -> Consumer:
        return read_consumer(form, self._server.namespace)


def _path(name: object) -> tuple[str, str, str]:
    return ("events", "consumers", _text("name", name))


def _text(what: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise Invalid(f"{what} {shorten(value)} is no text")

"""Tells a service such as Healthchecks how the runs of schedules end: a request for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.errors import Unavailable, shorten
from duebook.model.ping import ping_url
from duebook.sinks.each import deliver_each
from duebook.sinks.webhook import LATER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duebook.model.consumer import Delivery, Report
    from duebook.model.event import Event
    from duebook.sinks.webhook import Post

__all__ = ["PingSink"]

HEADERS: Final = {"Content-Type": "text/plain; charset=utf-8"}
LONGEST_BODY: Final = 10_000
"""Characters; Healthchecks keeps 100,000 bytes."""


class PingSink:
    """Events of one schedule are one key: a URL that does not accept a ping holds up no other."""

    def __init__(self, urls: Mapping[str, str], post: Post) -> None:
        self._urls = urls
        self._post = post

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        return deliver_each(deliveries, self._deliver)

    def _deliver(self, delivery: Delivery) -> str | None:
        event = delivery.event
        url = self._urls.get(event.key)
        if url is None or not _counts(delivery):
            return None
        status = self._post(ping_url(url, event.type), dict(HEADERS), _body(event))
        if status in LATER:
            raise Unavailable(f"it returned {status}")
        return None if 200 <= status < 300 else f"it returned {status}"

    def interrupt(self) -> None:
        self._post.stop()

    def close(self) -> None:
        """Nothing is kept open."""


def _counts(delivery: Delivery) -> bool:
    """A step is a part of its flow's run; a backfill or a replay says nothing about the present."""
    event = delivery.event
    again = delivery.replay and not delivery.letter
    return not again and event.data.get("step") is None and event.meta["origin"] != "backfill"


def _body(event: Event) -> bytes:
    """What people read beside the ping: why a run failed."""
    if event.type == "run.succeeded":
        return b""
    lines = [f"run {event.data['run']} {event.data['status']}"]
    lines += [str(event.data[key]) for key in ("reason", "error") if event.data.get(key)]
    return "\n".join(shorten(line, LONGEST_BODY) for line in lines).encode()

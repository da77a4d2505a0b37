"""Reports how runs of schedules end to a service such as Healthchecks: a request for each."""

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
"""In characters; Healthchecks keeps 100,000 bytes."""


class PingSink:
    """Events of one schedule have one key: a URL that rejects a ping blocks no other schedule."""

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
        """Nothing to close."""


def _counts(delivery: Delivery) -> bool:
    """Skip steps, which are part of their flow's run, and backfills and replays, which concern
    the past."""
    event = delivery.event
    again = delivery.replay and not delivery.letter
    return not again and event.data.get("step") is None and event.meta["origin"] != "backfill"


def _body(event: Event) -> bytes:
    """The text that people read with the ping: why a run failed."""
    if event.type == "run.succeeded":
        return b""
    lines = [f"run {event.data['run']} {event.data['status']}"]
    lines += [str(event.data[key]) for key in ("reason", "error") if event.data.get(key)]
    return "\n".join(shorten(line, LONGEST_BODY) for line in lines).encode()

"""Publishes events to an HTTP endpoint as CloudEvents, signed so that it can verify the sender.

`post` sends the requests and decides where they may go.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from typing import TYPE_CHECKING, Final, Protocol

from duebook.errors import Unavailable
from duebook.model.sink import SECRET_PREFIX
from duebook.sinks.cloud_events import JSON_TYPE, as_json
from duebook.sinks.each import deliver_each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.consumer import Delivery, Report

__all__ = ["Post", "WebhookSink", "sign"]

LATER: Final = frozenset({408, 425, 429, 502, 503, 504})
"""Statuses that do not concern the event: the receiver is busy or unavailable."""


class Post(Protocol):
    """Sends a request and returns the status of the response; raises Unavailable without one."""

    def __call__(self, url: str, headers: dict[str, str], body: bytes) -> int: ...

    def stop(self) -> None:
        """Abort the current request, and send no more."""


def sign(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """As in Standard Webhooks: HMAC-SHA256 of id, timestamp and body."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = f"{event_id}.{timestamp}.".encode() + body
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


class WebhookSink:
    """One request for each event, one after another."""

    def __init__(
        self, url: str, secret: str, post: Post, clock: Callable[[], float] = time.time
    ) -> None:
        self._url = url
        self._secret = secret
        self._post = post
        self._clock = clock

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        return deliver_each(deliveries, self._deliver)

    def _deliver(self, delivery: Delivery) -> str | None:
        status = self._send(delivery)
        if status in LATER:
            raise Unavailable(f"it returned {status}")
        return None if 200 <= status < 300 else f"it returned {status}"

    def _send(self, delivery: Delivery) -> int:
        body, event_id, timestamp = as_json(delivery), delivery.event.id, int(self._clock())
        headers = {
            "Content-Type": JSON_TYPE,
            "webhook-id": event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(self._secret, event_id, timestamp, body),
        }
        return self._post(self._url, headers, body)

    def interrupt(self) -> None:
        self._post.stop()

    def close(self) -> None:
        """Nothing to close."""

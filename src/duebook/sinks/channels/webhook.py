"""Sends alerts to any HTTP endpoint as JSON, signed like events if it has a secret."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from duebook.sinks.channels.answers import judge
from duebook.sinks.webhook import sign

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.alert_message import AlertMessage
    from duebook.targets.posting import Poster

__all__ = ["WebhookChannel"]


class WebhookChannel:
    def __init__(
        self,
        url: str,
        secret: str | None,
        poster: Poster,
        hide: Callable[[str], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._secret = secret
        self._poster = poster
        self._hide = hide
        self._clock = clock

    def send(self, message: AlertMessage) -> None:
        body = json.dumps(message.to_json(), ensure_ascii=False).encode()
        timestamp = int(self._clock())
        headers = {
            "Content-Type": "application/json",
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp),
        }
        if self._secret is not None:
            headers["webhook-signature"] = sign(self._secret, message.id, timestamp, body)
        judge(*self._poster.fetch(self._url, headers, body), self._hide)

    def interrupt(self) -> None:
        self._poster.stop()

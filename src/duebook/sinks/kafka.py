"""Publishes events to Kafka: an idempotent producer, with the event's key as the message key.

After a failed message, later messages with the same key are not sent either, so that the order of
each key is kept.
"""

from __future__ import annotations

import json
import logging
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote, urlencode

from duebook.errors import DuebookError, Invalid, shorten
from duebook.model.consumer import Report
from duebook.model.kafka_settings import TIMEOUT, TOKEN_URL, asks_for_tokens
from duebook.sinks.cloud_events import as_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.consumer import Delivery

__all__ = ["KafkaSink"]

log = logging.getLogger(__name__)

PATIENCE: Final = 30_000
"""Milliseconds after which unacknowledged messages are given up, to be sent again."""
_SETTINGS: Final[dict[str, Any]] = {
    "client.id": "duebook",
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "linger.ms": 5,
    "log_level": 2,  # errors are reported with the sink, not for every connection attempt
}
_REFUSALS: Final = ("MSG_SIZE_TOO_LARGE", "INVALID_MSG", "TOPIC_EXCEPTION", "INVALID_RECORD")
"""Errors of a broker that concern a message itself."""


_OAUTH: Final = "sasl.oauthbearer."
TOKEN_LASTS: Final = 300
"""In seconds, if the response does not contain it."""


class SinkNetwork(Protocol):
    """Decides where a sink may connect, and requests tokens there."""

    def refuse(self, servers: str) -> None:
        """Raises Invalid for servers that may not be connected to."""

    def fetch(self, url: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """POST; returns the status and the body of the response. Raises Unavailable without one."""


class KafkaSink:
    """One producer; replaced after an error from which it cannot recover."""

    def __init__(
        self,
        servers: str,
        network: SinkNetwork,
        prefix: str = "",
        config: dict[str, str] | None = None,
    ) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise Invalid(
                "a kafka sink needs confluent-kafka, which is not installed: "
                "pip install 'confluent-kafka>=2.6,<3'"
            ) from None
        self._library = confluent_kafka
        self._prefix = prefix
        settings = {**_SETTINGS, **(config or {}), "bootstrap.servers": servers}
        self._patience = int(settings.get(TIMEOUT, PATIENCE)) / 1_000
        # otherwise the library would give up one message and send later ones; we give up all
        settings |= {TIMEOUT: 0}
        self._network = network
        self._servers = servers
        # otherwise the library would send the secret to any address the endpoint's name has
        if asks_for_tokens(settings):
            settings["oauth_cb"] = self._token
        self._oauth = {name: settings.pop(name) for name in [*settings] if name.startswith(_OAUTH)}
        self._settings = settings
        self._producer: Any = None
        self._trouble = ""
        """the last error of the producer"""

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        report, acknowledged = Report(), set[str]()
        try:
            producer = self._opened()
        except Invalid as error:  # reported with the sink, where people look for it
            return Report(undelivered={one.event.id: str(error) for one in deliveries})
        waiting: set[str] = set()
        until = time.monotonic() + self._patience
        for delivery in deliveries:
            event = delivery.event
            if event.key in waiting:
                report.untried.add(event.id)
            elif not self._produce(producer, delivery, report, acknowledged, until):
                waiting.add(event.key)
        producer.flush(self._patience)
        known = acknowledged | report.rejected.keys() | report.untried | report.undelivered.keys()
        for delivery in deliveries:
            if delivery.event.id not in known:
                report.undelivered[delivery.event.id] = self._silence()
        if report.undelivered:
            self.close()  # given-up messages must not arrive later
        return report

    def _produce(
        self,
        producer: Any,
        delivery: Delivery,
        report: Report,
        acknowledged: set[str],
        until: float,
    ) -> bool:
        """Pass a message to the library; returns whether it accepts it."""
        event = delivery.event
        headers, value = as_headers(delivery)

        def failed(error: Any) -> None:
            found = report.rejected if error.name() in _REFUSALS else report.undelivered
            found.setdefault(event.id, shorten(error.str(), 500))

        def heard(error: Any, _: Any) -> None:
            if error is None:
                acknowledged.add(event.id)
            else:
                failed(error)

        message = {
            "topic": self._prefix + event.topic,
            "key": event.key.encode(),
            "value": value,
            "headers": headers,
            "on_delivery": heard,
        }
        while True:
            try:
                producer.produce(**message)
            except BufferError:
                if time.monotonic() >= until:
                    report.undelivered[event.id] = "no broker accepted the events before it in time"
                    return False
                producer.poll(0.1)
            except self._library.KafkaException as error:
                failed(error.args[0])
                return False
            else:
                producer.poll(0)
                return True

    def _token(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """A token for the brokers, its expiry, and its extensions; raises Invalid."""
        given = {name.removeprefix(_OAUTH): text for name, text in self._oauth.items()}
        form = {"grant_type": "client_credentials"}
        form |= {"scope": given["scope"]} if "scope" in given else {}
        proof = f"{quote(given.get('client.id', ''))}:{quote(given.get('client.secret', ''))}"
        headers = {
            "Authorization": f"Basic {b64encode(proof.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        try:
            status, body = self._network.fetch(
                self._oauth[TOKEN_URL], headers, urlencode(form).encode()
            )
            token, lasts = _read_token(status, body)
        except DuebookError as error:
            self._trouble = f"no token: {shorten(str(error), 300)}"
            raise
        pairs = (pair.partition("=") for pair in given.get("extensions", "").split(",") if pair)
        return token, time.time() + lasts, "", {name: text for name, _, text in pairs}

    def _hear(self, error: Any) -> None:
        if error.name() != "_ALL_BROKERS_DOWN":  # follows the actual reason
            self._trouble = shorten(error.str(), 300)

    def _silence(self) -> str:
        told = f": {self._trouble}" if self._trouble else ""
        return f"no broker acknowledged it in time{told}"

    def _opened(self) -> Any:
        if self._producer is None:
            self._network.refuse(self._servers)
            make: Callable[..., Any] = self._library.Producer
            try:
                self._producer = make(self._settings | {"error_cb": self._hear}, logger=log)
            except self._library.KafkaException as error:
                raise Invalid(f"kafka: {shorten(error.args[0].str(), 300)}") from None
            except (ValueError, TypeError) as error:
                raise Invalid(f"kafka: {shorten(str(error), 300)}") from None
            self._trouble = ""
        return self._producer

    def interrupt(self) -> None:
        """Messages already passed to the library are waited for, because some may still arrive."""

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(1)


def _read_token(status: int, body: bytes) -> tuple[str, float]:
    """The token in an endpoint's response, and its lifetime in seconds; raises Invalid."""
    if not 200 <= status < 300:
        raise Invalid(f"the token endpoint returned {status}")
    try:
        form = json.loads(body)
    except ValueError:
        form = None
    token = form.get("access_token") if isinstance(form, dict) else None
    lasts = form.get("expires_in", TOKEN_LASTS) if isinstance(form, dict) else None
    if not isinstance(token, str) or isinstance(lasts, bool) or not isinstance(lasts, int | float):
        raise Invalid("the token endpoint did not return an access_token")
    return token, float(lasts)

"""Publishes events to Kafka: an idempotent producer, the key of an event as that of its message.

What follows a message of the same key that failed is not sent either, so that no key goes
backwards.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten
from duebook.model.consumer import Report
from duebook.model.sink import TIMEOUT
from duebook.sinks.cloud_events import as_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.consumer import Delivery

__all__ = ["KafkaSink"]

log = logging.getLogger(__name__)

PATIENCE: Final = 30_000
"""Milliseconds after which messages that no broker acknowledged are given up, to be sent again."""
_SETTINGS: Final[dict[str, Any]] = {
    "client.id": "duebook",
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "linger.ms": 5,
    "log_level": 2,  # what goes wrong is told with the sink, and not with every try to connect
}
_REFUSALS: Final = ("MSG_SIZE_TOO_LARGE", "INVALID_MSG", "TOPIC_EXCEPTION", "INVALID_RECORD")
"""What a broker says about a message itself."""


class KafkaSink:
    """One producer; a new one after an error from which it cannot recover."""

    def __init__(
        self, servers: str, prefix: str = "", config: dict[str, str] | None = None
    ) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise Invalid(
                "a kafka sink needs confluent-kafka, which is not installed: "
                "pip install 'confluent-kafka>=2.6'"
            ) from None
        self._library = confluent_kafka
        self._prefix = prefix
        settings = {**_SETTINGS, **(config or {}), "bootstrap.servers": servers}
        self._patience = int(settings.get(TIMEOUT, PATIENCE)) / 1_000
        # the library would give up one message and send those behind it; we give up all
        self._settings = settings | {TIMEOUT: 0}
        self._producer: Any = None
        self._trouble = ""
        """what the producer told last"""

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        report, acknowledged = Report(), set[str]()
        try:
            producer = self._opened()
        except Invalid as error:  # told with the sink, where people look why it waits
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
            self.close()  # nothing of what was given up must arrive later
        return report

    def _produce(
        self,
        producer: Any,
        delivery: Delivery,
        report: Report,
        acknowledged: set[str],
        until: float,
    ) -> bool:
        """Hand a message over; returns whether the library takes it."""
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
                    report.undelivered[event.id] = "no broker took what waits before it in time"
                    return False
                producer.poll(0.1)
            except self._library.KafkaException as error:
                failed(error.args[0])
                return False
            else:
                producer.poll(0)
                return True

    def _hear(self, error: Any) -> None:
        if error.name() != "_ALL_BROKERS_DOWN":  # it comes after the reason
            self._trouble = shorten(error.str(), 300)

    def _silence(self) -> str:
        told = f": {self._trouble}" if self._trouble else ""
        return f"no broker acknowledged it in time{told}"

    def _opened(self) -> Any:
        if self._producer is None:
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
        """What was handed over is waited for: nobody knows what of it will arrive."""

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(1)

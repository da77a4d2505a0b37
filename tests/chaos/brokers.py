"""Kafka's mock brokers, which are paused now and then; what they got is evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

from tests.chaos.witness import Delivery
from tests.support.kafka import Kafka, messages
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.book import Book
    from tests.chaos.witness import Witness

NAME: Final = "bus"


class Brokers:
    """A cluster, its consumer, and the sink that sends to it."""

    def __init__(self, folder: Path) -> None:
        self._kafka = Kafka(folder)

    def listen(self, book: Book, topic: str) -> None:
        """Deliver events from the start of the log."""
        self._consumer = self._kafka.consume(topic)
        servers = self._kafka.servers
        book.events.add_sink(NAME, "kafka", topic, servers=servers, start="beginning")

    def pause(self) -> None:
        """Pause the brokers: they keep their connections, but do not answer."""
        self._kafka.cluster.pause()

    def resume(self) -> None:
        self._kafka.cluster.resume()

    def wait_for_all(self, url: str, timeout: float = 3 * PATIENCE) -> None:
        """Wait until every event of the log in PostgreSQL has arrived; no more are written."""
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT id FROM duebook.events").fetchall()
        wanted = {row[0] for row in rows}
        eventually(lambda: not wanted - {*self._got()}, timeout)

    def testify(self, seen: Witness) -> None:
        """Record each event when it first arrived: events that arrive again may be older."""
        for event in dict.fromkeys(self._got()):
            seen.deliveries.append(Delivery(NAME, event))

    def _got(self) -> list[str]:
        return [message["headers"]["ce_id"] for message in messages(self._consumer)]

    def close(self) -> None:
        self._kafka.close()

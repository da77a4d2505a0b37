"""The receiver of a webhook that fails one request in twenty, with a 503 or by resetting the
connection; what it received is evidence for the checker."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import psycopg

from tests.chaos.witness import Delivery
from tests.support.waiting import PATIENCE, eventually
from tests.support.webhook import Webhook

if TYPE_CHECKING:
    from random import Random

    from duebook.book import Book
    from tests.chaos.witness import Witness

RELAYING: Final[dict[str, Any]] = {
    "roles": ["scheduler", "worker", "relay"],
    "http_allow": "127.0.0.0/8",
}
"""Options of nodes that deliver to the sink."""
NAME: Final = "hooks"
FAILS: Final = 0.05


class Receiver:
    """A flaky webhook, and the sink that sends to it."""

    def __init__(self, chance: Random) -> None:
        self._webhook = Webhook()
        self._chance, self._lock = chance, threading.Lock()
        self._webhook.fails = self._fails

    def _fails(self) -> int | None:
        with self._lock:
            failure = self._chance.choice((503, 503, 0))
            return failure if self._chance.random() < FAILS else None

    def listen(self, book: Book, topic: str) -> None:
        """Deliver events from the start of the log."""
        book.events.add_sink(NAME, "webhook", topic, url=self._webhook.url, start="beginning")

    def wait_for_all(self, url: str, timeout: float = 3 * PATIENCE) -> None:
        """Wait until every event of the log in PostgreSQL has arrived; no more are written."""
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT id FROM duebook.events").fetchall()
        wanted = {row[0] for row in rows}

        def missing() -> int:
            return len(wanted - {event for event, _ in self._webhook.heard})

        try:
            eventually(lambda: not missing(), timeout)
        except AssertionError:
            raise AssertionError(f"{missing()} of {len(wanted)} events did not come") from None

    def testify(self, seen: Witness) -> None:
        """Record each event when it first arrived: events that arrive again may be older."""
        for event in dict.fromkeys(event for event, _ in self._webhook.heard):
            seen.deliveries.append(Delivery(NAME, event))

    def close(self) -> None:
        self._webhook.close()

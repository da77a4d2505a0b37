"""The leader of three nodes is killed; Kafka and a table still receive every event once.

    python -m examples.event_story [--database URL]

Five shops take stock every second. Each due time is an event that the leading node writes together
with its schedule's progress. Two consumers run in separate processes: one on Kafka, one that writes
to a table in the database. Then the leader is killed. Without a database, the example starts its
own PostgreSQL; its Kafka is librdkafka's mock cluster. Run it in the repository, after
`make setup`.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from tests.support.kafka import Kafka, messages
from tests.support.postgres import Server

from duebook import Duebook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duebook.model.event import Event

T = TypeVar("T")
TOPIC = "shop.stock"
CLOSED = "shop.closed"
SHOPS = 5
BEFORE = 5 * SHOPS
"""Events that are received before the leader is killed."""
AFTER = 5 * SHOPS
# no key: only Duebook prevents an event from being here twice
TABLE = "CREATE TABLE stocktakings (place serial, event text NOT NULL, due text NOT NULL)"
NODE = ["up", "--coordination", "leader", "--roles", "scheduler,relay", "--quiet"]
NODE += ["--http-allow", "127.0.0.1"]


@dataclass(frozen=True)
class Verdict:
    """What a consumer received, compared with what was written."""

    who: str
    written: int
    heard: int
    again: int
    in_order: bool
    exactly_once: bool
    """whether exactly-once delivery was promised"""

    @property
    def holds(self) -> bool:
        twice = self.exactly_once and self.again > 0
        return self.heard == self.written and self.in_order and not twice


def judge(who: str, written: Sequence[Event], heard: Iterable[str], exactly_once: bool) -> Verdict:
    """Whether each event was received, in order for each key; repeats have the same id."""
    ids = list(heard)
    firsts = list(dict.fromkeys(ids))
    places = {event.id: event.position or 0 for event in written}
    in_order = True
    for key in {event.key for event in written}:
        own = {event.id for event in written if event.key == key}
        order = [places[id_] for id_ in firsts if id_ in own]
        in_order = in_order and order == sorted(order)
    known = sum(id_ in places for id_ in firsts)
    return Verdict(who, len(written), known, len(ids) - len(firsts), in_order, exactly_once)


def keep_books(database: str) -> None:
    """Needs only PostgreSQL: its rows and its position in the log commit together."""
    with Duebook(database) as book:

        @book.events.consumer(TOPIC, group="bookkeeping")
        def note(event: Event, connection: Any) -> None:
            row = (event.id, event.data["due"])
            connection.execute("INSERT INTO stocktakings (event, due) VALUES (%s, %s)", row)

        book.events.serve()


class Story:
    """Runs the example; `begin` starts one of the nodes, one of which leads."""

    def __init__(self, database: str, kafka: Kafka, begin: Callable[[], object]) -> None:
        self._database = database
        self._kafka = kafka
        self._begin = begin
        self._began = time.monotonic()

    def tell(self) -> list[Verdict]:
        with Duebook(self._database) as book, ExitStack() as ending:
            with psycopg.connect(self._database) as connection:
                connection.execute(TABLE)
            servers = self._kafka.servers
            book.events.add_sink("bus", "kafka", TOPIC, servers=servers, start="beginning")
            self._heard = self._kafka.consume(TOPIC)
            words = [sys.executable, "-m", "examples.event_story", "--keep-books", self._database]
            keeper = ending.enter_context(subprocess.Popen(words))  # noqa: S603
            ending.callback(keeper.terminate)
            for _ in range(3):
                self._begin()
            leader, *others = self._wait(lambda: self._three(book), 60)
            self._say(f"node {leader} is the leader, nodes {others[0]} and {others[1]} follow")
            names = self._add_schedules(book)
            self._wait(lambda: self._noted() >= BEFORE and self._told() >= BEFORE, 60)
            self._say(f"{self._noted()} events are in the table, Kafka has {self._told()}")
            os.kill(leader, signal.SIGKILL)
            self._say(f"node {leader} has been killed")
            heir = self._wait(lambda: {*self._leaders(book)} - {leader}, 90).pop()
            self._say(f"node {heir} is the leader now, and catches up")
            wanted = self._noted() + AFTER
            self._wait(lambda: self._noted() >= wanted, 120)
            for name in names:
                book.schedules.pause(name)
            book.events.publish(CLOSED, {}, key="all")  # every event precedes it in the log
            self._wait(lambda: book.events.list(CLOSED), 90)
            written = book.events.list(TOPIC, limit=1_000)
            self._say(f"the shops close; {len(written)} events were written")
            self._wait(lambda: min(self._noted(), self._told()) >= len(written), 90)
            ids = [message["headers"]["ce_id"] for message in messages(self._heard)]
            return [
                judge("Kafka", written, ids, exactly_once=False),
                judge("PostgreSQL", written, self._table(), exactly_once=True),
            ]

    def _add_schedules(self, book: Duebook) -> list[str]:
        names = [f"stocktaking-{number}" for number in range(1, SHOPS + 1)]
        event = {"topic": TOPIC, "type": "due", "data": {"due": "{{ due_at }}"}}
        for name in names:
            book.schedules.create(
                name,
                frequency_unit="SECONDS",
                frequency_time=1,
                target={"event": event},
                catchup="all",
            )
        self._say(f"{SHOPS} shops take stock every second")
        return names

    def _three(self, book: Duebook) -> list[int]:
        """The three processes, the leader first; empty while any is missing."""
        nodes = sorted(book.nodes.list(), key=lambda node: not node.leads)
        return [node.pid for node in nodes] if len(nodes) == 3 and nodes[0].leads else []

    def _leaders(self, book: Duebook) -> list[int]:
        """The process that leads, if any."""
        return [node.pid for node in book.nodes.list() if node.leads]

    def _table(self) -> list[str]:
        with psycopg.connect(self._database) as connection:
            rows = connection.execute("SELECT event FROM stocktakings ORDER BY place").fetchall()
        return [event for (event,) in rows]

    def _noted(self) -> int:
        return len(self._table())

    def _told(self) -> int:
        return len({message["headers"]["ce_id"] for message in messages(self._heard)})

    def _wait(self, condition: Callable[[], T], seconds: float) -> T:
        """Wait until `condition` returns something true, and return it."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > deadline:
                sys.exit(f"the example stopped: nothing new for {seconds:.0f} seconds")
            time.sleep(0.1)
        return value

    def _say(self, words: str) -> None:
        print(f"{time.monotonic() - self._began:5.1f} s  {words}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--database", metavar="URL", help="an empty PostgreSQL database")
    parser.add_argument("--keep-books", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.keep_books:
        keep_books(options.keep_books)
        return
    with ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))
        database = options.database
        if database is None:
            database = ending.enter_context(closing(Server())).url("postgres")
        kafka = ending.enter_context(closing(Kafka(folder)))

        def begin() -> None:
            words = [sys.executable, "-m", "duebook", "--database", database, *NODE]
            log = ending.enter_context((folder / "log").open("ab"))
            process = ending.enter_context(subprocess.Popen(words, stdout=log, stderr=log))  # noqa: S603
            ending.callback(process.terminate)

        verdicts = Story(database, kafka, begin).tell()
    print(f"\n{'':12}{'events':>8}{'received':>10}{'again':>8}   order of each key")
    for verdict in verdicts:
        numbers = f"{verdict.written:>8}{verdict.heard:>10}{verdict.again:>8}"
        print(f"{verdict.who:12}{numbers}   {'kept' if verdict.in_order else 'BROKEN'}")
    holds = all(verdict.holds for verdict in verdicts)
    print("both received every event, once for each id" if holds else "SOMETHING IS WRONG")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()

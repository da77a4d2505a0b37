"""The database moves from a file to PostgreSQL during operation, with a program's own table: nodes
are killed on both sides, and so is the copy itself, at random moments.

A program writes its table and an event in one transaction, first to the file and then to
PostgreSQL. In the end each row has its event and each event its row, what was acknowledged exists,
and the flaky receiver of a webhook has got every event, in the order of its key. A task
settles its runs in its own transactions meanwhile: each that succeeded has one row, no other has.
"""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final

import psycopg

from duebook.book import Book
from duebook.store.opening import open_store
from tests.chaos.fleet import EVERY, LEASE, LOAD
from tests.chaos.onlookers import Onlooker
from tests.chaos.receiver import RELAYING, Receiver
from tests.support.nodes import World
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.chaos.fleet import Fleet
    from tests.support.nodes import NodeProcess

NAMES: Final = ("all-1", "cron", "queue", "skip", "failing")
SELL: Final = "sell"
TILL: Final[dict[str, Any]] = {**RELAYING, "app": "tests.chaos.till:book"}
TOPIC: Final = "shop.orders"
KEYS: Final = 5
NODES: Final = 2
WORDS: Final = ("stays in", "waiting up to", "copied", "copied runs", "copied your table")
"""Messages of a copy, from the first one to the last."""
OWN: Final = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, price NUMERIC(8, 2));
CREATE INDEX orders_by_customer ON orders (customer);
CREATE TABLE sales (id INTEGER PRIMARY KEY, run TEXT NOT NULL);
CREATE TABLE drafts (id INTEGER PRIMARY KEY);
CREATE VIEW large AS SELECT * FROM orders WHERE price > 100;
"""


class Shop(Onlooker):
    """Takes one order after another: a row and an event, both or neither."""

    def __init__(self, path: Path, url: str) -> None:
        super().__init__(wait=0.05)
        self._url = url
        self._file = Book(open_store(str(path)))
        self._server = Book(open_store(url))
        self._path = path
        self.acknowledged: list[int] = []
        self.moved = threading.Event()

    def act(self) -> None:
        with suppress(sqlite3.OperationalError, psycopg.Error):  # busy, or unavailable for a moment
            if self.moved.is_set():
                self._order_in_postgres()
            else:
                self._order_in_file()

    def _order_in_file(self) -> None:
        with closing(sqlite3.connect(self._path, timeout=5)) as connection, connection:
            sql = "INSERT INTO orders (customer, price) VALUES (?, ?)"
            number = connection.execute(sql, (self._customer, 9.5)).lastrowid
            assert number is not None
            self._publish(self._file, number, connection)
        self.acknowledged.append(number)

    def _order_in_postgres(self) -> None:
        with psycopg.connect(self._url) as connection:
            sql = "INSERT INTO public.orders (customer, price) VALUES (%s, %s) RETURNING id"
            ((number,),) = connection.execute(sql, (self._customer, 9.5)).fetchall()
            self._publish(self._server, number, connection)
        self.acknowledged.append(number)

    @property
    def _customer(self) -> str:
        return f"customer-{len(self.acknowledged) % KEYS}"

    def _publish(self, book: Book, number: int, connection: Any) -> None:
        data = {"order": number}
        book.events.publish(TOPIC, data, key=self._customer, connection=connection)

    def end(self) -> None:
        super().end()
        self._file.close()
        self._server.close()

    def verdict(self) -> list[str]:
        """What is wrong with the table, judged by its rows and the events."""
        with psycopg.connect(self._url) as connection:
            rows = connection.execute("SELECT id, customer FROM public.orders").fetchall()
            events = connection.execute(
                "SELECT (data::json ->> 'order')::bigint, key FROM duebook.events"
            ).fetchall()
            sold = connection.execute("SELECT run FROM public.sales").fetchall()
            settled = connection.execute(
                "SELECT r.id FROM duebook.runs AS r JOIN duebook.schedules AS s"
                " ON s.id = r.schedule_id WHERE s.name = %s AND r.status = 'succeeded'",
                (SELL,),
            ).fetchall()
            kept = connection.execute("SELECT to_regclass('public.drafts')").fetchall()
        wrong = []
        if sorted(rows) != sorted(events):
            wrong.append(f"orders and events differ: {sorted(set(rows) ^ set(events))[:5]}")
        if lost := set(self.acknowledged) - {number for number, _ in rows}:
            wrong.append(f"{len(lost)} acknowledged orders are lost, such as {min(lost)}")
        if len(self.acknowledged) != len(set(self.acknowledged)):
            wrong.append("a number of an order was given out twice")
        if sorted(sold) != sorted(settled):
            wrong.append(f"sales and runs differ: {sorted({*sold} ^ {*settled})[:5]}")
        if not sold:
            wrong.append("nothing was sold")
        if kept != [(None,)]:
            wrong.append("drafts came along, and nobody named it")
        return [f"own table: {text}" for text in wrong]


class MoveStorm:
    """One move under kill -9; `told` gets a line for each fault."""

    def __init__(self, fleet: Fleet, number: int, told: Callable[[str], None]) -> None:
        self._fleet, self._chance, self._told = fleet, Random(number), told
        self._old = World(fleet.world.folder)
        self._receiver = Receiver(Random(number + 1))
        self._pause = threading.Event()

    def blow(self, kills: int) -> list[str]:
        """Kill the copy this many times before it may finish; then let everything heal."""
        self._began = time.monotonic()
        try:
            return self._blow(kills)
        finally:
            self._receiver.close()
            self._old.close()

    def _blow(self, kills: int) -> list[str]:
        fleet, old = self._fleet, self._old
        for name in NAMES:
            shell, definition = LOAD[name]
            old.add(name, shell, **definition)
        often: dict[str, Any] = {"trigger": {"every": "1s"}, "overlap": "allow", **EVERY}
        old.book.schedules.create(SELL, target=SELL, **often)
        self._receiver.listen(old.book, TOPIC)
        with closing(sqlite3.connect(old.path)) as connection:
            connection.executescript(OWN)
        shop = Shop(old.path, fleet.url)
        nodes = [old.node(lease=LEASE, **TILL) for _ in range(NODES)]
        waiting = fleet.node(**TILL)
        shop.start()
        with fleet.fault("move"):
            old.wait_for_more(NAMES[0], 2)
            self._kill_a_node(nodes)
            for _ in range(kills):
                if not self._kill_a_copy():
                    break
                self._kill_a_node(nodes)
            self._copy()
            shop.moved.set()
            for node in nodes:
                node.wait_end()
        self._tell("the books have moved")
        fleet.adopt((*NAMES, SELL))
        fleet.node(**TILL)
        fleet.wait_more(NAMES[0], 2)
        self._tell("a node at the new place is killed")
        waiting.process.end(signal.SIGKILL)
        fleet.wait_more(NAMES[0], 3)
        fleet.wait_more(SELL, 3)
        eventually(lambda: self._orders_since_the_move(shop))
        shop.end()
        return self._settle(shop)

    def _settle(self, shop: Shop) -> list[str]:
        fleet = self._fleet
        fleet.end_load()
        fleet.drain()
        self._receiver.wait_for_all(fleet.url)
        fleet.end()
        self._receiver.testify(fleet.seen)
        return [*fleet.verdict(), *shop.verdict()]

    def _orders_since_the_move(self, shop: Shop) -> bool:
        with psycopg.connect(self._fleet.url) as connection:
            rows = connection.execute("SELECT count(*) FROM public.orders").fetchall()
        return bool(rows[0][0] > self._carried) and bool(shop.acknowledged)

    def _tell(self, text: str) -> None:
        self._told(f"{time.monotonic() - self._began:6.1f} s  {text}")

    def _kill_a_node(self, nodes: list[NodeProcess]) -> None:
        self._tell("a node on the file is killed")
        place = self._chance.randrange(NODES)
        nodes[place].end(signal.SIGKILL)
        nodes[place] = self._old.start_node(lease=LEASE, **TILL)

    def _start_copy(self) -> NodeProcess:
        words = (
            "--with-table",
            "orders",
            "--with-table",
            "sales",
            "--wait",
            "1m",
            str(self._old.path),
            self._fleet.url,
        )
        return self._old.start("db", "copy", "--json", *words)

    def _kill_a_copy(self) -> bool:
        """Kill it while it waits for runs, fills the new database, or is about to commit; False if
        it was faster, and has ended."""
        word = self._chance.choice(WORDS)
        deadline = time.monotonic() + PATIENCE
        while True:
            copy = self._start_copy()
            eventually(lambda copy=copy: word in copy.log or copy.has_ended)  # type: ignore[misc]
            self._pause.wait(self._chance.uniform(0, 0.05))
            if not copy.has_ended or copy.wait_end() == 0:
                break
            self._check_failure(copy, deadline)
        self._tell(f'the copy is killed after it said "{word}"')
        return copy.end(signal.SIGKILL) != 0

    def _check_failure(self, copy: NodeProcess, deadline: float) -> None:
        """The previous copy may still count as active; nothing else may be wrong."""
        assert "is in progress" in copy.log, copy.log
        assert time.monotonic() < deadline, copy.log
        self._pause.wait(0.5)

    def _copy(self) -> None:
        """Run the copy again until it is done, as its message asks."""
        deadline = time.monotonic() + 2 * PATIENCE
        while True:
            copy = self._start_copy()
            if copy.wait_end() == 0:
                break
            self._check_failure(copy, deadline)
        with psycopg.connect(self._fleet.url) as connection:
            rows = connection.execute("SELECT count(*) FROM public.orders").fetchall()
        self._carried = int(rows[0][0])

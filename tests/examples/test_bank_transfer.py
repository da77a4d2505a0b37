"""The bank of the examples while workers are killed: no money is lost, no transfer is doubled.

What happened is read with SQL from the bank's own tables, which have no key that would help.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from duebook.book import Book
from examples import bank_transfer
from tests.support.nodes import DRIVER, LEASE, NodeProcess, World, is_stopped, open_world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ACCOUNTS = [f"account-{number}" for number in range(10)]
BALANCE = 1_000
WORKERS = 3
FEED = 40
"""Transfers asked for just before each kill, so that the workers have something in hand."""
TRIES = 100


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with open_world(tmp_path, url) as opened:
        yield opened


class Bank:
    """The example with its workers, and the account of what must have happened."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._chance = chance
        self._world = world
        self._books = "" if world.place == str(world.path) else "duebook."
        self._book = Book(world.book.store, tasks=bank_transfer.book.tasks)
        self._expected = dict.fromkeys(ACCOUNTS, BALANCE)
        self._asked = 0
        self._workers: list[NodeProcess] = []
        bank_transfer.open_accounts(world.place, ACCOUNTS, BALANCE)

    def hire(self) -> None:
        """A worker with a short lease; it goes to work when it has come."""
        options = {"lease": LEASE, "slots": 4, "app": "examples.bank_transfer:book"}
        argv = [sys.executable, str(DRIVER), self._world.place, json.dumps(options)]
        books = {"DUEBOOK_DATABASE_URL": self._world.place}
        self._workers.append(self._world._begin(argv, books))

    def ask(self, number: int) -> None:
        """For all of them in one transaction of the bank: the workers find them all at once."""
        with bank_transfer.bank(self._world.place).begin() as connection:
            for _ in range(number):
                source, target = self._chance.sample(ACCOUNTS, 2)
                order = {"number": self._asked, "source": source, "target": target}
                order["amount"] = amount = self._chance.randint(1, 500)
                self._book.enqueue(bank_transfer.transfer, order, connection=connection)
                self._asked += 1
                self._expected[source] -= amount
                self._expected[target] += amount

    def kill_one(self) -> None:
        """At a moment that nothing here has chosen: the only way to it is to let time pass.

        It is stopped there, and killed if it has something in hand; else it may go on for now.
        """
        worker = self._workers.pop(self._chance.randrange(len(self._workers))).wait_ready()
        for _ in range(TRIES):
            self.ask(FEED)
            threading.Event().wait(self._chance.uniform(0, 0.15))
            worker.send(signal.SIGSTOP)
            eventually(lambda: is_stopped(worker.pid))
            if self._is_at_work(worker):
                break
            worker.send(signal.SIGCONT)
        worker.end(signal.SIGKILL)

    def _is_at_work(self, worker: NodeProcess) -> bool:
        held = f"{self._books}runs AS r JOIN {self._books}node_sessions AS n ON n.id = r.session_id"
        of_worker = f"r.status = 'running' AND n.pid = {worker.pid}"
        ((number,),) = self._read(f"SELECT count(*) FROM {held} WHERE {of_worker}")  # noqa: S608
        return bool(number)

    def runs(self) -> dict[object, object]:
        """How many there are, by status."""
        query = f"SELECT status, count(*) FROM {self._books}runs GROUP BY status"  # noqa: S608
        return dict(self._read(query))

    def lost(self) -> int:
        """Attempts that ended with their worker."""
        lost = "run_attempts WHERE outcome = 'lost'"
        ((number,),) = self._read(f"SELECT count(*) FROM {self._books}{lost}")  # noqa: S608
        return int(number)

    def check(self) -> None:
        """Each transfer happened once, every account has what it must have, the books balance."""
        assert self.runs() == {"succeeded": self._asked}
        numbers = Counter(row[0] for row in self._read("SELECT number FROM transfers"))
        assert numbers == Counter(range(self._asked))
        assert dict(self._read("SELECT name, balance FROM accounts")) == self._expected
        assert self._read("SELECT sum(balance) FROM accounts") == [(BALANCE * len(ACCOUNTS),)]
        checked = self._world.cli("db", "check", timeout=120)
        assert checked.returncode == 0, checked.stdout + checked.stderr

    def _read(self, query: str) -> list[tuple[Any, ...]]:
        with bank_transfer.bank(self._world.place).connect() as connection:
            return [tuple(row) for row in connection.execute(text(query))]


def work_through(world: World, kills: int, number: int) -> None:
    bank = Bank(world, random.Random(number))
    for _ in range(WORKERS):
        bank.hire()
    for _ in range(kills):
        bank.kill_one()
        bank.hire()
    eventually(lambda: bank.runs().keys() <= {"succeeded", "failed", "cancelled"}, 120)
    assert bank.lost() >= kills / 2, "the kills did not meet the work"
    bank.check()


def test_transfers_happen_once_while_workers_are_killed(world: World) -> None:
    work_through(world, kills=4, number=1)


@pytest.mark.kills
@pytest.mark.parametrize("number", range(5))
def test_transfers_happen_once_through_many_kills(world: World, number: int) -> None:
    """On both stores together, 200 workers are killed."""
    work_through(world, kills=20, number=number)

"""Several nodes on one PostgreSQL: one is killed, one is stopped, the server crashes, the books
balance; and nodes whose clocks are wrong fire by the database's."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.engine.node import Node, NodeOptions
from duebook.store.postgres import PostgresStore
from duebook.targets.spawner import Spawner
from tests.support.clock_files import set_clock
from tests.support.node_checks import add_seconds, check_books
from tests.support.nodes import LEASE, open_world
from tests.support.postgres import Server
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECOND = timedelta(seconds=1)
TIMED = ("late:10m", "running:1h", "slow", "no_success:26h", "unattended")
"""Conditions of alert rules that follow from time."""


@pytest.fixture
def server() -> Iterator[Server]:
    """One of its own, as durable as in production, to be crashed."""
    opened = Server(durable=True)
    yield opened
    opened.close()


def test_the_books_balance_after_a_kill_a_stop_and_a_crash_of_the_server(
    tmp_path: Path, server: Server
) -> None:
    with server.database("template0") as url, open_world(tmp_path, url) as world:
        names = [f"s{n}" for n in range(4)]
        for name in names:
            add_seconds(world, name)
        killed, stopped, _ = (world.node(lease=LEASE) for _ in range(3))
        world.wait_for_more("s0", 3)
        killed.end(signal.SIGKILL)
        world.wait_for_more("s1", 2)
        stopped.send(signal.SIGSTOP)
        world.wait_for_more("s2", int(2 * LEASE) + 1)
        server.stop(signal.SIGQUIT)
        server.start()
        stopped.send(signal.SIGCONT)
        world.wait_for_more("s3", int(2 * LEASE) + 2)
        check_books(world, names)


def test_nodes_whose_clocks_are_wrong_by_an_hour_fire_by_the_databases(
    tmp_path: Path, postgres_url: str
) -> None:
    with open_world(tmp_path, postgres_url) as world:
        add_seconds(world, "job")
        for shift in (-3600, 3600):
            clock = tmp_path / f"clock{shift}"
            set_clock(clock, shift)
            world.node(clock=str(clock))
        world.wait_for_more("job", 6)
        for evidence in world.evidence("start", "job"):
            assert evidence.at >= evidence.due, "nothing starts before it is due"
            assert evidence.at - evidence.due < 1800, "by no clock that is an hour behind"
        check_books(world, ["job"])


@pytest.mark.parametrize("rules", [(), TIMED], ids=["without rules", "with rules"])
def test_a_node_at_rest_asks_for_its_pulse_and_for_nothing_else(
    postgres_url: str, rules: tuple[str, ...]
) -> None:
    points: list[str] = []
    store = PostgresStore(postgres_url, hook=points.append)
    with closing(store), closing(Spawner()) as spawner:
        for number, condition in enumerate(rules):
            alerts = Book(store, f"n{number}").alerts
            alerts.save("ops", to="https://hooks.example.com/x", on=condition)
        spawner.start()
        node = Node(store, spawner, NodeOptions(lease=3 * SECOND))
        thread = threading.Thread(target=node.run)
        thread.start()
        try:
            eventually(lambda: points[-8:] == ["before:renew_all", "after:renew_all"] * 4)
        finally:
            node.stop()
            thread.join(PATIENCE)

"""Several nodes on one PostgreSQL: one is killed, one is stopped, the server crashes, the books
balance; and nodes whose clocks are wrong fire by the database's."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.engine.node import Node, NodeOptions
from duebook.store.postgres import PostgresStore
from duebook.targets.spawner import Spawner
from tests.integration.nodes import LEASE, QUICK, World, open_world
from tests.postgres import Server
from tests.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECOND = timedelta(seconds=1)


@pytest.fixture
def server() -> Iterator[Server]:
    """One of its own, as durable as in production, to be crashed."""
    opened = Server(durable=True)
    yield opened
    opened.close()


def add_seconds(world: World, name: str) -> None:
    every_second = {"trigger": {"every": "1s"}, "overlap": "allow", "grace": "1s"}
    world.add(name, QUICK, catchup="all", catchup_pace="0s", **every_second)


def check_books(world: World, names: list[str]) -> None:
    """Every second from the first to the last has one run, and its command was executed."""
    world.come_to_rest(names)
    for name in names:
        runs = world.book.runs.list(name, limit=1_000)
        due = sorted(run.due_at for run in runs if run.due_at)
        expected: list[datetime] = [due[0] + n * SECOND for n in range(len(due))]
        assert due == expected, "none is missing and none is there twice"
        assert {run.status for run in runs} == {"succeeded"}
        assert set(world.dues(name)) == {at.timestamp() for at in due}
        attempts = Counter((e.run, e.attempt) for e in world.evidence("start", name))
        assert set(attempts.values()) == {1}, "no attempt begins twice"
        assert world.book.schedules.ledger(name) == []
    checked = world.cli("db", "check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


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
            clock.write_text(str(shift))
            world.node(clock=str(clock))
        world.wait_for_more("job", 6)
        for evidence in world.evidence("start", "job"):
            assert evidence.at >= evidence.due, "nothing starts before it is due"
            assert evidence.at - evidence.due < 1800, "by no clock that is an hour behind"
        check_books(world, ["job"])


def test_a_node_at_rest_asks_for_its_pulse_and_for_nothing_else(postgres_url: str) -> None:
    points: list[str] = []
    store = PostgresStore(postgres_url, hook=points.append)
    with closing(store), closing(Spawner()) as spawner:
        spawner.start()
        node = Node(store, spawner, NodeOptions(lease=3 * SECOND))
        thread = threading.Thread(target=node.run)
        thread.start()
        try:
            eventually(lambda: points[-8:] == ["before:renew_all", "after:renew_all"] * 4)
        finally:
            node.stop()
            thread.join(PATIENCE)

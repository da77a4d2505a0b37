"""A node works on a file each second while its books are moved to PostgreSQL; nodes there go on.

The evidence that the commands write outside the books shows each due time once.
"""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg

from tests.support.nodes import HELD, LEASE, QUICK, World, open_world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

SECOND = timedelta(seconds=1)
EVERY_SECOND = {
    "trigger": {"every": "1s"},
    "overlap": "allow",
    "catchup": "all",
    "catchup_pace": "0s",
}


def test_each_second_runs_once_through_a_move(tmp_path: Path, postgres_url: str) -> None:
    names = ["a", "b", "c"]
    with open_world(tmp_path) as old, open_world(tmp_path, postgres_url) as new:
        for name in names:
            old.add(name, QUICK, **EVERY_SECOND)
        old.add("long", HELD)
        held = old.trigger("long")
        node = old.node()
        old.wait_evidence("start", "long")
        waiting = new.node(lease=LEASE)
        old.wait_for_more("a", 3)
        copy = old.start("db", "copy", str(old.path), postgres_url)
        eventually(lambda: "waiting" in copy.log and "long" in copy.log)
        old.go.touch()
        assert copy.wait_end() == 0, copy.log
        assert node.wait_end() != 0, "a node of the old books ends by itself"
        assert "was moved to the database" in node.log
        new.wait_for_more("a", 3)
        second = new.node(lease=LEASE)
        waiting.end(signal.SIGKILL)
        new.wait_for_more("b", 8)
        _check(new, names)
        assert new.status(held) == "succeeded"
        assert len(new.evidence("start", "long")) == 1
        assert second.end() == 0


def test_a_copy_that_is_killed_is_called_again_and_nothing_is_lost(
    tmp_path: Path, postgres_url: str
) -> None:
    names = ["a", "b"]
    with open_world(tmp_path) as old, open_world(tmp_path, postgres_url) as new:
        for name in names:
            old.add(name, QUICK, **EVERY_SECOND)
        with closing(sqlite3.connect(old.path)) as connection:
            connection.executescript(
                "CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (1), (7)"
            )
        node = old.node(lease=LEASE)
        old.wait_for_more("a", 3)
        words = ("db", "copy", "--with-table", "orders", str(old.path), postgres_url)
        killed = old.start(*words)
        eventually(lambda: "copied" in killed.log or killed.process.poll() is not None)
        killed.end(signal.SIGKILL)
        again = old.start(*words)
        assert again.wait_end() == 0, again.log
        assert node.wait_end() != 0
        new.node(lease=LEASE)
        new.wait_for_more("a", 3)
        _check(new, names)
        with psycopg.connect(postgres_url) as connection:
            rows = connection.execute("SELECT id FROM orders ORDER BY id").fetchall()
        assert rows == [(1,), (7,)]


def _check(world: World, names: list[str]) -> None:
    """From the first second to the last each ran once, and the books say the same."""
    world.come_to_rest(names)
    for name in names:
        runs = world.book.runs.list(name, limit=1_000)
        due = sorted(run.due_at for run in runs if run.due_at)
        assert due == [due[0] + n * SECOND for n in range(len(due))], "none is missing"
        assert world.book.schedules.ledger(name) == []
        assert {at.timestamp() for at in due} == world.dues(name).keys()
        lost = {run.due_at.timestamp() for run in runs if run.due_at and run.losses}
        twice = {at for at, number in world.dues(name).items() if number > 1}
        assert twice <= lost, "only what died with its node began again"
    checked = world.cli("db", "check")
    assert checked.returncode == 0, checked.stdout + checked.stderr

"""The writer: groups what waits, undoes only what fails, refuses after fork and close."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from duebook.errors import Unavailable
from duebook.store.sqlite import SqliteStore
from duebook.store.sqlite.connection import APPLICATION_ID
from duebook.store.sqlite.writer import MOST_IN_GROUP, Writer, open_writer
from tests.support.processes import in_a_child
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Gate:
    """Holds the writer inside an operation, so that others have to wait for the next group."""

    def __init__(self, writer: Writer) -> None:
        self._entered, self._open = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=writer.run, args=(self._operation,))
        self._thread.start()
        assert self._entered.wait(PATIENCE)

    def _operation(self, _: sqlite3.Connection) -> None:
        self._entered.set()
        assert self._open.wait(PATIENCE)

    def open(self) -> None:
        self._open.set()
        self._thread.join()


@pytest.fixture
def points() -> list[str]:
    return []


@pytest.fixture
def writer(path: Path, points: list[str]) -> Iterator[Writer]:
    made = open_writer(path, points.append)
    made.run(lambda connection: connection.execute(f"PRAGMA application_id = {APPLICATION_ID}"))
    made.run(lambda connection: connection.execute("CREATE TABLE t (a INTEGER UNIQUE)"))
    points.clear()
    yield made
    made.close()


def insert(number: int) -> Callable[[sqlite3.Connection], int]:
    def operation(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO t VALUES (?)", (number,))
        return number

    return operation


def numbers(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT a FROM t ORDER BY a")]


def submit_behind_a_gate(writer: Writer, operations: list[Callable[..., Any]]) -> list[Any]:
    """Results, or errors, of operations that all waited while another one was written."""
    gate = Gate(writer)
    with ThreadPoolExecutor(len(operations)) as pool:
        futures = [pool.submit(writer.run, operation) for operation in operations]
        while len(writer._waiting) < len(operations):
            pass
        gate.open()
        return [future.exception() or future.result() for future in futures]


def test_operations_that_wait_share_one_commit(
    writer: Writer, path: Path, points: list[str]
) -> None:
    assert submit_behind_a_gate(writer, [insert(n) for n in range(30)]) == list(range(30))
    assert numbers(path) == list(range(30))
    assert points.count("after:COMMIT") == 2  # the gate's own, and one for all


def test_a_group_is_bounded(writer: Writer, path: Path, points: list[str]) -> None:
    many = MOST_IN_GROUP + 1
    submit_behind_a_gate(writer, [insert(n) for n in range(many)])
    assert len(numbers(path)) == many
    assert points.count("after:COMMIT") == 3


def test_many_threads_write_without_losing_anything(writer: Writer, path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda n: writer.run(insert(n)), range(200)))
    assert results == numbers(path) == list(range(200))


def test_an_operation_that_fails_is_undone_and_its_neighbours_stay(
    writer: Writer, path: Path, points: list[str]
) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        insert(100)(connection)
        raise KeyError("mine")

    first, failed, doubled, last = submit_behind_a_gate(
        writer, [insert(1), fail, lambda c: (insert(101)(c), insert(101)(c)), insert(2)]
    )
    assert (first, last) == (1, 2)
    assert isinstance(failed, KeyError)
    assert isinstance(doubled, sqlite3.IntegrityError)
    assert numbers(path) == [1, 2]
    assert points.count("after:COMMIT") == 2


def test_a_result_is_there_only_when_it_is_durable(path: Path) -> None:
    class Stop(BaseException):
        pass

    armed = False

    def hook(name: str) -> None:
        if armed and name == "before:COMMIT":
            raise Stop

    writer = open_writer(path, hook)
    writer.run(lambda connection: connection.execute("CREATE TABLE t (a INTEGER UNIQUE)"))
    armed = True
    with pytest.raises(Stop):
        writer.run(insert(1))
    armed = False
    assert numbers(path) == []
    assert writer.run(insert(2)) == 2
    writer.close()
    assert numbers(path) == [2]


def test_two_writers_take_turns(writer: Writer, path: Path) -> None:
    other = open_writer(path, None)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: (writer, other)[n % 2].run(insert(n)), range(60)))
    other.close()
    assert numbers(path) == list(range(60))


def test_what_waits_is_written_before_the_writer_closes(path: Path) -> None:
    writer = open_writer(path, None)
    writer.run(lambda connection: connection.execute("CREATE TABLE t (a INTEGER UNIQUE)"))
    gate = Gate(writer)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(writer.run, insert(7))
        while not writer._waiting:
            pass
        closing_ = pool.submit(writer.close)
        while not writer._closed:
            pass
        gate.open()
        assert waiting.result(PATIENCE) == 7
        closing_.result(PATIENCE)
    assert numbers(path) == [7]


# -- refusals


def test_a_closed_writer_refuses(path: Path) -> None:
    writer = open_writer(path, None)
    writer.close()
    with pytest.raises(Unavailable, match="closed"):
        writer.run(lambda _: None)


def test_a_closed_store_refuses_to_write_and_to_read(path: Path) -> None:
    store = SqliteStore(path)
    store.read(lambda tx: tx.now)
    store.close()
    with pytest.raises(Unavailable, match="closed"):
        store.transact(lambda tx: tx.now)
    with pytest.raises(Unavailable, match="closed"):
        store.read(lambda tx: tx.now)
    with pytest.raises(Unavailable, match="closed"):
        store.news(0)


def test_a_closed_store_does_not_open_itself_again_in_another_thread(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(store.read, lambda tx: tx.now).exception()
    for reader in store._open:
        reader.connection.close()
    assert isinstance(error, Unavailable)


def test_closing_twice_is_harmless(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    store.close()


def test_a_store_refuses_to_write_after_a_fork(store: SqliteStore) -> None:
    assert in_a_child(lambda: store.transact(lambda tx: tx.now)).startswith("Unavailable: ")
    store.transact(lambda tx: tx.now)


def test_a_store_refuses_to_read_after_a_fork(store: SqliteStore) -> None:
    store.read(lambda tx: tx.now)
    assert in_a_child(lambda: store.read(lambda tx: tx.now)).startswith("Unavailable: ")
    assert in_a_child(lambda: store.news(0)).startswith("Unavailable: ")
    store.read(lambda tx: tx.now)

"""A database in the memory of a process: who shares it, and what it refuses."""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from duebook import Duebook
from duebook.book import Book
from duebook.errors import Invalid, Unavailable
from duebook.store.opening import open_beside, open_store, place_of
from duebook.store.sqlite.memory import MemoryStore
from tests.support.processes import in_a_child
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.store.base import Store, Tx


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with closing(MemoryStore()) as opened:
        yield opened


def add(store: MemoryStore, name: str = "job") -> None:
    Book(store).schedules.create(name, trigger={"cron": "@daily"}, target={"command": ["true"]})


def names(store: MemoryStore) -> list[str]:
    return [schedule.name for schedule in Book(store).schedules.list()]


def quiet(store: Store) -> bool:
    return not store.news(0)


def test_each_database_without_a_name_is_its_own() -> None:
    with closing(open_store("memory://")) as one, closing(open_store("memory://")) as other:
        add(one)  # type: ignore[arg-type]
        assert names(other) == []  # type: ignore[arg-type]


def test_a_name_is_shared_in_the_process_until_the_last_store_closes() -> None:
    with Duebook("memory://shop") as one, Duebook("memory://shop") as other:
        one.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
        assert other.schedules.get("job").name == "job"
        one.close()
        assert other.schedules.get("job").name == "job"
    with Duebook("memory://shop") as later:
        assert later.schedules.list() == []


def test_another_store_on_it_hears_of_news_by_itself(store: MemoryStore) -> None:
    with closing(open_beside(store, "memory://")) as other:
        for one in (store, other):
            eventually(partial(quiet, one))
        add(store)
        assert (bool(store.news(1)), bool(other.news(1))) == (True, True)
        assert (bool(store.news(0)), bool(other.news(0))) == (False, False)


def test_threads_take_turns(store: MemoryStore) -> None:
    add(store, "first")

    def work(number: int) -> None:
        for step in range(5):
            add(store, f"job-{number}-{step}")
            assert "first" in names(store)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names(store)) == 21


def test_a_read_inside_a_transaction_sees_what_that_has_written(store: MemoryStore) -> None:
    def work(tx: Tx) -> int:
        tx.access.get_secret("cursors")
        return len(store.cursor_key())

    assert store.transact(work) == 32


def test_a_transaction_inside_another_is_an_error_and_not_a_deadlock(store: MemoryStore) -> None:
    for outer in (store.read, store.transact):
        with pytest.raises(RuntimeError, match="started inside another one"):
            outer(lambda _: store.transact(lambda tx: tx.now))
    assert names(store) == []


def test_a_read_writes_nothing(store: MemoryStore) -> None:
    high_water = "SELECT value FROM meta WHERE key = 'high_water_at'"
    before = store.memory.connection.execute(high_water).fetchall()
    with pytest.raises(Unavailable, match="cannot be written: this is a read"):
        store.read(lambda tx: tx.db.run("write_high_water", now=tx.now))
    assert store.memory.connection.execute(high_water).fetchall() == before


def test_a_fork_is_refused_with_the_reason(store: MemoryStore) -> None:
    for use in (store.read, store.transact):
        told = in_a_child(partial(use, lambda tx: tx.now))
        assert told.startswith("Unavailable: memory:// is in the memory of the process that opened")


def test_connections_of_others_are_refused_with_the_reason(store: MemoryStore) -> None:
    told = "the database is in memory, and no other connection can reach it"
    with pytest.raises(Invalid, match=told):
        Book(store).enqueue("task", connection=object())
    with pytest.raises(Invalid, match=told):
        store.connect()


def test_what_is_closed_stays_closed(store: MemoryStore) -> None:
    store.close()
    store.close()
    for use in (store.read, store.transact):
        with pytest.raises(Unavailable, match="memory:// is closed"):
            use(lambda tx: tx.now)


def test_a_name_is_a_name() -> None:
    with pytest.raises(Invalid, match="memory://NAME"):
        Duebook("memory://My Shop")
    assert place_of("memory://shop") == "memory://shop"


def test_the_process_of_a_task_cannot_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from duebook import app

    monkeypatch.setattr(app, "is_task_process", lambda: True)
    with Duebook("memory://") as book, pytest.raises(Invalid, match="runs in another process"):
        book.schedules.list()


def test_a_wait_for_a_run_ends_with_it() -> None:
    with Duebook("memory://") as book:

        @book.task
        def add(a: int, b: int) -> int:
            return a + b

        with book.running():
            run = book.enqueue(add, {"a": 40, "b": 2})
            assert run.wait("1m").output == 42


def test_the_hint_that_a_run_may_have_ended_changes_with_each_write(store: MemoryStore) -> None:
    before = store.wait_for_ends(0, 0)
    assert store.wait_for_ends(before, 0) == before
    add(store)
    assert store.wait_for_ends(before, 0) != before

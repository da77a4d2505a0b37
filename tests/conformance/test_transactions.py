"""Transactions and their time: one `now` each, never backwards; readers cannot write."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from duebook.errors import DuebookError
from duebook.store.values import News
from tests.support.backends import not_in_memory
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    get_runs,
    list_all,
    make_spec,
    tick,
)
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.store.base import Store, Tx
    from tests.support.backends import Backend


def now_of_write(store: Store) -> datetime:
    return store.transact(lambda tx: tx.now)


def now_of_read(store: Store) -> datetime:
    return store.read(lambda tx: tx.now)


def test_now_is_the_same_in_the_whole_transaction(store: Store, clock: VirtualClock) -> None:
    def work(tx: Tx) -> tuple[datetime, datetime]:
        before = tx.now
        clock.advance(MINUTE)
        return before, tx.now

    assert store.transact(work) == (BEGIN, BEGIN)
    assert store.read(work) == (BEGIN + MINUTE, BEGIN + MINUTE)


def test_a_clock_set_back_fires_nothing_twice(backend: Backend, clock: VirtualClock) -> None:
    store = backend.open()
    add_schedule(store, overlap="allow")
    for _ in range(3):
        clock.advance(MINUTE)
        assert tick(store) == 1
    clock.advance(-3 * MINUTE)
    store.close()
    again = backend.open()
    for _ in range(3):
        clock.advance(MINUTE)
        assert tick(again) == 0
    clock.advance(MINUTE)
    assert tick(again) == 1
    assert len(get_runs(again)) == 4
    assert backend.rows("SELECT count(*) FROM ledger") == [(0,)]


def test_a_read_transaction_cannot_write(store: Store, clock: VirtualClock) -> None:
    schedule_id = add_schedule(store)
    clock.advance(MINUTE)
    with pytest.raises(DuebookError):
        store.read(lambda tx: tx.runs.create_run(tx.plans.snapshot(schedule_id), "x", None))
    assert get_runs(store) == []
    assert tick(store) == 1


def test_a_read_transaction_sees_one_consistent_view(backend: Backend) -> None:
    not_in_memory(backend)
    reader, writer = backend.open(), backend.open()
    add_schedule(writer, "first")

    def work(tx: Tx) -> tuple[int, int]:
        before = len(list_all(tx))
        add_schedule(writer, "second")
        return before, len(list_all(tx))

    assert reader.read(work) == (1, 1)
    assert len(reader.read(list_all)) == 2


def test_a_transaction_sees_what_it_wrote(store: Store) -> None:
    def work(tx: Tx) -> str:
        tx.schedules.create_schedule("an-id", "default", "job", make_spec(), None, None, "")
        return tx.schedules.find_schedule("default", "job")

    assert store.transact(work) == "an-id"


def test_a_reader_that_raises_leaves_the_store_usable(store: Store) -> None:
    def work(tx: Tx) -> None:
        raise KeyError(tx.now)

    with pytest.raises(KeyError):
        store.read(work)
    assert now_of_read(store) == BEGIN


def test_what_was_acknowledged_is_there_after_a_reopening(backend: Backend) -> None:
    first = backend.open()
    schedule_id = add_schedule(first)
    first.close()
    found = backend.open().read(lambda tx: tx.schedules.find_schedule("default", "job"))
    assert found == schedule_id


def listen(store: Store) -> None:
    """Listen from now on: a new listener is first told that anything may have happened before."""
    eventually(lambda: store.news(0.1))


def test_there_is_news_soon_after_anybody_gave_others_something_to_do(
    backend: Backend, clock: VirtualClock
) -> None:
    here, there = backend.open(), backend.open()
    listen(here)
    assert not here.news(0)
    add_schedule(there, "elsewhere")
    assert News.WAKE in eventually(lambda: here.news(0.1))
    add_schedule(here, "own")
    assert News.WAKE in eventually(lambda: here.news(0.1))
    now_of_read(there)
    clock.advance(SECOND)
    assert not here.news(0)


def test_news_are_heard_by_whichever_thread_asks_next(backend: Backend) -> None:
    here, there = backend.open(), backend.open()
    listen(here)
    for number in range(5):
        add_run(there, add_schedule(there, f"job-{number}"))
        with ThreadPoolExecutor(1) as another:
            heard = another.submit(lambda: eventually(lambda: here.news(0.1)))
            assert heard.result()


def test_who_waits_for_news_is_woken_by_them(backend: Backend) -> None:
    here, there = backend.open(), backend.open()
    listen(here)
    heard: SimpleQueue[News] = SimpleQueue()
    waiting = threading.Thread(target=lambda: heard.put(here.news(PATIENCE)))
    waiting.start()
    add_run(there, add_schedule(there))
    assert heard.get()
    waiting.join()

"""Transactions and their time: one `now` each, never backwards; readers cannot write."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.errors import DuebookError
from tests.conformance.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    add_schedule,
    begin,
    get_runs,
    make_spec,
    tick,
)

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.store.base import Store, Tx
    from tests.conformance.conftest import Backend


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


def test_now_does_not_run_back_with_the_clock(store: Store, clock: VirtualClock) -> None:
    clock.advance(timedelta(hours=1))
    latest = now_of_write(store)
    clock.advance(-timedelta(hours=2))
    assert now_of_write(store) == latest
    assert now_of_read(store) == latest
    clock.advance(timedelta(hours=3))
    assert now_of_write(store) == latest + timedelta(hours=1)


def test_now_does_not_run_back_across_a_reopening(backend: Backend, clock: VirtualClock) -> None:
    first = backend.open()
    latest = now_of_write(first)
    first.close()
    clock.advance(-timedelta(hours=2))
    second = backend.open()
    assert now_of_read(second) == now_of_write(second) == latest


def test_now_does_not_run_back_for_another_store(backend: Backend, clock: VirtualClock) -> None:
    ahead, behind = backend.open(), backend.open()
    clock.advance(MINUTE)
    latest = now_of_write(ahead)
    clock.advance(-MINUTE)
    assert now_of_write(behind) == latest


def test_now_does_not_run_back_behind_what_a_reader_saw(store: Store, clock: VirtualClock) -> None:
    clock.advance(MINUTE)
    seen = now_of_read(store)
    clock.advance(-MINUTE)
    assert now_of_read(store) >= seen
    assert now_of_write(store) >= seen


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


def test_a_clock_set_back_is_noticed_until_it_has_caught_up(
    backend: Backend, clock: VirtualClock
) -> None:
    store = backend.open()
    now_of_write(store)
    clock.advance(-MINUTE)
    for where in (store, backend.open()):
        assert where.read(lambda tx: tx.behind) == MINUTE
        (problem,) = where.read(lambda tx: tx.check())
        assert "clock is 0:01:00 behind the latest time on the books" in problem
    clock.advance(MINUTE)
    assert store.read(lambda tx: tx.check()) == []


def test_a_clock_set_back_does_not_prolong_a_lease(store: Store, clock: VirtualClock) -> None:
    begin(store, lease=MINUTE)
    clock.advance(MINUTE)
    now_of_write(store)
    clock.advance(-MINUTE)
    assert store.transact(lambda tx: tx.bury()) == ["node-1"]


def test_a_read_transaction_cannot_write(store: Store, clock: VirtualClock) -> None:
    schedule_id = add_schedule(store)
    clock.advance(MINUTE)
    with pytest.raises(DuebookError):
        store.read(lambda tx: tx.create_run(tx.snapshot(schedule_id), "x", None))
    assert get_runs(store) == []
    assert tick(store) == 1


def test_a_read_transaction_sees_one_consistent_view(backend: Backend) -> None:
    reader, writer = backend.open(), backend.open()
    add_schedule(writer, "first")

    def work(tx: Tx) -> tuple[int, int]:
        before = len(tx.list_schedules("default", "", 10))
        add_schedule(writer, "second")
        return before, len(tx.list_schedules("default", "", 10))

    assert reader.read(work) == (1, 1)
    assert len(reader.read(lambda tx: tx.list_schedules("default", "", 10))) == 2


def test_a_transaction_sees_what_it_wrote(store: Store) -> None:
    def work(tx: Tx) -> str:
        tx.create_schedule("an-id", "default", "job", make_spec(), None, None, "")
        return tx.find_schedule("default", "job")

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
    found = backend.open().read(lambda tx: tx.find_schedule("default", "job"))
    assert found == schedule_id


def test_changed_differs_after_anybody_committed(backend: Backend, clock: VirtualClock) -> None:
    here, there = backend.open(), backend.open()
    seen = [here.changed()]
    assert here.changed() == seen[0]
    add_schedule(there, "elsewhere")
    seen.append(here.changed())
    add_schedule(here, "own")
    seen.append(here.changed())
    assert len(set(seen)) == 3
    now_of_read(there)
    clock.advance(SECOND)
    assert here.changed() == seen[-1]

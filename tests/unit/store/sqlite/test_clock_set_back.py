"""SQLite has no clock of its own: the file keeps the machine's from running backwards."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.backends import SqliteBackend
from tests.support.builders import MINUTE, VirtualClock, begin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from duebook.store.base import Store
    from tests.support.backends import Backend


@pytest.fixture
def backend(path: Path, clock: VirtualClock) -> Iterator[Backend]:
    made = SqliteBackend(path, clock)
    yield made
    made.close()


def now_of_write(store: Store) -> datetime:
    return store.transact(lambda tx: tx.now)


def now_of_read(store: Store) -> datetime:
    return store.read(lambda tx: tx.now)


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


def test_a_clock_set_back_is_noticed_until_it_has_caught_up(
    backend: Backend, clock: VirtualClock
) -> None:
    store = backend.open()
    now_of_write(store)
    clock.advance(-MINUTE)
    for where in (store, backend.open()):
        assert where.read(lambda tx: tx.behind) == MINUTE
        (problem,) = where.read(lambda tx: tx.checks.check())
        assert "clock is 0:01:00 behind the latest time in the database" in problem.text
    clock.advance(MINUTE)
    assert store.read(lambda tx: tx.checks.check()) == []


def test_a_clock_set_back_does_not_prolong_a_lease(store: Store, clock: VirtualClock) -> None:
    begin(store, lease=MINUTE)
    clock.advance(MINUTE)
    now_of_write(store)
    clock.advance(-MINUTE)
    assert store.transact(lambda tx: tx.nodes.bury()) == ["node-1"]

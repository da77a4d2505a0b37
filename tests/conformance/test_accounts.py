"""Reading runs and ledger entries of a time range, ranges that grow, sessions, and retention."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.balance import check_books
from duebook.errors import NotFound
from duebook.model.plan import Reason, Skip
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    get_ledger,
    get_runs,
    settle,
    tick,
)
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.book import Book
    from duebook.store.base import Store
    from tests.support.backends import Backend

LONG = timedelta(days=365)


def minute(number: int) -> datetime:
    return BEGIN + number * MINUTE


# -- runs and entries of a time range


def test_runs_of_a_stretch_come_in_order_both_ends_included(
    store: Store, clock: VirtualClock
) -> None:
    job = add_schedule(store, overlap="allow")
    for _ in range(5):
        clock.advance(MINUTE)
        tick(store)
    add_run(store, job)

    def found(first: int, last: int, limit: int = 100) -> list[datetime | None]:
        runs = store.read(lambda tx: tx.runs.list_runs_due(job, minute(first), minute(last), limit))
        return [run.due_at for run in runs]

    assert found(2, 4) == [minute(2), minute(3), minute(4)]
    assert found(0, 9, limit=2) == [minute(1), minute(2)]
    assert found(6, 9) == []


def test_entries_that_touch_a_stretch_come_in_order(store: Store, clock: VirtualClock) -> None:
    job = add_schedule(store)
    schedule = store.read(lambda tx: tx.schedules.get_schedule(job))
    skips = [
        Skip(minute(1), minute(4), 4, True, Reason.MISSED),
        Skip(minute(6), minute(6), 1, True, Reason.OVERLAP),
        Skip(minute(8), minute(9), 2, True, Reason.PAUSED),
    ]
    store.transact(lambda tx: tx.schedules.delete_schedules([(schedule, skips)]))
    assert clock.now == BEGIN

    def found(first: int, last: int, limit: int = 100) -> list[str]:
        entries = store.read(
            lambda tx: tx.ledger.list_ledger_between(job, minute(first), minute(last), limit)
        )
        return [entry.reason for entry in entries]

    assert found(0, 9) == ["missed", "overlap", "paused"]
    assert found(4, 6) == ["missed", "overlap"]
    assert found(2, 3) == ["missed"], "a range that only contains the stretch touches it"
    assert found(7, 7) == []
    assert found(0, 9, limit=1) == ["missed"]


# -- ranges that grow


def test_an_entry_goes_on_while_the_same_run_is_in_the_way(
    store: Store, clock: VirtualClock
) -> None:
    job = add_schedule(store)
    for number in range(1, 6):
        clock.advance(MINUTE)
        tick(store, session_id=f"node-{number}")
    (entry,) = get_ledger(store, job)
    assert (entry.due_from, entry.due_to, entry.count, entry.exact) == (
        minute(2),
        minute(5),
        4,
        True,
    )
    assert (entry.at, entry.session_id) == (minute(5), "node-5")


def test_another_run_in_the_way_begins_another_entry(store: Store, clock: VirtualClock) -> None:
    begin(store, lease=LONG)
    job = add_schedule(store)
    for number in range(1, 7):
        clock.advance(MINUTE)
        tick(store)
        if number == 3:
            settle(store, claim(store)[0].token)
    entries = sorted(get_ledger(store, job), key=lambda entry: entry.due_from)
    assert [(e.due_from, e.count) for e in entries] == [(minute(2), 2), (minute(5), 2)]


def test_another_version_begins_another_entry(book: Book, clock: VirtualClock) -> None:
    job = add_schedule(book.store)
    for number in range(1, 5):
        clock.advance(MINUTE)
        tick(book.store)
        if number == 3:
            book.schedules.update("job", priority=1)
    assert sorted((e.version, e.count) for e in get_ledger(book.store, job)) == [(1, 2), (2, 1)]


def test_an_entry_does_not_grow_over_a_due_time_that_ran(store: Store, clock: VirtualClock) -> None:
    job = add_schedule(store, catchup="skip", grace="0s")
    clock.advance(3 * MINUTE + SECOND)
    tick(store)
    clock.now = minute(4)
    tick(store)
    clock.now = minute(6) + SECOND
    tick(store)
    entries = sorted(get_ledger(store, job), key=lambda entry: entry.due_from)
    assert [(e.due_from, e.count, e.reason) for e in entries] == [
        (minute(1), 3, "missed"),
        (minute(5), 2, "missed"),
    ]


# -- sessions


def test_sessions_are_found_by_when_they_lived(store: Store, clock: VirtualClock) -> None:
    begin(store, "early", lease=MINUTE)
    clock.now = minute(2)
    store.transact(lambda tx: tx.nodes.end_session("early"))
    clock.now = minute(4)
    begin(store, "late", lease=LONG)
    clock.now = minute(6)
    store.transact(lambda tx: tx.nodes.renew("late", LONG))

    def found(first: int, last: int) -> list[str]:
        return [
            s.id for s in store.read(lambda tx: tx.nodes.list_sessions(minute(first), minute(last)))
        ]

    assert found(0, 9) == ["early", "late"]
    assert found(2, 3) == ["early"]
    assert found(3, 3) == []
    assert found(5, 5) == ["late"]
    early, late = store.read(lambda tx: tx.nodes.list_sessions(minute(0), minute(9)))
    assert (early.started_at, early.seen_at, early.ended_at) == (minute(0), minute(2), minute(2))
    assert (late.node, late.roles) == ("host-of-late", "worker")
    assert (late.seen_at, late.ended_at) == (minute(6), None)


def test_a_buried_session_was_last_seen_when_it_renewed(store: Store, clock: VirtualClock) -> None:
    begin(store, "lost", lease=MINUTE)
    clock.now = minute(5)
    store.transact(lambda tx: tx.nodes.bury())
    (lost,) = store.read(lambda tx: tx.nodes.list_sessions(minute(0), minute(9)))
    assert (lost.seen_at, lost.ended_at) == (minute(0), minute(5))


# -- deleted schedules


def test_a_deleted_schedule_is_found_by_its_name_when_asked_for(
    book: Book, clock: VirtualClock
) -> None:
    def find(name: str, deleted: bool) -> str:
        return book.store.read(
            lambda tx: tx.schedules.find_schedule("default", name, deleted=deleted)
        )

    first = add_schedule(book.store)
    book.schedules.delete("job")
    with pytest.raises(NotFound):
        find("job", deleted=False)
    assert find("job", deleted=True) == first
    clock.advance(SECOND)
    second = add_schedule(book.store)
    assert find("job", deleted=True) == second, "one that lives goes first"
    book.schedules.delete("job")
    assert find("job", deleted=True) == second, "then the one that had the name last"
    with pytest.raises(NotFound):
        find("nobody", deleted=True)
    assert find(first, deleted=True) == first


def test_the_history_of_a_deleted_schedule_is_readable_by_its_name(
    book: Book, clock: VirtualClock
) -> None:
    add_schedule(book.store, grace="30s")
    clock.advance(3 * MINUTE)
    tick(book.store)
    book.schedules.delete("job")
    assert len(book.schedules.ledger("job")) >= 1
    assert len(book.runs.list("job")) == 1


# -- retention


def test_sessions_that_ended_long_ago_are_forgotten(store: Store, clock: VirtualClock) -> None:
    begin(store, "old")
    store.transact(lambda tx: tx.nodes.end_session("old"))
    begin(store, "alive", lease=LONG)
    clock.advance(timedelta(days=2))
    yesterday = clock.now - timedelta(days=1)
    assert store.transact(lambda tx: purge_all(tx, yesterday, 100).number) == 1
    assert [s.id for s in store.read(lambda tx: tx.nodes.list_sessions(BEGIN, clock.now))] == [
        "alive"
    ]


def test_a_session_that_left_a_run_running_is_kept_until_it_is_taken_over(
    store: Store, clock: VirtualClock
) -> None:
    begin(store)
    add_run(store, add_schedule(store))
    assert claim(store)
    store.transact(lambda tx: tx.nodes.end_session("node-1"))
    clock.advance(timedelta(days=2))
    assert store.transact(lambda tx: purge_all(tx, clock.now, 100).number) == 0
    assert store.transact(lambda tx: tx.attempts.take_over(10)) == 1


def test_a_deleted_schedule_is_forgotten_once_its_history_is(
    book: Book, backend: Backend, clock: VirtualClock
) -> None:
    job = add_schedule(book.store)
    book.schedules.update("job", priority=3)
    clock.advance(MINUTE)
    tick(book.store)
    book.schedules.delete("job")
    later = clock.advance(timedelta(days=2))
    assert book.store.transact(lambda tx: purge_all(tx, BEGIN, 100).number) == 0
    assert book.store.transact(lambda tx: purge_all(tx, later, 1).number) == 1, "its run, then"
    assert book.store.transact(lambda tx: purge_all(tx, later, 100).number) == 3, (
        "two changes, and itself"
    )
    with pytest.raises(NotFound):
        book.store.read(lambda tx: tx.schedules.get_schedule(job))
    assert backend.rows("SELECT count(*) FROM schedule_revisions") == [(0,)]
    assert check_books(book.store, deep=True).balanced


def test_a_schedule_that_lives_is_never_forgotten(store: Store, clock: VirtualClock) -> None:
    add_schedule(store)
    clock.advance(LONG)
    assert store.transact(lambda tx: purge_all(tx, clock.now, 100).number) == 0


# -- a due time moved to the past


@pytest.mark.parametrize("catchup", ["skip", "one", "all"])
def test_a_due_time_moved_to_the_past_runs_at_once_wherever_the_watermark_is(
    book: Book, clock: VirtualClock, catchup: str
) -> None:
    add_schedule(book.store, trigger="0 * * * *", catchup=catchup)
    clock.advance(40 * MINUTE)
    book.schedules.reschedule("job", minute(20))
    (run,) = get_runs(book.store)
    assert (run.due_at, run.origin) == (minute(20), "schedule")

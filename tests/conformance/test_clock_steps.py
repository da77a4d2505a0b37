"""The database's clock steps back: nothing fires twice or too early, moved due times wait for
their time, and the check distinguishes broken promises from times that only look out of order.

A file keeps its clock from running backwards, so this is about PostgreSQL.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.balance import check_books
from duebook.engine.clock_watch import notice_since_last_seen
from duebook.engine.keeper import Keeper
from tests.support.backends import BACKENDS
from tests.support.builders import (
    BEGIN,
    LEASE,
    MINUTE,
    SECOND,
    VirtualClock,
    add_schedule,
    begin,
    claim,
    settle,
    tick,
)

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.store.base import Store
    from tests.support.backends import Backend

ON_POSTGRES = [kind for kind in BACKENDS if kind != "sqlite"]
pytestmark = pytest.mark.parametrize("backend", ON_POSTGRES, indirect=True)


def fired(book: Book, name: str = "job") -> list[datetime]:
    return sorted(run.due_at for run in book.runs.list(name) if run.due_at)


@pytest.fixture
def stepped(book: Book, clock: VirtualClock) -> Book:
    """Decided up to 12:10, then the clock steps back to 12:05."""
    add_schedule(book.store, overlap="allow", catchup="skip")
    clock.advance(10 * MINUTE)
    tick(book.store)
    clock.advance(-5 * MINUTE)
    return book


def test_a_due_time_is_moved_to_an_instant_that_is_still_to_come(
    stepped: Book, clock: VirtualClock
) -> None:
    before = fired(stepped)
    at = clock.now + 90 * SECOND
    moved = stepped.schedules.reschedule("job", at)
    assert moved.next_due_at == at
    assert stepped.schedules.preview("job", 2) == [at, BEGIN + 12 * MINUTE]
    assert fired(stepped) == before, "it fires at once, though it lies ahead"
    clock.advance(89 * SECOND)
    tick(stepped.store)
    assert fired(stepped) == before
    clock.advance(SECOND)
    tick(stepped.store)
    assert fired(stepped) == sorted([*before, at])
    clock.advance(10 * MINUTE)
    tick(stepped.store)
    assert stepped.schedules.exceptions("job") == []


def test_one_that_is_not_after_now_fires_at_once(stepped: Book, clock: VirtualClock) -> None:
    before = fired(stepped)
    at = clock.now - 30 * SECOND
    stepped.schedules.reschedule("job", at)
    assert fired(stepped) == sorted([*before, at])


def test_what_was_moved_there_can_be_moved_again_skipped_and_restored(
    stepped: Book, clock: VirtualClock
) -> None:
    before, at = fired(stepped), clock.now + 90 * SECOND
    stepped.schedules.reschedule("job", at)
    again = stepped.schedules.reschedule("job", at + SECOND, due_at=at)
    assert again.next_due_at == at + SECOND
    assert stepped.schedules.restore("job", BEGIN + 11 * MINUTE).next_due_at == BEGIN + 11 * MINUTE
    stepped.schedules.reschedule("job", at)
    schedule, skipped = stepped.schedules.skip_next("job")
    assert (schedule.next_due_at, skipped) == (BEGIN + 12 * MINUTE, at)
    assert [(e.reason, e.due_from) for e in stepped.schedules.ledger("job")][-1:] == [
        ("skipped_by_user", at)
    ]
    clock.advance(4 * MINUTE)
    tick(stepped.store)
    assert fired(stepped) == before


def test_the_check_knows_that_it_waits(stepped: Book, clock: VirtualClock) -> None:
    stepped.schedules.reschedule("job", clock.now + 90 * SECOND)
    assert [f.text for f in check_books(stepped.store).findings if f.problem] == []


def test_a_pause_does_not_fire_it(stepped: Book, clock: VirtualClock) -> None:
    before, at = fired(stepped), clock.now + timedelta(seconds=90)
    stepped.schedules.reschedule("job", at)
    stepped.schedules.pause("job")
    stepped.schedules.resume("job")
    tick(stepped.store)
    assert fired(stepped) == before
    assert stepped.schedules.get("job").next_due_at == at


# -- what a node notices, and what the check reports


class Watchers:
    """Keepers on a monotonic clock; the database's clock advances with it, and may also step."""

    def __init__(self, store: Store, clock: VirtualClock, *session_ids: str) -> None:
        self._moment, self._clock = 0.0, clock
        for session_id in session_ids:
            begin(store, session_id)
        begin(store, "worker", lease=timedelta(days=1))
        self.keepers = [
            Keeper(store, id_, LEASE, None, lambda *_: None, monotonic=lambda: self._moment)
            for id_ in session_ids
        ]

    def pass_time(self, length: timedelta, step: timedelta = timedelta()) -> None:
        self._moment += length.total_seconds()
        self._clock.advance(length + step)

    def renew(self, after: timedelta = 10 * SECOND, step: timedelta = timedelta()) -> None:
        self.pass_time(after, step)
        for keeper in self.keepers:
            keeper.renew()
            self.pass_time(SECOND)


def problems(store: Store) -> list[tuple[str, str]]:
    return [(f.rule, f.text) for f in check_books(store).findings if f.problem]


def run_once(store: Store, watchers: Watchers, length: timedelta) -> None:
    (claimed,) = claim(store, "worker")
    watchers.pass_time(length)
    settle(store, claimed.token)


def test_a_node_notes_the_step_once_and_the_check_tells_it(
    store: Store, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    watchers = Watchers(store, clock, "node-1", "node-2")
    for _ in range(2):
        watchers.renew()
    assert store.read(lambda tx: tx.upkeep.list_clock_steps()) == []
    watchers.renew(step=-47 * MINUTE)
    watchers.renew()
    (step,) = store.read(lambda tx: tx.upkeep.list_clock_steps())
    assert timedelta(minutes=46) < step.size < timedelta(minutes=48)
    assert caplog.text.count("the database clock stepped back by 47m") == 1
    notes = [f.text for f in check_books(store).findings if not f.problem]
    assert any("the database clock stepped back by 47m" in text for text in notes)


def test_a_node_that_begins_later_notices_it_too(store: Store, clock: VirtualClock) -> None:
    Watchers(store, clock, "node-1").renew()
    clock.advance(-47 * MINUTE)
    store.transact(lambda tx: notice_since_last_seen(tx, LEASE))
    (step,) = store.read(lambda tx: tx.upkeep.list_clock_steps())
    assert step.size == 47 * MINUTE - SECOND


def test_nodes_that_begin_after_a_step_note_it_once(store: Store, clock: VirtualClock) -> None:
    Watchers(store, clock, "node-1").renew()
    store.transact(lambda tx: tx.nodes.end_session("node-1"))
    clock.advance(-47 * MINUTE)
    for _ in range(3):
        store.transact(lambda tx: notice_since_last_seen(tx, LEASE))
        clock.advance(MINUTE)
    assert len(store.read(lambda tx: tx.upkeep.list_clock_steps())) == 1


def test_a_clock_that_only_goes_on_or_ahead_has_no_steps(store: Store, clock: VirtualClock) -> None:
    watchers = Watchers(store, clock, "node-1")
    for step in (timedelta(), 47 * MINUTE, -SECOND, timedelta()):
        watchers.renew(step=step)
    assert store.read(lambda tx: tx.upkeep.list_clock_steps()) == []


def test_leases_from_before_the_step_end_in_time(store: Store, clock: VirtualClock) -> None:
    """Otherwise a node that died just before the step would only be missed 47 minutes later."""
    watchers = Watchers(store, clock, "lives")
    begin(store, "dies")
    watchers.renew()
    watchers.renew(step=-47 * MINUTE)
    for _ in range(4):
        watchers.renew()
    alive = store.read(lambda tx: {node.id for node in tx.nodes.list_nodes()})
    assert alive == {"lives", "worker"}


def test_what_was_queued_before_the_step_waits_no_longer_than_it_would_have(
    book: Book, clock: VirtualClock
) -> None:
    watchers = Watchers(book.store, clock, "node-1")
    add_schedule(book.store, "job")
    watchers.renew(2 * MINUTE)
    tick(book.store)
    later = book.enqueue("hello", delay="5m")
    watchers.renew(step=-47 * MINUTE)
    (claimed,) = claim(book.store, "worker")
    assert claimed.run.schedule_id is not None
    waits = book.runs.get(later.id).ready_at - clock.now
    assert 4 * MINUTE < waits <= 5 * MINUTE


def test_runs_that_seem_to_overlap_or_to_start_early_are_no_problem(
    book: Book, backend: Backend, clock: VirtualClock
) -> None:
    store = book.store
    watchers = Watchers(store, clock, "node-1")
    add_schedule(store, trigger={"every": "2m", "anchor": BEGIN.isoformat()}, grace="5m")
    watchers.renew(2 * MINUTE)
    tick(store)
    run_once(store, watchers, 90 * SECOND)  # from 12:02:01
    watchers.renew(30 * SECOND)
    tick(store)
    (claimed,) = claim(store, "worker")  # due at 12:04
    watchers.renew(step=-3 * MINUTE)
    store.transact(lambda tx: tx.attempts.hand_back(claimed.token))
    run_once(store, watchers, 2 * MINUTE)  # from 12:01:13: before it was due, beside the first
    assert problems(store) == []
    backend.write("DELETE FROM clock_steps")
    assert {rule for rule, _ in problems(store)} == {"I3", "I7"}, "by the times as they stand"


def test_a_true_overlap_is_found_on_either_side_of_the_step(
    book: Book, backend: Backend, clock: VirtualClock
) -> None:
    store = book.store
    add_schedule(store, "job")
    watchers = Watchers(store, clock, "node-1")
    for _ in range(2):
        watchers.pass_time(2 * MINUTE)
        tick(store)
        run_once(store, watchers, SECOND)
    for _ in range(20):
        watchers.renew()
    watchers.renew(step=-47 * MINUTE)
    assert problems(store) == []
    backend.write(
        "UPDATE runs SET started_at = started_at - 150 * {second}, finished_at ="
        " finished_at + 150 * {second} WHERE due_at IS NOT NULL"
    )
    assert any(rule == "I3" for rule, _ in problems(store))


def test_a_run_that_starts_too_early_is_found_after_a_step(
    book: Book, backend: Backend, clock: VirtualClock
) -> None:
    store = book.store
    watchers = Watchers(store, clock, "node-1")
    add_schedule(store, "job")
    watchers.renew()
    watchers.renew(step=-20 * MINUTE)
    watchers.renew(30 * MINUTE)
    tick(store)
    run_once(store, watchers, SECOND)
    assert problems(store) == []
    backend.write("UPDATE runs SET started_at = due_at - 5 * {second}")
    assert [rule for rule, _ in problems(store)] == ["I7"]

"""What runs receive besides their due time: the data interval, who asked, which node planned."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.book import Book
from duebook.model.run import Interval
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    get_run,
    get_runs,
    settle,
    tick,
)

if TYPE_CHECKING:
    from duebook.store.base import Store

LONG = timedelta(days=365)


def test_a_run_keeps_the_interval_and_the_planner_of_its_due_time(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, lease=LONG)
    job = add_schedule(store)
    clock.advance(MINUTE)
    tick(store, session_id="node-1")
    (claimed,) = claim(store)
    interval = Interval(BEGIN, BEGIN + MINUTE)
    assert (claimed.run.interval, claimed.run.planned_by) == (interval, "host-of-node-1")
    settle(store, claimed.token)
    (run,) = get_runs(store, job)
    assert (run.interval, run.planned_by, run.requested_by) == (interval, "host-of-node-1", None)


def test_the_interval_of_a_run_stays_when_its_schedule_changes(
    book: Book, clock: VirtualClock
) -> None:
    begin(book.store, lease=LONG)
    job = add_schedule(book.store)
    clock.advance(MINUTE)
    tick(book.store)
    settle(book.store, claim(book.store)[0].token)
    clock.advance(30 * SECOND)
    book.schedules.update("job", trigger={"every": "10m", "anchor": "2026-01-05T12:05:00Z"})
    book.schedules.update("job", description="and another time")
    clock.advance(4 * MINUTE)
    tick(book.store)
    assert [run.interval for run in reversed(get_runs(book.store, job))] == [
        Interval(BEGIN, BEGIN + MINUTE),
        Interval(BEGIN + MINUTE, BEGIN + 5 * MINUTE),
    ]


def test_a_moved_due_time_keeps_its_interval(book: Book, clock: VirtualClock) -> None:
    begin(book.store, lease=LONG)
    job = add_schedule(book.store, trigger={"every": "10m", "anchor": "2026-01-05T12:00:00Z"})
    book.schedules.reschedule("job", BEGIN + 12 * MINUTE)
    clock.advance(10 * MINUTE)
    tick(book.store)
    book.schedules.reschedule("job", BEGIN + 13 * MINUTE)
    clock.advance(2 * MINUTE)
    tick(book.store)
    assert get_runs(book.store, job) == [], "it was moved on"
    clock.advance(MINUTE)
    tick(book.store)
    (run,) = get_runs(book.store, job)
    assert run.due_at == BEGIN + 13 * MINUTE
    assert run.interval == Interval(BEGIN, BEGIN + 10 * MINUTE)
    (claimed,) = claim(book.store)
    assert claimed.run.interval == run.interval


def test_a_run_by_hand_knows_who_asked_and_has_no_interval(book: Book, clock: VirtualClock) -> None:
    begin(book.store, lease=LONG)
    job = add_schedule(book.store)
    assert clock.now == BEGIN
    mine = Book(book.store, by="token:deploy")
    run = mine.schedules.trigger("job")
    assert (run.requested_by, run.interval, run.planned_by) == ("token:deploy", None, None)
    (claimed,) = claim(book.store)
    assert claimed.run.requested_by == "token:deploy"
    assert get_run(book.store, add_run(book.store, job)).requested_by is None
    assert mine.enqueue("digest").requested_by == "token:deploy"
    assert mine.schedules.act("trigger", {"text": "job"}).count == 1
    newest = book.runs.list("job", limit=1)[0]
    assert newest.requested_by == "token:deploy"


def test_a_run_that_writes_an_event_knows_the_same(book: Book, clock: VirtualClock) -> None:
    begin(book.store, lease=LONG)
    target = {"event": {"topic": "orders", "data": {"since": "{{ interval.start }}"}}}
    job = add_schedule(book.store, target=target)
    clock.advance(MINUTE)
    tick(book.store, session_id="node-1")
    (run,) = get_runs(book.store, job)
    assert (run.interval, run.planned_by) == (Interval(BEGIN, BEGIN + MINUTE), "host-of-node-1")
    book.store.transact(lambda tx: tx.events.stamp_events(10))
    (event,) = book.events.list(topic="orders")
    assert event.data == {"since": "2026-01-05T12:00:00Z"}
    by_hand = Book(book.store, by="cli:alice").schedules.trigger("job")
    assert (by_hand.requested_by, by_hand.interval) == ("cli:alice", None)

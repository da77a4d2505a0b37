"""Manual and backfill runs beside live due times: which are claimed first, and which wait."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.balance import check_books
from duebook.explain import Explanation
from duebook.model.flow_run import FlowEnd, FlowMove
from duebook.model.run import Outcome, Run
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    find_work,
    get_ledger,
    get_runs,
    lose,
    settle,
    tick,
)

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.book import Book
    from duebook.store.base import Store, Tx

LONG = timedelta(days=365)
OVERLAPS = ["skip", "queue", "latest", "cancel"]


def minute(number: int) -> datetime:
    return BEGIN + number * MINUTE


def filled(book: Book, clock: VirtualClock, until: int = 4, **definition: Any) -> str:
    """A minutely schedule at 12:05:10 without active runs, with a queued backfill."""
    begin(book.store, lease=LONG)
    job = add_schedule(book.store, catchup="skip", grace="30s", **definition)
    clock.advance(5 * MINUTE)
    tick(book.store)
    settle(book.store, claim(book.store)[0].token)
    clock.advance(10 * SECOND)
    tick(book.store)
    book.schedules.backfill("job", minute(1), minute(until))
    return job


def claimed_due(store: Store, session: str = "node-1") -> list[datetime | None]:
    return [claimed.run.due_at for claimed in claim(store, session)]


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_a_due_time_waits_only_for_the_backfill_run_that_has_begun(
    book: Book, clock: VirtualClock, overlap: str
) -> None:
    job = filled(book, clock, overlap=overlap)
    (running,) = claim(book.store)
    clock.now = minute(6)
    assert tick(book.store) == 0
    settle(book.store, running.token)
    assert tick(book.store) == 1, "the others have not begun"
    assert claimed_due(book.store) == [minute(6)], "and the due time goes ahead of them"
    assert [entry.reason for entry in get_ledger(book.store, job)] == ["missed"]


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_no_backfill_run_is_claimed_while_a_due_time_waits(
    book: Book, clock: VirtualClock, overlap: str
) -> None:
    filled(book, clock, overlap=overlap)
    (running,) = claim(book.store)
    clock.now = minute(6)
    tick(book.store)
    settle(book.store, running.token)
    assert claim(book.store) == []
    assert not find_work(book.store, ["default"]).places


def test_no_backfill_run_is_claimed_when_a_due_time_has_come_that_nobody_has_planned_yet(
    book: Book, clock: VirtualClock
) -> None:
    filled(book, clock)
    clock.now = minute(6)
    assert claim(book.store) == []
    assert not find_work(book.store, ["default"]).places
    tick(book.store)
    assert claimed_due(book.store) == [minute(6)]


def test_a_due_time_that_waits_for_its_jitter_keeps_no_backfill_waiting(
    book: Book, clock: VirtualClock
) -> None:
    begin(book.store, lease=LONG)
    trigger = {"every": "1h", "anchor": "2026-01-05T12:00:00Z"}
    add_schedule(book.store, catchup="skip", jitter="50m", trigger=trigger)
    clock.advance(timedelta(hours=3))
    tick(book.store)
    book.schedules.backfill("job", BEGIN + timedelta(hours=1), BEGIN + timedelta(hours=1))
    assert claimed_due(book.store) == [BEGIN + timedelta(hours=1)]


def test_a_backfill_of_a_paused_schedule_lets_nothing_pass(book: Book, clock: VirtualClock) -> None:
    filled(book, clock)
    (running,) = claim(book.store)
    clock.now = minute(6)
    tick(book.store)
    settle(book.store, running.token)
    book.schedules.pause("job")
    assert claimed_due(book.store) == [minute(2)]


def test_manual_runs_go_ahead_of_a_backfill_and_behind_due_times(
    book: Book, clock: VirtualClock
) -> None:
    job = filled(book, clock)
    clock.now = minute(6)
    tick(book.store)
    manual = add_run(book.store, job)
    (first,) = claim(book.store)
    assert first.run.origin == "schedule"
    settle(book.store, first.token)
    (second,) = claim(book.store)
    assert second.run.id == manual
    settle(book.store, second.token)
    assert claimed_due(book.store) == [minute(1)]


def test_where_runs_may_overlap_due_times_go_ahead_of_a_backfill_too(
    book: Book, clock: VirtualClock
) -> None:
    filled(book, clock, overlap="allow", max_concurrent=1)
    clock.now = minute(6)
    tick(book.store)
    (live,) = claim(book.store)
    assert live.run.due_at == minute(6)
    settle(book.store, live.token)
    assert claimed_due(book.store) == [minute(1)]


def test_runs_that_a_backfill_opens_again_keep_no_due_time_waiting(
    book: Book, clock: VirtualClock
) -> None:
    begin(book.store, lease=LONG)
    job = add_schedule(book.store)
    for number in range(1, 5):
        clock.now = minute(number)
        tick(book.store)
        settle(book.store, claim(book.store)[0].token)
    again = book.schedules.backfill("job", minute(1), minute(4), reprocess="all")
    assert len(again) == 4
    (running,) = claim(book.store)
    clock.now = minute(5)
    assert tick(book.store) == 0, "it waits for the one that has begun"
    settle(book.store, running.token)
    assert claim(book.store) == []
    assert tick(book.store) == 1
    assert claimed_due(book.store) == [minute(5)]
    assert get_ledger(book.store, job) == []


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_a_due_time_waits_for_a_run_that_a_person_opened_again(
    book: Book, clock: VirtualClock, overlap: str
) -> None:
    begin(book.store, lease=LONG)
    job = add_schedule(book.store, overlap=overlap)
    clock.now = minute(1)
    tick(book.store)
    (first,) = claim(book.store)
    settle(book.store, first.token, "failed")
    book.runs.retry(first.run.id)
    clock.now = minute(2)
    assert tick(book.store) == 0
    (again,) = claim(book.store)
    assert (again.run.id, again.token.attempt) == (first.run.id, 2)
    settle(book.store, again.token)
    assert tick(book.store) == 1, "its end woke the schedule"
    assert get_ledger(book.store, job) == []


def test_a_backfill_run_that_waits_for_its_retry_or_lost_its_node_is_waited_for(
    book: Book, clock: VirtualClock
) -> None:
    store = book.store
    filled(book, clock)
    (running,) = claim(store)
    store.transact(lambda tx: tx.attempts.settle(running.token, Outcome("failed"), 70 * SECOND))
    clock.now = minute(6)
    assert tick(store) == 0
    assert claim(store) == []
    clock.advance(MINUTE)
    begin(store, "node-2", LONG)
    (again,) = claim(store, "node-2")
    assert again.run.id == running.run.id
    lose(store, "node-2")
    assert tick(store) == 0
    (taken_over,) = claim(store)
    assert taken_over.run.id == running.run.id
    settle(store, taken_over.token)
    assert tick(store) == 1


def test_a_late_run_keeps_due_times_waiting_as_long_as_it_would_have_on_time(
    book: Book, clock: VirtualClock
) -> None:
    """Late by 40 s: the due time a minute later is skipped 40 s after that, not earlier."""
    store = book.store
    job = filled(book, clock)
    (running,) = claim(store)
    clock.now = minute(6)
    tick(store)
    clock.advance(40 * SECOND)
    settle(store, running.token)
    assert tick(store) == 1
    (late,) = claim(store)
    clock.now = minute(7)
    assert tick(store) == 0
    assert [entry.reason for entry in get_ledger(store, job)] == ["missed"]
    explained = book.schedules.explain("job", minute(7))
    assert isinstance(explained, Explanation)
    assert explained.verdict == "waiting"
    assert explained.other_run_id == late.run.id
    assert "40 s late" in explained.text
    clock.advance(40 * SECOND)
    tick(store)
    assert {entry.reason for entry in get_ledger(store, job)} == {"missed", "overlap"}
    settle(store, late.token)
    tick(store)
    assert check_books(store, deep=True).balanced


@pytest.mark.parametrize("origin", ["manual", "backfill"])
def test_explain_names_the_run_that_a_due_time_waits_for(
    book: Book, clock: VirtualClock, origin: str
) -> None:
    job = filled(book, clock)
    if origin == "manual":
        add_run(book.store, job)
    (running,) = claim(book.store)
    clock.now = minute(6)
    tick(book.store)
    explained = book.schedules.explain("job", minute(6))
    assert isinstance(explained, Explanation)
    assert (explained.verdict, explained.reason) == ("waiting", "overlap")
    assert explained.text.startswith(f"waiting for {origin} run {running.run.id[:8]}")
    assert explained.other_run_id == running.run.id


def end_flow(store: Store, run_id: str) -> None:
    def work(tx: Tx) -> None:
        parents = {parent.run_id: parent for parent in tx.flow_runs.take_flows(100)}
        tx.flow_runs.commit_flows([FlowMove(parents[run_id], end=FlowEnd("succeeded", None))])

    store.transact(work)


def test_runs_of_flows_give_way_as_others_do(book: Book, clock: VirtualClock) -> None:
    store = book.store
    begin(store, lease=LONG)
    add_schedule(store, target={"flow": "etl"}, catchup="skip", grace="30s")
    clock.advance(5 * MINUTE)
    tick(store)

    def start(*run_ids: str) -> set[str]:
        return store.transact(lambda tx: tx.flow_runs.begin_flows(list(run_ids), {}).ids)

    def queued(origin: str) -> list[str]:
        runs = [run for run in get_runs(store) if run.origin == origin]
        return [run.id for run in reversed(runs) if run.status == "queued"]

    (own,) = queued("schedule")
    backfill = [
        r.id for r in book.schedules.backfill("job", minute(1), minute(3)) if type(r) is Run
    ]
    assert start(*backfill, own) == {own}
    assert start(*backfill) == set(), "it is under way"
    end_flow(store, own)
    clock.now = minute(6)
    assert start(*backfill) == set(), "a due time has come"
    tick(store)
    (own,) = queued("schedule")
    assert start(*backfill, own) == {own}
    end_flow(store, own)
    tick(store)
    assert len(start(*backfill)) == 1

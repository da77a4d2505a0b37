"""Backfill: runs for past due times that have none, and runs that are retried."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.balance import check_books
from duebook.book import schedules
from duebook.errors import Invalid, NotFound
from duebook.model.acted import BackfillProgress, Withdrawn
from duebook.model.plan import Fire
from duebook.model.run import Interval, Run
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    add_schedule,
    begin,
    claim,
    get_ledger,
    get_runs,
    get_schedule,
    settle,
    tick,
)

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.book import Book
    from duebook.store.base import Store

LONG = timedelta(days=365)


def minute(number: int) -> datetime:
    return BEGIN + number * MINUTE


def due_times(runs: object) -> list[datetime | None]:
    assert isinstance(runs, list)
    return [run.due_at for run in runs if isinstance(run, Run)]


@pytest.fixture
def job(store: Store, clock: VirtualClock) -> str:
    """Minutely; of 12:01 to 12:05 the last one ran and succeeded, the others were missed."""
    begin(store, lease=LONG)
    job = add_schedule(store, catchup="skip", overlap="queue", grace="30s")
    clock.advance(5 * MINUTE)
    tick(store)
    settle(store, claim(store)[0].token)
    return job


def test_due_times_without_a_run_are_filled_oldest_first(
    book: Book, clock: VirtualClock, job: str
) -> None:
    before = get_schedule(book.store, job)
    runs = book.schedules.backfill("job", minute(1), minute(5))
    assert due_times(runs) == [minute(n) for n in (1, 2, 3, 4)]
    assert {run.origin for run in runs if isinstance(run, Run)} == {"backfill"}
    assert get_schedule(book.store, job) == before, "no due time of the trigger is used up"
    assert clock.now == minute(5)
    assert book.schedules.backfill("job", minute(1), minute(5)) == [], "each is filled once"


def test_both_ends_of_the_range_are_included(book: Book, job: str) -> None:
    assert job
    assert due_times(book.schedules.backfill("job", minute(2), minute(3))) == [minute(2), minute(3)]


def test_what_nobody_has_begun_of_a_backfill_is_taken_back(
    book: Book, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "WITHDRAWN_AT_ONCE", 2)
    runs = book.schedules.backfill("job", minute(1), minute(5))
    first = runs[0]
    assert isinstance(first, Run)
    (claimed,) = claim(book.store)
    assert claimed.run.origin == "backfill"
    other = book.schedules.undo_backfill("job", minute(1), minute(5), first.ready_at - SECOND)
    assert other == Withdrawn(0, 0)
    undone = book.schedules.undo_backfill("job", minute(1), minute(5), first.ready_at)
    assert undone == Withdrawn(cancelled=len(runs) - 1, begun=1)
    again = book.schedules.undo_backfill("job", minute(1), minute(5), first.ready_at)
    assert again == Withdrawn(cancelled=0, begun=1)
    states = {run.due_at: run.status for run in get_runs(book.store, job)}
    assert list(states.values()).count("running") == 1
    assert set(states.values()) == {"running", "cancelled", "succeeded"}
    told = [change.after for change in book.audit.list() if change.action == "undo_backfill"]
    assert [after["runs"] for after in told if after] == [1, 2]
    assert book.store.transact(lambda tx: tx.runs.withdraw([claimed.run.id], "late")) == []


def test_a_backfill_runs_one_after_the_other_and_lets_due_times_pass(
    book: Book, clock: VirtualClock, job: str
) -> None:
    book.schedules.backfill("job", minute(2), minute(3))
    first = claim(book.store)
    assert due_times([c.run for c in first]) == [minute(2)]
    clock.advance(MINUTE)
    assert tick(book.store) == 0, "a backfill is running"
    settle(book.store, first[0].token)
    assert claim(book.store) == [], "a due time waits"
    assert tick(book.store) == 1
    (live,) = claim(book.store)
    assert live.run.due_at == minute(6)
    settle(book.store, live.token)
    assert due_times([c.run for c in claim(book.store)]) == [minute(3)]
    assert [e.reason for e in get_ledger(book.store, job)] == ["missed"]


def test_a_backfill_revives_what_was_recorded(book: Book, job: str) -> None:
    assert [(e.due_from, e.reason) for e in get_ledger(book.store, job)] == [(minute(1), "missed")]
    book.schedules.backfill("job", minute(1), minute(1))
    assert minute(1) in due_times(get_runs(book.store))
    assert check_books(book.store, deep=True).balanced


def test_a_backfill_is_accepted_while_paused(book: Book, job: str) -> None:
    assert job
    book.schedules.pause("job")
    assert len(book.schedules.backfill("job", minute(1), minute(2))) == 2
    assert len(claim(book.store)) == 1


def test_a_dry_run_only_says_what_would_run(book: Book, job: str) -> None:
    assert job
    found = book.schedules.backfill("job", minute(1), minute(3), dry_run=True)
    assert found == [minute(1), minute(2), minute(3)]
    assert len(get_runs(book.store)) == 1


@pytest.mark.parametrize(("status", "again"), [("failed", True), ("succeeded", False)])
def test_reprocess_failed_opens_only_failures_again(
    book: Book, clock: VirtualClock, job: str, status: str, again: bool
) -> None:
    clock.advance(MINUTE)
    tick(book.store)
    settle(book.store, claim(book.store)[0].token, status)  # type: ignore[arg-type]
    runs = book.schedules.backfill("job", minute(6), minute(6), reprocess="failed")
    assert due_times(runs) == ([minute(6)] if again else [])
    if again:
        (claimed,) = claim(book.store)
        assert (claimed.run.origin, claimed.token.attempt) == ("schedule", 2)
    assert len(book.store.read(lambda tx: tx.runs.list_runs_due(job, minute(6), minute(6), 9))) == 1


def test_reprocess_all_opens_everything_that_ended(book: Book, job: str) -> None:
    assert job
    runs = book.schedules.backfill("job", minute(3), minute(5), reprocess="all")
    assert sorted(str(due) for due in due_times(runs)) == [str(minute(n)) for n in (3, 4, 5)]
    origins = {run.due_at: run.origin for run in runs if isinstance(run, Run)}
    assert origins[minute(5)] == "schedule", "the origin never changes"
    assert book.schedules.backfill("job", minute(3), minute(5), reprocess="all") == []


def test_pending_due_times_are_left_to_the_schedule(
    book: Book, clock: VirtualClock, job: str
) -> None:
    assert job
    clock.advance(2 * MINUTE)
    assert book.schedules.backfill("job", minute(6), minute(7)) == []
    tick(book.store)
    assert minute(7) in due_times(get_runs(book.store))


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (minute(3), minute(2), "before start"),
        (minute(1), minute(60), "is in the future"),
        (BEGIN - timedelta(days=91), minute(1), "where history starts"),
        (BEGIN - timedelta(days=30), minute(1), "more than 10,000"),
    ],
)
def test_a_range_that_cannot_be_filled_is_refused(
    book: Book, job: str, start: datetime, end: datetime, message: str
) -> None:
    assert job
    with pytest.raises(Invalid, match=message):
        book.schedules.backfill("job", start, end)
    assert len(get_runs(book.store)) == 1


def test_an_unknown_way_to_reprocess_is_refused(book: Book, job: str) -> None:
    assert job
    with pytest.raises(Invalid, match="failed, all"):
        book.schedules.backfill("job", minute(1), minute(2), reprocess="some")


def test_a_schedule_that_does_not_exist_is_not_filled(book: Book) -> None:
    with pytest.raises(NotFound):
        book.schedules.backfill("nobody", minute(0), minute(0))


def test_the_verb_returns_only_the_runs_that_it_made(store: Store, job: str) -> None:
    def fill(numbers: range) -> list[str]:
        moments = [Fire(minute(n), "backfill") for n in numbers]
        return store.transact(lambda tx: tx.runs.create_backfill(tx.plans.snapshot(job), moments))

    assert len(fill(range(1, 3))) == 2
    made = fill(range(1, 4))
    assert [store.read(lambda tx, i=id_: tx.runs.get_run(i)).due_at for id_ in made] == [minute(3)]  # type: ignore[misc]
    assert fill(range(0)) == []


def test_a_backfill_counts_for_no_limit_of_runs(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    begin(store, lease=LONG)
    add_schedule(store, max_runs=2, catchup="skip", overlap="queue", grace="30s")
    clock.advance(5 * MINUTE)
    tick(store)
    settle(store, claim(store)[0].token)
    for _ in book.schedules.backfill("job", minute(1), minute(4)):
        settle(store, claim(store)[0].token)
    clock.advance(MINUTE)
    assert tick(store) == 1


# -- several at once


def running(store: Store) -> list[datetime]:
    return sorted(run.due_at for run in get_runs(store) if run.status == "running" and run.due_at)


def test_several_at_once_need_runs_that_may_overlap(book: Book, job: str) -> None:
    assert job
    with pytest.raises(Invalid, match=r"concurrency 2: .*overlap is queue.*set overlap to allow"):
        book.schedules.backfill("job", minute(1), minute(4), concurrency=2)
    with pytest.raises(Invalid, match="concurrency"):
        book.schedules.backfill("job", minute(1), minute(4), concurrency=0)
    assert len(book.schedules.backfill("job", minute(1), minute(4), concurrency=1)) == 4
    assert len(claim(book.store)) == 1, "as without"


@pytest.mark.parametrize("limit", [1, 3])
def test_only_so_many_runs_of_a_backfill_run_at_once(
    book: Book, clock: VirtualClock, limit: int
) -> None:
    begin(book.store, lease=LONG)
    add_schedule(book.store, catchup="skip", overlap="allow", grace="30s")
    clock.advance(8 * MINUTE)
    tick(book.store)
    (live,) = claim(book.store)
    book.schedules.backfill("job", minute(1), minute(7), concurrency=limit)
    first = claim(book.store)
    assert due_times([c.run for c in first]) == [minute(n + 1) for n in range(limit)]
    assert claim(book.store) == [], "the limit is used up"
    settle(book.store, first[0].token)
    assert len(claim(book.store)) == 1
    clock.advance(MINUTE)
    tick(book.store)
    (next_live,) = claim(book.store)
    assert (next_live.run.origin, live.run.due_at) == ("schedule", minute(8))


def test_a_backfill_beside_everything_else_holds_up_no_due_time(
    book: Book, clock: VirtualClock, job: str
) -> None:
    clock.advance(MINUTE)
    tick(book.store)
    (live,) = claim(book.store)
    book.schedules.backfill("job", minute(1), minute(4), beside=True, concurrency=2)
    beside = claim(book.store)
    assert running(book.store) == [minute(1), minute(2), minute(6)]
    clock.advance(MINUTE)
    assert tick(book.store) == 0, "overlap: queue judges the schedule's own runs"
    settle(book.store, live.token)
    assert tick(book.store) == 1, "no backfill is in its way"
    claim(book.store)
    assert running(book.store) == [minute(1), minute(2), minute(7)]
    settle(book.store, beside[0].token)
    claim(book.store)
    assert running(book.store) == [minute(2), minute(3), minute(7)]
    assert [e.reason for e in get_ledger(book.store, job)] == ["missed"]
    assert check_books(book.store, deep=True).balanced


def test_an_edit_leaves_a_backfill_beside_everything_else(book: Book, job: str) -> None:
    assert job
    book.schedules.backfill("job", minute(1), minute(4), beside=True)
    book.schedules.update("job", description="another one")
    assert len(claim(book.store)) == 4


def test_runs_that_are_opened_again_run_beside_others_too(
    book: Book, clock: VirtualClock, job: str
) -> None:
    assert job
    clock.advance(MINUTE)
    tick(book.store)
    claim(book.store)
    runs = book.schedules.backfill("job", minute(5), minute(5), reprocess="all", beside=True)
    (again,) = claim(book.store)
    assert [again.run.id] == [run.id for run in runs if isinstance(run, Run)]
    settle(book.store, again.token, "failed")
    book.schedules.backfill("job", minute(5), minute(5), reprocess="failed")
    assert claim(book.store) == [], "this time in turn"


def test_runs_of_a_backfill_know_who_asked_and_their_intervals(book: Book, job: str) -> None:
    assert job
    runs = [r for r in book.schedules.backfill("job", minute(1), minute(2)) if isinstance(r, Run)]
    assert [run.interval for run in runs] == [
        Interval(minute(0), minute(1)),
        Interval(minute(1), minute(2)),
    ]
    assert {(run.requested_by, run.planned_by) for run in runs} == {("a test", None)}


def test_the_progress_of_a_backfill_counts_its_runs_alone(
    book: Book, clock: VirtualClock, job: str
) -> None:
    assert job
    clock.advance(SECOND)
    made = book.schedules.backfill("job", minute(1), minute(5), reprocess="all", beside=True)
    first = made[0]
    assert isinstance(first, Run)
    one, two, *_ = claim(book.store, limit=3)
    settle(book.store, one.token)
    settle(book.store, two.token, "failed")
    asked = ("job", minute(1), minute(5))
    found = book.schedules.backfill_progress(*asked, first.ready_at)
    assert found == BackfillProgress(queued=2, running=1, succeeded=1, failed=1)
    assert (found.total, found.left) == (5, 3)
    book.schedules.undo_backfill(*asked, first.ready_at)
    assert book.schedules.backfill_progress(*asked, first.ready_at).cancelled == 2
    other = book.schedules.backfill_progress(*asked, first.ready_at - SECOND)
    assert other == BackfillProgress()

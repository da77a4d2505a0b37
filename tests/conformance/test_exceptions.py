"""Exceptions for single due times: skip the next, move it, and the effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.errors import Conflict
from duebook.model.plan import DueException
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
    settle,
    tick,
)

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duebook.book import Book
    from duebook.store.base import Store
    from tests.support.backends import Backend


@pytest.fixture
def job(book: Book) -> str:
    """Due every full minute, and allowed to run beside itself."""
    return add_schedule(book.store, overlap="allow")


def pass_time(store: Store, clock: VirtualClock, length: timedelta) -> list[datetime]:
    """Let a node tick every second; returns the due times that became runs, in order."""
    until = clock.now + length
    while clock.now < until:
        clock.advance(SECOND)
        tick(store)
    return sorted(run.due_at for run in get_runs(store) if run.due_at is not None)


def reasons(store: Store, schedule_id: str) -> list[tuple[datetime, str]]:
    return sorted((entry.due_from, entry.reason) for entry in get_ledger(store, schedule_id))


def test_an_exception_said_again_changes_it(store: Store, job: str) -> None:
    for seconds in (1, 2):
        moved = DueException(BEGIN + MINUTE, "moved_away", BEGIN + seconds * SECOND)
        store.transact(lambda tx, e=moved: tx.schedules.add_exception(job, e))  # type: ignore[misc]
    snapshot = store.transact(lambda tx: tx.plans.snapshot(job))
    assert snapshot.exceptions == (moved,)


def test_a_skipped_due_time_does_not_run_and_is_in_the_ledger(
    book: Book, clock: VirtualClock, job: str
) -> None:
    schedule, skipped = book.schedules.skip_next("job")
    assert skipped == BEGIN + MINUTE
    assert schedule.next_due_at == BEGIN + 2 * MINUTE
    assert pass_time(book.store, clock, 2 * MINUTE) == [BEGIN + 2 * MINUTE]
    assert reasons(book.store, job) == [(BEGIN + MINUTE, "skipped_by_user")]


def test_skipping_twice_skips_two(book: Book, clock: VirtualClock, job: str) -> None:
    assert [book.schedules.skip_next("job")[1] for _ in range(2)] == [
        BEGIN + MINUTE,
        BEGIN + 2 * MINUTE,
    ]
    assert pass_time(book.store, clock, 3 * MINUTE) == [BEGIN + 3 * MINUTE]
    assert len(reasons(book.store, job)) == 2


def test_a_moved_due_time_runs_where_it_was_moved_to(
    book: Book, clock: VirtualClock, job: str
) -> None:
    moved_to = BEGIN + 90 * SECOND
    assert book.schedules.reschedule("job", moved_to).next_due_at == moved_to
    assert pass_time(book.store, clock, 2 * MINUTE) == [moved_to, BEGIN + 2 * MINUTE]
    assert reasons(book.store, job) == [(BEGIN + MINUTE, "superseded")]


@pytest.mark.usefixtures("job")
def test_a_due_time_moved_to_the_past_runs_at_once(book: Book, clock: VirtualClock) -> None:
    moved_to = BEGIN - MINUTE
    clock.advance(SECOND)
    book.schedules.reschedule("job", moved_to)
    assert [run.due_at for run in get_runs(book.store)] == [moved_to]
    assert pass_time(book.store, clock, 2 * MINUTE) == [moved_to, BEGIN + 2 * MINUTE]


@pytest.mark.usefixtures("job")
def test_a_due_time_moved_onto_another_runs_once(book: Book, clock: VirtualClock) -> None:
    book.schedules.reschedule("job", BEGIN + 2 * MINUTE)
    assert pass_time(book.store, clock, 2 * MINUTE) == [BEGIN + 2 * MINUTE]


@pytest.mark.usefixtures("job")
def test_a_moved_due_time_can_be_moved_again(book: Book, clock: VirtualClock) -> None:
    book.schedules.reschedule("job", BEGIN + 10 * SECOND)
    schedule = book.schedules.reschedule("job", BEGIN + 20 * SECOND)
    assert schedule.next_due_at == BEGIN + 20 * SECOND
    assert pass_time(book.store, clock, 59 * SECOND) == [BEGIN + 20 * SECOND]


def test_a_moved_due_time_can_be_skipped(book: Book, clock: VirtualClock, job: str) -> None:
    book.schedules.reschedule("job", BEGIN + 10 * SECOND)
    schedule, skipped = book.schedules.skip_next("job")
    assert skipped == BEGIN + 10 * SECOND
    assert schedule.next_due_at == BEGIN + 2 * MINUTE
    assert pass_time(book.store, clock, MINUTE) == []
    assert (BEGIN + 10 * SECOND, "skipped_by_user") in reasons(book.store, job)


@pytest.mark.usefixtures("job")
def test_a_moved_due_time_can_be_moved_back(book: Book, clock: VirtualClock) -> None:
    book.schedules.reschedule("job", BEGIN + 10 * SECOND)
    schedule = book.schedules.reschedule("job", BEGIN + MINUTE)
    assert schedule.next_due_at == BEGIN + MINUTE
    assert pass_time(book.store, clock, 2 * MINUTE) == [BEGIN + MINUTE, BEGIN + 2 * MINUTE]


def test_the_only_due_time_of_a_one_off_can_be_moved(book: Book, clock: VirtualClock) -> None:
    add_schedule(book.store, trigger={"at": (BEGIN + MINUTE).isoformat()})
    book.schedules.reschedule("job", BEGIN + 2 * MINUTE)
    assert pass_time(book.store, clock, 2 * MINUTE) == [BEGIN + 2 * MINUTE]
    begin(book.store)
    settle(book.store, claim(book.store)[0].token)
    tick(book.store)
    assert book.schedules.get("job").status == "completed"


def test_the_only_due_time_of_a_one_off_can_be_skipped(book: Book, clock: VirtualClock) -> None:
    schedule_id = add_schedule(book.store, trigger={"at": (BEGIN + MINUTE).isoformat()})
    book.schedules.skip_next("job")
    assert pass_time(book.store, clock, 2 * MINUTE) == []
    assert reasons(book.store, schedule_id) == [(BEGIN + MINUTE, "skipped_by_user")]
    assert book.schedules.get("job").status == "completed"


def test_a_moved_due_time_that_falls_into_a_pause_is_in_the_ledger(
    book: Book, clock: VirtualClock, job: str
) -> None:
    moved_to = BEGIN + 90 * SECOND
    book.schedules.reschedule("job", moved_to)
    book.schedules.pause("job")
    clock.advance(2 * MINUTE)
    book.schedules.resume("job")
    assert pass_time(book.store, clock, SECOND) == []
    entries = get_ledger(book.store, job)
    assert any(e.reason == "paused" and e.due_from <= moved_to <= e.due_to for e in entries)
    assert sum(entry.count for entry in entries if entry.reason == "paused") == 2


def test_a_moved_due_time_pending_at_the_deletion_is_in_the_ledger(
    book: Book, clock: VirtualClock, job: str
) -> None:
    moved_to = BEGIN + 10 * SECOND
    book.schedules.reschedule("job", moved_to)
    clock.advance(20 * SECOND)
    book.schedules.delete("job")
    assert (moved_to, "deleted") in reasons(book.store, job)


@pytest.mark.usefixtures("job")
def test_a_due_time_moved_away_before_a_pause_stays_away(book: Book, clock: VirtualClock) -> None:
    book.schedules.skip_next("job")
    book.schedules.pause("job")
    clock.advance(SECOND)
    book.schedules.resume("job")
    assert pass_time(book.store, clock, 2 * MINUTE) == [BEGIN + 2 * MINUTE]


@pytest.mark.parametrize("state", ["paused", "completed"])
def test_only_active_schedules_have_a_next_due_time_to_speak_of(
    book: Book, clock: VirtualClock, state: str
) -> None:
    add_schedule(book.store, trigger={"at": (BEGIN + MINUTE).isoformat()})
    if state == "paused":
        book.schedules.pause("job")
    else:
        book.schedules.skip_next("job")
        clock.advance(MINUTE)
        tick(book.store)
    assert book.schedules.get("job").status == state
    with pytest.raises(Conflict, match=state):
        book.schedules.skip_next("job")
    with pytest.raises(Conflict, match=state):
        book.schedules.reschedule("job", BEGIN + 5 * MINUTE)
    assert get_runs(book.store) == []


@pytest.mark.usefixtures("job")
def test_deleting_a_schedule_forgets_what_was_said(book: Book, backend: Backend) -> None:
    book.schedules.reschedule("job", BEGIN + 90 * SECOND)
    book.schedules.delete("job")
    assert backend.rows("SELECT count(*) FROM schedule_exceptions") == [(0,)]


@pytest.mark.usefixtures("job")
def test_who_means_one_due_time_does_not_act_on_another(book: Book) -> None:
    first, second = BEGIN + MINUTE, BEGIN + 2 * MINUTE
    assert book.schedules.skip_next("job", first)[1] == first
    with pytest.raises(Conflict, match="is not the next one; the next one is"):
        book.schedules.skip_next("job", first)
    with pytest.raises(Conflict, match="is not the next one; the next one is"):
        book.schedules.reschedule("job", BEGIN + 3 * SECOND, first)
    moved = book.schedules.reschedule("job", BEGIN + 3 * SECOND, second)
    assert moved.next_due_at == BEGIN + 3 * SECOND

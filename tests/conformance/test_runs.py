"""Manual work with runs: start, inspect, list, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.errors import Conflict, NotFound
from duebook.ids import new_id
from duebook.model.run import LogLine
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    claimed_run,
    get_run,
    get_runs,
    get_schedule,
    settle,
    tick,
)

if TYPE_CHECKING:
    from typing import Literal

    from duebook.store.base import Store


def cancel(store: Store, run_id: str) -> str:
    return store.transact(lambda tx: tx.runs.cancel(run_id, "cancelled"))


def test_a_manual_run_is_ready_now_and_uses_up_no_due_time(book: Book, clock: VirtualClock) -> None:
    schedule_id = add_schedule(book.store)
    now = clock.advance(SECOND)
    run = book.schedules.trigger("job", {"a": 1})
    assert (run.origin, run.trigger, run.due_at) == ("manual", "manual", None)
    assert (run.status, run.payload, run.ready_at) == ("queued", {"a": 1}, now)
    assert get_schedule(book.store, schedule_id).next_due_at == BEGIN + MINUTE


def test_any_number_of_manual_runs_may_wait(book: Book) -> None:
    add_schedule(book.store)
    runs = [book.schedules.trigger("job").id for _ in range(3)]
    assert {run.id for run in get_runs(book.store)} == set(runs)


def test_a_run_that_does_not_exist_is_not_found(store: Store) -> None:
    for run_id in (new_id(), "", "x" * 10_000):
        with pytest.raises(NotFound):
            get_run(store, run_id)
        with pytest.raises(NotFound):
            cancel(store, run_id)


def test_runs_are_listed_the_newest_first(store: Store, clock: VirtualClock) -> None:
    first, second = add_schedule(store, "a"), add_schedule(store, "b")
    made = []
    for schedule_id in (first, second, first, second):
        made.append(add_run(store, schedule_id))
        clock.advance(SECOND)
    assert [run.id for run in get_runs(store)] == made[::-1]
    assert [run.id for run in get_runs(store, first)] == [made[2], made[0]]
    assert [run.id for run in get_runs(store, limit=2)] == [made[3], made[2]]


def test_of_runs_made_or_ended_at_the_same_instant_the_newest_is_first(store: Store) -> None:
    schedule_id = add_schedule(store, overlap="allow")
    made = [add_run(store, schedule_id) for _ in range(5)]
    assert [run.id for run in get_runs(store, schedule_id, 2)] == [made[4], made[3]]
    begin(store)
    for claimed in claim(store):
        settle(store, claimed.token)
    assert [run.id for run in get_runs(store, schedule_id, 2)] == [made[4], made[3]]


def test_runs_are_listed_for_their_namespace_only(store: Store) -> None:
    add_run(store, add_schedule(store, namespace="mine"))
    assert Book(store, "other").runs.list() == []
    assert len(Book(store, "mine").runs.list()) == 1


def test_a_book_hands_out_no_run_of_another_namespace(store: Store) -> None:
    run_id = add_run(store, add_schedule(store, namespace="mine"))
    with pytest.raises(NotFound):
        Book(store, "other").runs.get(run_id)


def test_a_book_cancels_no_run_of_another_namespace(store: Store) -> None:
    run_id = add_run(store, add_schedule(store, namespace="mine"))
    with pytest.raises(NotFound):
        Book(store, "other").runs.cancel(run_id)
    assert get_run(store, run_id).status == "queued"


def test_a_book_shows_no_log_of_another_namespace(store: Store) -> None:
    add_run(store, add_schedule(store, namespace="mine"))
    begin(store)
    (claimed,) = claim(store, namespace="mine")
    line = LogLine(BEGIN, "stdout", "secret")
    store.transact(lambda tx: tx.attempts.append_log(claimed.token, 1, [line]))
    with pytest.raises(NotFound):
        Book(store, "other").runs.log(claimed.run.id)


# -- cancel


def test_a_queued_run_is_cancelled_at_once(store: Store, clock: VirtualClock) -> None:
    run_id = add_run(store, add_schedule(store))
    now = clock.advance(SECOND)
    assert cancel(store, run_id) == "cancelled"
    run = get_run(store, run_id)
    assert (run.status, run.reason, run.finished_at) == ("cancelled", "cancelled", now)
    begin(store)
    assert claim(store) == []


def test_a_running_run_is_asked_to_end(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    asked_at = clock.advance(SECOND)
    assert cancel(store, claimed.run.id) == "requested"
    clock.advance(SECOND)
    assert cancel(store, claimed.run.id) == "requested"
    run = get_run(store, claimed.run.id)
    assert (run.status, run.cancel_requested_at) == ("running", asked_at)
    assert settle(store, claimed.token, "cancelled", reason="cancelled")
    assert get_run(store, claimed.run.id).status == "cancelled"


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_a_run_that_has_ended_stays_as_it_ended(
    book: Book, clock: VirtualClock, status: Literal["succeeded", "failed", "cancelled"]
) -> None:
    claimed = claimed_run(book.store, clock)
    settle(book.store, claimed.token, status)
    before = get_run(book.store, claimed.run.id)
    clock.advance(SECOND)
    with pytest.raises(Conflict, match=status):
        book.runs.cancel(claimed.run.id)
    assert get_run(book.store, claimed.run.id) == before


def test_a_queued_run_cannot_be_cancelled_twice(book: Book) -> None:
    run_id = add_run(book.store, add_schedule(book.store))
    assert book.runs.cancel(run_id) == "cancelled"
    with pytest.raises(Conflict, match="cancelled"):
        book.runs.cancel(run_id)


def test_cancelling_the_last_run_of_a_one_off_completes_it(
    store: Store, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store, trigger={"at": (BEGIN + MINUTE).isoformat()})
    clock.advance(MINUTE)
    tick(store)
    (run,) = get_runs(store)
    clock.advance(SECOND)
    cancel(store, run.id)
    tick(store)
    assert get_schedule(store, schedule_id).status == "completed"


def test_a_cancelled_run_does_not_hold_up_the_next_due_time(
    store: Store, clock: VirtualClock
) -> None:
    add_schedule(store)
    clock.advance(MINUTE)
    tick(store)
    cancel(store, get_runs(store)[0].id)
    clock.advance(MINUTE)
    assert tick(store) == 1

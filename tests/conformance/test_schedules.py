"""Manual work with schedules: names, pages, pause, resume, delete."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.errors import Conflict, NotFound
from duebook.ids import new_id
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    add_spec,
    begin,
    claim,
    get_ledger,
    get_run,
    get_runs,
    get_schedule,
    make_spec,
    settle,
    tick,
)

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.store.base import Store
    from tests.support.backends import Backend


def find(store: Store, name: str, namespace: str = "default") -> str:
    return store.read(lambda tx: tx.schedules.find_schedule(namespace, name))


# -- names


def test_a_new_schedule_is_as_it_was_defined(store: Store) -> None:
    schedule_id = add_schedule(store, labels={"team": "ä"}, description="what for", timeout="5m")
    schedule = get_schedule(store, schedule_id)
    assert (schedule.id, schedule.namespace, schedule.name) == (schedule_id, "default", "job")
    assert (schedule.version, schedule.status, schedule.problem) == (1, "active", None)
    assert (schedule.created_at, schedule.watermark) == (BEGIN, BEGIN)
    assert schedule.next_due_at == BEGIN + MINUTE
    assert schedule.spec == make_spec(labels={"team": "ä"}, description="what for", timeout="5m")


def test_a_name_is_unique_in_its_namespace(store: Store, backend: Backend) -> None:
    schedule_id = add_schedule(store, "job")
    with pytest.raises(Conflict, match="job"):
        add_schedule(store, "job", priority=9)
    add_schedule(store, "job", namespace="other")
    assert get_schedule(store, schedule_id).spec == make_spec()
    assert backend.rows("SELECT count(*) FROM schedules") == [(2,)]
    assert backend.rows("SELECT count(*) FROM schedule_revisions") == [(2,)]


def test_a_name_is_free_again_after_its_schedule_is_deleted(store: Store, book: Book) -> None:
    first = add_schedule(store, "job")
    book.schedules.delete("job")
    second = add_schedule(store, "job")
    assert find(store, "job") == second != first
    with pytest.raises(Conflict):
        add_schedule(store, "job")


def test_a_schedule_is_found_by_name_or_id_in_its_namespace_only(store: Store) -> None:
    schedule_id = add_schedule(store, "job", namespace="mine")
    assert find(store, "job", "mine") == find(store, schedule_id, "mine") == schedule_id
    for name in ("job", schedule_id):
        with pytest.raises(NotFound):
            find(store, name, "other")


def test_what_does_not_exist_is_not_found(store: Store) -> None:
    for name in ("nothing", new_id(), "", "x" * 10_000, "a\0b", "'; --"):
        with pytest.raises(NotFound):
            find(store, name)
    with pytest.raises(NotFound):
        get_schedule(store, new_id())
    with pytest.raises(NotFound):
        store.transact(lambda tx: tx.plans.snapshot(new_id()))


def test_a_schedule_that_never_fires_again_has_no_next_due_time(store: Store) -> None:
    store.transact(
        lambda tx: tx.schedules.create_schedule("id", "default", "j", make_spec(), None, None, "")
    )
    assert get_schedule(store, "id").next_due_at is None
    assert store.read(lambda tx: tx.plans.earliest_wake()) is None


# -- pause and resume


def test_a_paused_schedule_fires_nothing_and_says_why(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    add_schedule(store)
    now = clock.advance(SECOND)
    paused = book.schedules.pause("job", "broken pipe")
    assert (paused.status, paused.paused_at, paused.pause_reason) == ("paused", now, "broken pipe")
    assert store.read(lambda tx: tx.plans.earliest_wake()) is None
    clock.advance(5 * MINUTE)
    assert tick(store) == 0
    assert get_runs(store) == []


def test_a_pause_that_a_later_tick_overtook_is_not_before_what_that_fired(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    add_schedule(store)
    clock.advance(MINUTE)
    assert tick(store) == 1
    clock.advance(-SECOND)
    (run,) = get_runs(store)
    paused = book.schedules.pause("job")
    assert paused.paused_at == run.due_at == BEGIN + MINUTE


def test_what_a_tick_left_waiting_that_overtook_a_pause_waits_on(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    add_schedule(store, overlap="queue")
    for _ in range(2):
        clock.advance(MINUTE)
        tick(store)
    clock.advance(-SECOND)
    assert book.schedules.pause("job").paused_at == BEGIN + 2 * MINUTE
    told = book.schedules.explain("job", at=BEGIN + 2 * MINUTE)
    assert "paused" in str(told)
    assert "on_resume" not in str(told)
    clock.advance(MINUTE)
    book.schedules.resume("job")
    assert "skipped" not in str(book.schedules.explain("job", at=BEGIN + 2 * MINUTE))


def test_what_is_due_when_a_schedule_pauses_waits_until_it_resumes(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    clock.advance(MINUTE)
    book.schedules.pause("job")
    assert get_runs(store) == []
    clock.advance(3 * MINUTE)
    book.schedules.resume("job")
    tick(store)
    (run,) = get_runs(store)
    assert (run.due_at, run.origin) == (BEGIN + MINUTE, "schedule"), "it was seen in time"
    (entry,) = get_ledger(store, schedule_id)
    assert (entry.reason, entry.count, entry.due_to) == ("paused", 3, BEGIN + 4 * MINUTE)


def test_a_pause_ends_by_itself_when_it_was_told_to(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    paused = book.schedules.pause("job", until=BEGIN + 150 * SECOND)
    assert paused.paused_until == BEGIN + 150 * SECOND
    clock.advance(2 * MINUTE)
    assert tick(store) == 0
    clock.advance(MINUTE)
    tick(store)
    resumed = get_schedule(store, schedule_id)
    assert (resumed.status, resumed.paused_at, resumed.paused_until) == ("active", None, None)
    clock.advance(MINUTE)
    assert tick(store) == 1


def test_due_times_of_a_pause_are_in_the_ledger_after_it(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    book.schedules.pause("job")
    clock.advance(3 * MINUTE + SECOND)
    resumed = book.schedules.resume("job")
    assert (resumed.status, resumed.paused_at, resumed.pause_reason) == ("active", None, None)
    assert resumed.next_due_at == BEGIN + 4 * MINUTE
    (entry,) = get_ledger(store, schedule_id)
    assert (entry.reason, entry.count) == ("paused", 3)
    assert (entry.due_from, entry.due_to) == (BEGIN + MINUTE, BEGIN + 3 * MINUTE)
    assert tick(store) == 0
    clock.advance(MINUTE)
    assert tick(store) == 1


def test_a_schedule_that_catches_up_runs_the_latest_after_its_pause(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store, on_resume="catchup")
    book.schedules.pause("job")
    clock.advance(5 * MINUTE + 2 * SECOND)
    book.schedules.resume("job")
    assert tick(store) == 1
    ran = {run.due_at for run in get_runs(store)}
    skipped = sum(entry.count for entry in get_ledger(store, schedule_id))
    assert len(ran) + skipped == 5


def test_pause_and_resume_twice_are_conflicts(book: Book) -> None:
    add_schedule(book.store)
    with pytest.raises(Conflict, match="not paused"):
        book.schedules.resume("job")
    book.schedules.pause("job", "first")
    with pytest.raises(Conflict, match="not active"):
        book.schedules.pause("job", "second")
    assert book.schedules.get("job").pause_reason == "first"


def test_a_run_that_settles_does_not_wake_a_paused_schedule(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    begin(store)
    add_run(store, schedule_id)
    (claimed,) = claim(store)
    book.schedules.pause("job")
    clock.advance(5 * SECOND)
    settle(store, claimed.token)
    assert store.read(lambda tx: tx.plans.earliest_wake()) is None
    assert book.schedules.get("job").status == "paused"


def test_a_manual_run_is_accepted_while_paused(book: Book) -> None:
    add_schedule(book.store)
    begin(book.store)
    book.schedules.pause("job")
    run = book.schedules.trigger("job", {"now": True})
    (claimed,) = claim(book.store)
    assert claimed.run.id == run.id
    assert claimed.run.payload == {"now": True}
    assert book.schedules.get("job").status == "paused"


# -- delete


def test_a_deleted_schedule_is_gone_and_its_history_stays(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    clock.advance(MINUTE)
    tick(store)
    (run,) = get_runs(store)
    book.schedules.delete("job")
    for call in (book.schedules.get, book.schedules.delete, book.schedules.pause):
        with pytest.raises(NotFound):
            call("job")
    assert book.schedules.list() == []
    assert get_run(store, run.id).schedule == "job"
    assert [r.id for r in get_runs(store, schedule_id)] == [run.id]
    clock.advance(5 * MINUTE)
    assert tick(store) == 0


def test_deleting_cancels_queued_runs_and_lets_running_ones_finish(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    begin(store)
    add_run(store, schedule_id)
    (claimed,) = claim(store)
    waiting = add_run(store, schedule_id)
    now = clock.advance(SECOND)
    book.schedules.delete("job")
    cancelled = get_run(store, waiting)
    assert (cancelled.status, cancelled.reason) == ("cancelled", "deleted")
    assert cancelled.finished_at == now
    assert get_run(store, claimed.run.id).status == "running"
    assert settle(store, claimed.token)
    assert get_run(store, claimed.run.id).status == "succeeded"


def test_due_times_pending_at_the_deletion_are_in_the_ledger(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    clock.advance(3 * MINUTE)
    book.schedules.delete("job")
    (entry,) = get_ledger(store, schedule_id)
    assert (entry.reason, entry.count) == ("deleted", 3)


def test_a_schedule_is_deleted_once(store: Store, book: Book) -> None:
    schedule_id = add_schedule(store)
    book.schedules.delete(schedule_id)
    with pytest.raises(NotFound):
        book.schedules.delete(schedule_id)


def test_deleting_another_schedule_leaves_this_one_alone(store: Store, book: Book) -> None:
    kept = add_schedule(store, "kept")
    add_schedule(store, "gone")
    run_id = add_run(store, kept)
    book.schedules.delete("gone")
    assert get_run(store, run_id).status == "queued"
    assert book.schedules.get("kept").status == "active"


def test_a_book_sees_no_schedule_of_another_namespace(store: Store) -> None:
    schedule_id = add_schedule(store, "job", namespace="mine")
    other = Book(store, "other")
    assert other.schedules.list() == []
    for name in ("job", schedule_id):
        for call in (
            other.schedules.get,
            other.schedules.delete,
            other.schedules.pause,
            other.schedules.resume,
            other.schedules.trigger,
            other.schedules.ledger,
            other.schedules.skip_next,
        ):
            with pytest.raises(NotFound):
                call(name)
    assert Book(store, "mine").schedules.get("job").status == "active"


def test_a_schedule_made_through_the_book_is_due_as_it_says(
    book: Book, clock: VirtualClock
) -> None:
    made = book.schedules.create("job", trigger={"every": "1h"}, target={"shell": "true"})
    due: list[datetime | None] = [made.next_due_at]
    for _ in range(2):
        clock.advance(60 * MINUTE)
        tick(book.store)
        due.append(book.schedules.get("job").next_due_at)
    assert due == [BEGIN + hours * 60 * MINUTE for hours in (1, 2, 3)]


def test_a_definition_that_cannot_be_read_does_not_hide_the_others(book: Book) -> None:
    """An older node meets a priority that only a newer one allows."""
    add_spec(book.store, replace(make_spec(), priority=1_000_000), "strange")
    add_schedule(book.store, "plain")
    plain, strange = book.schedules.list()
    assert (plain.spec, plain.problem) == (make_spec(), None)
    assert strange.spec is None
    assert strange.problem is not None
    assert "priority" in strange.problem


def test_a_schedule_whose_definition_cannot_be_read_can_be_deleted(book: Book) -> None:
    add_spec(book.store, replace(make_spec(), priority=1_000_000), "strange")
    book.schedules.delete("strange")
    assert book.schedules.list() == []


# -- when it was changed, and when its runs were created


def test_a_schedule_tells_when_its_definition_changed(store: Store, clock: VirtualClock) -> None:
    add_schedule(store, "job")
    schedules = Book(store).schedules
    assert schedules.get("job").updated_at == clock.now
    clock.advance(MINUTE)
    assert schedules.update("job", grace="5m").updated_at == clock.now
    changed_at = clock.now
    clock.advance(MINUTE)
    schedules.pause("job")
    assert [one.updated_at for one in schedules.list()] == [changed_at]


def test_a_schedule_tells_when_its_latest_run_was_created(
    store: Store, clock: VirtualClock
) -> None:
    add_schedule(store, "job", catchup="skip")
    schedules = Book(store).schedules
    assert schedules.get("job").last_enqueued_at is None
    session = begin(store)
    made: list[datetime] = []
    for act in (
        lambda: tick(store),
        lambda: schedules.trigger("job"),
        lambda: schedules.backfill("job", BEGIN, BEGIN + 3 * MINUTE),
    ):
        clock.advance(10 * MINUTE if made else MINUTE)
        tick(store)
        made.append(clock.now)
        act()
        assert schedules.get("job").last_enqueued_at == clock.now
        clock.advance(SECOND)
        while claims := claim(store, session):
            for one in claims:
                settle(store, one.token)
        assert schedules.list()[0].last_enqueued_at == made[-1]
        assert schedules.update("job", priority=len(made)).last_enqueued_at == made[-1]

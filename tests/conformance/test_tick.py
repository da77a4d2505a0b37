"""Take, plan and commit: due times become runs or ledger entries, all together or not at all."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.engine.ticker import Ticker
from duebook.model.plan import DueException, Fire, Plan, Reason, Skip
from duebook.planner import plan
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
    get_runs,
    get_schedule,
    make_spec,
    run_tick,
    settle,
    tick,
)

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Decision, Snapshot
    from duebook.store.base import Store, Tx
    from tests.support.backends import Backend


class Boom(Exception):
    """The error that a test raises in a transaction."""


def take(store: Store, limit: int = 1_000) -> list[Snapshot]:
    return store.transact(lambda tx: tx.plans.take(limit).snapshots)


def take_names(store: Store, limit: int = 1_000) -> list[str]:
    return [snapshot.name for snapshot in take(store, limit)]


def add_three_due(store: Store, clock: VirtualClock) -> None:
    for name, minutes in (("third", 3), ("first", 1), ("second", 2)):
        add_schedule(store, name, trigger={"at": (BEGIN + minutes * MINUTE).isoformat()})
    clock.advance(10 * MINUTE)


# -- take


def test_take_returns_due_schedules_the_most_overdue_first(
    store: Store, clock: VirtualClock
) -> None:
    add_three_due(store, clock)
    assert take_names(store) == ["first", "second", "third"]


def test_take_returns_no_more_than_its_limit(store: Store, clock: VirtualClock) -> None:
    add_three_due(store, clock)
    assert take_names(store, limit=2) == ["first", "second"]


def test_take_finds_a_schedule_at_its_due_time_and_not_a_moment_before(
    store: Store, clock: VirtualClock
) -> None:
    add_schedule(store)
    clock.advance(MINUTE - timedelta(microseconds=1))
    assert take_names(store) == []
    clock.advance(timedelta(microseconds=1))
    assert take_names(store) == ["job"]


def test_take_leaves_paused_completed_and_deleted_schedules_alone(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    for name in ("active", "paused", "deleted"):
        add_schedule(store, name)
    add_schedule(store, "completed", trigger={"at": (BEGIN + SECOND).isoformat()})
    clock.advance(SECOND)
    tick(store)
    begin(store)
    (claimed,) = claim(store)
    settle(store, claimed.token)
    tick(store)
    book.schedules.pause("paused")
    book.schedules.delete("deleted")
    assert book.schedules.get("completed").status == "completed"
    clock.advance(MINUTE)
    assert take_names(store) == ["active"]


def test_a_taken_schedule_is_due_until_its_plan_is_committed(
    store: Store, clock: VirtualClock
) -> None:
    add_schedule(store)
    clock.advance(MINUTE)
    assert take_names(store) == take_names(store) == ["job"]
    tick(store)
    assert take_names(store) == []


def test_a_snapshot_has_the_definition_and_the_watermark(store: Store, clock: VirtualClock) -> None:
    schedule_id = add_schedule(store, priority=7, payload={"a": [1, "ä"]})
    clock.advance(MINUTE)
    (snapshot,) = take(store)
    assert snapshot.schedule_id == schedule_id
    assert (snapshot.name, snapshot.version, snapshot.status) == ("job", 1, "active")
    assert snapshot.spec == make_spec(priority=7, payload={"a": [1, "ä"]})
    assert snapshot.watermark == BEGIN
    assert snapshot.active == ()
    assert snapshot.exceptions == ()


def test_a_snapshot_names_the_oldest_active_run_and_what_people_said(
    store: Store, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    said = (
        DueException(BEGIN + MINUTE, "skip"),
        DueException(BEGIN + 2 * MINUTE, "moved_away", BEGIN + 3 * SECOND),
        DueException(BEGIN + 3 * SECOND, "moved_here"),
    )
    for exception in said:
        store.transact(lambda tx, e=exception: tx.schedules.add_exception(schedule_id, e))  # type: ignore[misc]
    oldest = add_run(store, schedule_id)
    clock.advance(SECOND)
    add_run(store, schedule_id)
    snapshot = store.transact(lambda tx: tx.plans.snapshot(schedule_id))
    assert [(run.id, run.due_at, run.since) for run in snapshot.active] == [(oldest, None, BEGIN)]
    assert set(snapshot.exceptions) == set(said)


def test_a_run_that_ended_is_not_active(store: Store) -> None:
    schedule_id = add_schedule(store)
    begin(store)
    add_run(store, schedule_id)
    (claimed,) = claim(store)
    assert store.transact(lambda tx: tx.plans.snapshot(schedule_id)).active[0].id == claimed.run.id
    settle(store, claimed.token)
    assert store.transact(lambda tx: tx.plans.snapshot(schedule_id)).active == ()


# -- commit


def test_a_due_time_becomes_a_run_and_the_schedule_moves_on(
    store: Store, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store, queue="slow", priority=5)
    now = clock.advance(MINUTE + SECOND)
    assert tick(store) == 1
    (run,) = get_runs(store)
    assert (run.schedule_id, run.schedule, run.version) == (schedule_id, "job", 1)
    assert (run.due_at, run.origin, run.status) == (BEGIN + MINUTE, "schedule", "queued")
    assert (run.queue, run.priority, run.attempt, run.losses) == ("slow", 5, 0, 0)
    assert (run.created_at, run.ready_at, run.claimed_at) == (now, now, None)
    assert run.trigger == "schedule:every 1m"
    schedule = get_schedule(store, schedule_id)
    assert (schedule.watermark, schedule.next_due_at) == (now, BEGIN + 2 * MINUTE)
    assert get_ledger(store, schedule_id) == []


def test_a_due_time_is_skipped_while_a_run_is_active(store: Store, clock: VirtualClock) -> None:
    schedule_id = add_schedule(store)
    clock.advance(MINUTE)
    tick(store)
    (run,) = get_runs(store)
    now = clock.advance(MINUTE)
    assert tick(store, session_id="node-7") == 0
    assert [run.id for run in get_runs(store)] == [run.id]
    (entry,) = get_ledger(store, schedule_id)
    assert (entry.due_from, entry.due_to, entry.count, entry.exact) == (now, now, 1, True)
    assert (entry.reason, entry.at) == ("overlap", now)
    assert entry.facts == {"run": run.id, "since": "2026-01-05T12:01:00Z"}


def test_the_ledger_remembers_which_session_decided(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    add_schedule(store, catchup="skip")
    clock.advance(10 * MINUTE)
    tick(store, session_id="node-7")
    assert backend.rows("SELECT DISTINCT session_id FROM ledger") == [("node-7",)]


def test_commit_uses_up_the_exceptions_of_the_due_times_it_decides(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    for minutes in (1, 2):
        said = DueException(BEGIN + minutes * MINUTE, "skip")
        store.transact(lambda tx, e=said: tx.schedules.add_exception(schedule_id, e))  # type: ignore[misc]
    clock.advance(MINUTE)
    assert tick(store) == 0
    assert [entry.reason for entry in get_ledger(store, schedule_id)] == ["skipped_by_user"]
    assert len(backend.rows("SELECT due_at FROM schedule_exceptions")) == 1


def test_commit_counts_its_runs(store: Store, clock: VirtualClock) -> None:
    for name in ("a", "b", "c"):
        add_schedule(store, name)
    clock.advance(MINUTE)
    assert tick(store, limit=2) == 2
    assert tick(store) == 1
    assert tick(store) == 0


def test_commit_of_nothing_changes_nothing(store: Store) -> None:
    assert store.transact(lambda tx: tx.plans.commit([], None)) == 0


def test_when_the_transaction_raises_after_commit_nothing_stays(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    busy, said = add_schedule(store, "busy"), add_schedule(store, "said")
    add_schedule(store, "plain")
    add_run(store, busy)
    store.transact(
        lambda tx: tx.schedules.add_exception(said, DueException(BEGIN + MINUTE, "skip"))
    )
    before = everything(backend)
    clock.advance(MINUTE)

    def work(tx: Tx) -> None:
        assert run_tick(tx) == 1
        raise Boom

    with pytest.raises(Boom):
        store.transact(work)
    assert everything(backend) == before
    assert tick(store) == 1
    assert everything(backend) != before


def everything(backend: Backend) -> dict[str, list[tuple[object, ...]]]:
    tables = ("runs", "ledger", "schedule_state", "schedule_exceptions")
    return {table: backend.rows(f"SELECT * FROM {table} ORDER BY 1, 2, 3") for table in tables}  # noqa: S608


# -- at most one run per due time


def plan_of(snapshot: Snapshot, *decisions: Decision) -> Plan:
    return replace(plan(snapshot, BEGIN + MINUTE), decisions=decisions)


def test_a_due_time_that_has_a_run_already_becomes_a_ledger_entry(
    store: Store, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    clock.advance(MINUTE)
    (snapshot,) = take(store)
    planned = plan(snapshot, clock.now)
    assert store.transact(lambda tx: tx.plans.commit([planned], None)) == 1
    assert store.transact(lambda tx: tx.plans.commit([planned], "late")) == 0
    assert [run.due_at for run in get_runs(store)] == [BEGIN + MINUTE]
    (entry,) = get_ledger(store, schedule_id)
    assert (entry.reason, entry.count) == (Reason.ALREADY_STARTED, 1)
    assert (entry.due_from, entry.due_to) == (BEGIN + MINUTE, BEGIN + MINUTE)


def test_many_runs_of_few_kinds_each_get_their_own_values(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    book.namespaces.limit("shop", max_priority=5)
    wanted = {}
    for number in range(60):
        namespace, priority = ("shop", 9) if number % 3 == 0 else ("default", number % 3)
        task, every = f"task-{number % 2}", f"{number % 5 + 1}s"
        definition = {"trigger": {"every": every}, "target": task, "priority": priority}
        id_ = add_schedule(store, f"s{number:02}", namespace, **definition)
        wanted[id_] = (namespace, min(priority, 5 if namespace == "shop" else 99), task, every)
    clock.advance(60 * SECOND)
    planned = [plan(snapshot, clock.now) for snapshot in take(store)]
    most = max(planned, key=lambda one: len(one.decisions))
    store.transact(lambda tx: tx.plans.commit([most], None))
    again = [one for one in planned if one is not most] + [most]
    assert store.transact(lambda tx: tx.plans.commit(again, None)) == 59
    runs = [run for place in ("default", "shop") for run in Book(store, place).runs.list(limit=100)]
    found = {
        run.schedule_id: (run.namespace, run.priority, run.task, run.trigger.rpartition(" ")[2])
        for run in runs
    }
    assert found == wanted
    assert all(run.interval and run.interval.end == run.due_at for run in runs)
    reasons = {entry.reason for entry in get_ledger(store, most.schedule_id)}
    assert reasons == {Reason.OVERLAP, Reason.ALREADY_STARTED}


def test_a_due_time_that_ended_is_not_run_again(store: Store, clock: VirtualClock) -> None:
    add_schedule(store)
    clock.advance(MINUTE)
    (snapshot,) = take(store)
    planned = plan(snapshot, clock.now)
    store.transact(lambda tx: tx.plans.commit([planned], None))
    begin(store)
    settle(store, claim(store)[0].token)
    assert store.transact(lambda tx: tx.plans.commit([planned], None)) == 0
    assert [run.status for run in get_runs(store)] == ["succeeded"]


def test_a_plan_that_fires_a_due_time_twice_starts_it_once(
    store: Store, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store, overlap="allow")
    clock.advance(MINUTE)
    (snapshot,) = take(store)
    fire = Fire(BEGIN + MINUTE, "schedule")
    other = Fire(BEGIN + SECOND, "schedule")
    planned = plan_of(snapshot, fire, other, fire)
    assert store.transact(lambda tx: tx.plans.commit([planned], None)) == 2
    assert {run.due_at for run in get_runs(store)} == {fire.due_at, other.due_at}
    assert [entry.reason for entry in get_ledger(store, schedule_id)] == ["already_started"]


def test_the_same_due_time_of_two_schedules_is_two_runs(store: Store, clock: VirtualClock) -> None:
    add_schedule(store, "a")
    add_schedule(store, "b")
    clock.advance(MINUTE)
    assert tick(store) == 2


def test_two_stores_that_tick_at_once_start_each_due_time_once(
    backend: Backend, clock: VirtualClock
) -> None:
    stores = [backend.open(), backend.open()]
    for number in range(20):
        add_schedule(stores[0], f"job-{number}")
    clock.advance(MINUTE)
    ready = threading.Barrier(4)
    counts: list[int] = []

    def work(store: Store) -> None:
        ready.wait()
        counts.extend(tick(store, limit=7) for _ in range(4))

    threads = [threading.Thread(target=work, args=(store,)) for store in stores * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == len(get_runs(stores[0])) == 20
    assert backend.rows("SELECT count(*) FROM ledger") == [(0,)]


# -- versions


def edit_behind_its_back(backend: Backend, schedule_id: str) -> None:
    """The schedule gets version 2 after a plan for version 1 was made."""
    backend.write(
        "INSERT INTO schedule_revisions (schedule_id, version, spec, valid_from, by) "
        "SELECT schedule_id, 2, spec, valid_from, by FROM schedule_revisions WHERE schedule_id = ?",
        schedule_id,
    )
    backend.write("UPDATE schedules SET version = 2 WHERE id = ?", schedule_id)
    backend.write("UPDATE schedule_state SET version = 2 WHERE schedule_id = ?", schedule_id)


def test_a_plan_of_another_version_changes_nothing(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    said = DueException(BEGIN + MINUTE, "skip")
    store.transact(lambda tx: tx.schedules.add_exception(schedule_id, said))
    clock.advance(MINUTE)
    (snapshot,) = take(store)
    skip = Skip(BEGIN + SECOND, BEGIN + SECOND, 1, True, Reason.MISSED)
    stale = replace(plan_of(snapshot, skip, Fire(BEGIN + MINUTE, "schedule")), used=(said,))
    edit_behind_its_back(backend, schedule_id)
    before = everything(backend)
    assert store.transact(lambda tx: tx.plans.commit([stale], None)) == 0
    assert everything(backend) == before


def test_a_plan_of_another_version_does_not_hold_up_its_neighbours(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    edited = add_schedule(store, "edited")
    add_schedule(store, "plain")
    clock.advance(MINUTE)
    plans = [plan(snapshot, clock.now) for snapshot in take(store)]
    edit_behind_its_back(backend, edited)
    assert store.transact(lambda tx: tx.plans.commit(plans, None)) == 1
    assert [run.schedule for run in get_runs(store)] == ["plain"]


def test_a_plan_of_a_version_that_never_was_changes_nothing(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    add_schedule(store)
    clock.advance(MINUTE)
    (snapshot,) = take(store)
    unknown = replace(plan(snapshot, clock.now), version=9)
    before = everything(backend)
    assert store.transact(lambda tx: tx.plans.commit([unknown], None)) == 0
    assert everything(backend) == before


def test_a_definition_that_cannot_be_read_does_not_hold_up_the_others(
    store: Store, clock: VirtualClock
) -> None:
    """As on an older node that reads a priority or a zone that only a newer one supports."""
    add_spec(store, replace(make_spec(), priority=1_000_000), "strange")
    add_schedule(store, "plain")
    clock.advance(MINUTE)
    tick(store)
    assert [run.schedule for run in get_runs(store)] == ["plain"]


def test_a_new_definition_is_not_mixed_up_with_one_that_was_rolled_back(store: Store) -> None:
    schedule_id = "01900000-0000-7000-8000-000000000001"

    def create(tx: Tx, priority: int) -> Snapshot:
        tx.schedules.create_schedule(
            schedule_id, "default", "job", make_spec(priority=priority), None, None, ""
        )
        return tx.plans.snapshot(schedule_id)

    def create_and_fail(tx: Tx) -> None:
        assert create(tx, priority=1).spec.priority == 1
        raise Boom

    with pytest.raises(Boom):
        store.transact(create_and_fail)
    assert store.transact(lambda tx: create(tx, priority=2)).spec.priority == 2


# -- waking


def test_the_earliest_wake_is_that_of_the_next_active_schedule(store: Store, book: Book) -> None:
    assert store.read(lambda tx: tx.plans.earliest_wake()) is None
    add_schedule(store, "late", trigger={"at": (BEGIN + 5 * MINUTE).isoformat()})
    add_schedule(store, "soon", trigger={"at": (BEGIN + 2 * MINUTE).isoformat()})
    assert store.read(lambda tx: tx.plans.earliest_wake()) == BEGIN + 2 * MINUTE
    book.schedules.pause("soon")
    assert store.read(lambda tx: tx.plans.earliest_wake()) == BEGIN + 5 * MINUTE


def test_a_one_off_is_looked_at_until_its_run_has_ended(store: Store, clock: VirtualClock) -> None:
    schedule_id = add_schedule(store, trigger={"at": (BEGIN + MINUTE).isoformat()})
    clock.advance(MINUTE)
    tick(store)
    assert get_schedule(store, schedule_id).status == "active"
    assert store.read(lambda tx: tx.plans.earliest_wake()) == clock.now + MINUTE
    begin(store)
    (claimed,) = claim(store)
    now = clock.advance(SECOND)
    settle(store, claimed.token)
    assert store.read(lambda tx: tx.plans.earliest_wake()) == now
    tick(store)
    assert get_schedule(store, schedule_id).status == "completed"
    assert store.read(lambda tx: tx.plans.earliest_wake()) is None


def test_facts_of_the_ledger_are_json_with_times_as_text(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    clock.advance(10 * MINUTE + SECOND)
    tick(store)
    coalesced = [e for e in get_ledger(store, schedule_id) if e.reason == "coalesced"]
    assert [(e.count, e.facts) for e in coalesced] == [(8, {"into": "2026-01-05T12:09:00Z"})]
    texts = backend.rows("SELECT facts FROM ledger WHERE reason = 'coalesced'")
    assert json.loads(texts[0][0]) == coalesced[0].facts


def test_a_paused_schedule_that_cannot_be_read_when_its_pause_ends_holds_up_nobody(
    store: Store, book: Book, backend: Backend, clock: VirtualClock
) -> None:
    job = add_schedule(store)
    add_schedule(store, "other", overlap="allow")
    book.schedules.pause("job", until=BEGIN + 90 * SECOND)
    broken = json.dumps(make_spec().to_json() | {"priority": 1_000_000})
    backend.write("UPDATE schedule_revisions SET spec = ? WHERE schedule_id = ?", broken, job)
    again = backend.open()
    ticker = Ticker(again)
    for _ in range(5):
        clock.advance(MINUTE)
        ticker.step()
    assert [run.schedule for run in get_runs(store)] == ["other"] * 5
    problem = get_schedule(store, job).problem
    assert problem is not None
    assert "priority" in problem


def test_a_schedule_whose_planning_raises_holds_up_nobody(
    store: Store, book: Book, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_schedule(store)
    add_schedule(store, "other", overlap="allow")
    book.schedules.pause("job", until=BEGIN + 90 * SECOND)

    def fragile(snapshot: Snapshot, now: datetime) -> Plan:
        if snapshot.schedule_id == job:
            raise RuntimeError("no such zone")
        return plan(snapshot, now)

    monkeypatch.setattr("duebook.engine.ticker.plan", fragile)
    for _ in range(5):
        clock.advance(MINUTE)
        Ticker(store).step()
    assert [run.schedule for run in get_runs(store)] == ["other"] * 5
    assert get_schedule(store, job).problem == "RuntimeError: no such zone"
    assert get_schedule(store, job).status == "paused"

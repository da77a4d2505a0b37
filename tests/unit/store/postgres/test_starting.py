"""Runs that begin in the transaction that plans them: whose they are, and which ones wait."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from duebook.book import Book
from duebook.model.queue import Queue
from duebook.model.serving import ALL, Serving
from duebook.store.postgres.connection import SCHEMA
from duebook.store.values import FreeWorker, News
from tests.support.builders import (
    MINUTE,
    add_run,
    add_schedule,
    begin,
    claim,
    get_run,
    get_runs,
    lose,
    run_tick,
    settle,
)
from tests.support.builders import VirtualClock as Clock
from tests.support.postgres_stores import opened, query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.model.run import Claim
    from duebook.store.base import Tx
    from duebook.store.postgres import PostgresStore

HOUR: Final = timedelta(hours=1)
WORKER: Final = FreeWorker("node-1", 10, ("default",), ("known",), ALL)
FREE: Final = {"overlap": "allow"}
ALONE: Final = {"overlap": "skip"}
KINDS = pytest.mark.parametrize("kind", [FREE, ALONE], ids=["at will", "one at a time"])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(postgres_url: str, clock: Clock) -> Iterator[PostgresStore]:
    with opened(postgres_url, clock) as made:
        begin(made, lease=HOUR)
        yield made


def start(store: PostgresStore, worker: FreeWorker = WORKER) -> list[Claim]:
    """Plan what is due; returns what the worker was given to begin."""

    def work(tx: Tx) -> list[Claim]:
        tx.plans.worker = worker
        run_tick(tx)
        return list(tx.plans.claims)

    return store.transact(work)


def know(store: PostgresStore, clock: Clock) -> None:
    """Have definitions read, so that the next tick knows which runs exclude each other."""
    clock.advance(MINUTE)
    for begun in start(store):
        settle(store, begun.token)
    for run in get_runs(store):
        if run.status == "queued":
            store.transact(lambda tx, id_=run.id: tx.runs.cancel(id_, "cancelled"))  # type: ignore[misc]
    clock.advance(MINUTE)


def statuses(store: PostgresStore) -> list[str]:
    """Of the runs of the last due time."""
    runs = get_runs(store)
    latest = max(run.due_at for run in runs if run.due_at is not None)
    return sorted(run.status for run in runs if run.due_at == latest)


# -- what begins


@KINDS
def test_what_its_worker_can_begin_runs_from_the_start(
    store: PostgresStore, clock: Clock, kind: dict[str, str]
) -> None:
    add_schedule(store, **kind, priority=3, payload={"a": 1})
    know(store, clock)
    (begun,) = start(store)
    run = get_run(store, begun.run.id)
    assert begun.run == run._replace(payload=None)
    assert (run.status, run.attempt, run.node) == ("running", 1, "host-of-node-1")
    assert run.created_at == run.claimed_at == run.started_at == clock.now
    assert begun.payload == {"a": 1}
    assert claim(store) == []
    assert settle(store, begun.token)
    assert get_run(store, run.id).status == "succeeded"


def test_nobody_is_told_of_work_that_has_begun(store: PostgresStore, clock: Clock) -> None:
    add_schedule(store, **FREE)
    know(store, clock)
    store.news(0)
    start(store)
    assert News.WORK not in store.news(0)
    clock.advance(MINUTE)
    start(store, WORKER._replace(free=0))
    assert News.WORK in store.news(0)


def test_a_priority_is_lowered_to_what_its_namespace_may_have(
    store: PostgresStore, clock: Clock
) -> None:
    Book(store).namespaces.limit("default", max_priority=2)
    add_schedule(store, **FREE)
    raised = ('"trigger"', '"priority":9,"trigger"')
    query(store._url, "UPDATE schedule_revisions SET spec = replace(spec, %s, %s)", *raised)
    clock.advance(MINUTE)
    (begun,) = start(store)
    assert (begun.run.priority, begun.spec.priority) == (2, 9)


# -- what waits


@pytest.mark.parametrize(
    ("definition", "worker"),
    [
        ({"queue": "other"}, WORKER),
        ({"target": "unknown"}, WORKER),
        ({}, WORKER._replace(namespaces=Serving(("shop",)))),
        ({}, WORKER._replace(free=0)),
        ({"max_concurrent": 2}, WORKER),
        ({}, WORKER._replace(session_id="nobody")),
    ],
    ids=["queue", "task", "namespace", "no slot", "counted by its schedule", "no session"],
)
def test_a_run_that_the_worker_may_not_begin_waits(
    store: PostgresStore, clock: Clock, definition: dict[str, Any], worker: FreeWorker
) -> None:
    add_schedule(store, **FREE | definition)
    clock.advance(MINUTE)
    assert start(store, worker) == []
    assert statuses(store) == ["queued"]


def test_when_there_are_fewer_slots_than_runs_a_claim_decides_whose_turn_it_is(
    store: PostgresStore, clock: Clock
) -> None:
    for number in range(3):
        add_schedule(store, f"job-{number}", **FREE)
    clock.advance(MINUTE)
    assert start(store, WORKER._replace(free=2)) == []
    assert statuses(store) == ["queued"] * 3


def test_some_runs_of_a_tick_begin_and_others_wait(store: PostgresStore, clock: Clock) -> None:
    add_schedule(store, "free", **FREE)
    add_schedule(store, "counted", **FREE, max_concurrent=1)
    clock.advance(MINUTE)
    (begun,) = start(store)
    assert begun.run.schedule == "free"
    assert statuses(store) == ["queued", "running"]


@KINDS
def test_a_queue_with_limits_is_left_to_claims(
    store: PostgresStore, clock: Clock, kind: dict[str, str]
) -> None:
    for number in range(3):
        add_schedule(store, f"job-{number}", **kind)
    know(store, clock)
    store.transact(lambda tx: tx.queues.limit_queue(Queue("default", concurrency=2)))
    assert start(store) == []
    assert len(claim(store)) == 2
    assert claim(store) == []


@pytest.mark.parametrize("how", ["ended", "expired"])
def test_a_session_that_is_over_begins_nothing(
    store: PostgresStore, clock: Clock, how: str
) -> None:
    add_schedule(store, trigger={"every": "2h"}, **FREE)
    clock.advance(2 * HOUR)
    if how == "ended":
        begin(store, "node-2", HOUR)
        store.transact(lambda tx: tx.nodes.end_session("node-2"))
        assert start(store, WORKER._replace(session_id="node-2")) == []
    else:
        assert start(store) == []
    assert statuses(store) == ["queued"]


def test_a_session_that_is_being_buried_begins_nothing_and_nobody_waits(
    store: PostgresStore, clock: Clock
) -> None:
    """Whoever buries it locks it before schedules; to wait for it here would be a deadlock."""
    add_schedule(store, **FREE)
    clock.advance(MINUTE)
    with psycopg.connect(store._url, options=f"-c search_path={SCHEMA}") as connection:
        connection.execute("SELECT 1 FROM node_sessions WHERE id = 'node-1' FOR UPDATE")
        assert start(store) == []
    assert statuses(store) == ["queued"]


def test_a_session_is_not_buried_between_its_claim_and_the_commit(
    store: PostgresStore, clock: Clock
) -> None:
    add_schedule(store, **FREE)
    clock.advance(MINUTE)

    def work(tx: Tx) -> list[tuple[Any, ...]]:
        tx.plans.worker = WORKER
        run_tick(tx)
        assert tx.plans.claims
        free = "SELECT id FROM node_sessions WHERE id = 'node-1' FOR UPDATE SKIP LOCKED"
        return query(store._url, free)

    assert store.transact(work) == []


# -- runs of a schedule that exclude each other


def test_a_run_waits_while_another_one_of_its_schedule_is_active(
    store: PostgresStore, clock: Clock
) -> None:
    schedule_id = add_schedule(store, overlap="queue")
    know(store, clock)
    add_run(store, schedule_id)
    start(store)
    assert [run.status for run in get_runs(store) if run.finished_at is None].count("running") == 0
    (first,) = claim(store)
    clock.advance(MINUTE)
    assert start(store) == []
    assert settle(store, first.token)


def test_a_schedule_at_which_a_claim_is_looking_is_left_to_it(
    store: PostgresStore, clock: Clock
) -> None:
    schedule_id = add_schedule(store, **ALONE)
    know(store, clock)
    with psycopg.connect(store._url, options=f"-c search_path={SCHEMA}") as connection:
        lock = "SELECT 1 FROM schedules WHERE id = %s FOR NO KEY UPDATE"
        connection.execute(lock, [schedule_id])
        assert start(store) == []
    assert statuses(store) == ["queued"]
    assert len(claim(store)) == 1


def test_no_claim_looks_at_the_schedule_before_the_commit(
    store: PostgresStore, clock: Clock
) -> None:
    """Else it might begin a run that somebody made since the active ones were read."""
    schedule_id = add_schedule(store, **ALONE)
    know(store, clock)

    def work(tx: Tx) -> list[tuple[Any, ...]]:
        tx.plans.worker = WORKER
        run_tick(tx)
        assert len(tx.plans.claims) == 1
        free = "SELECT 1 FROM schedules WHERE id = %s FOR NO KEY UPDATE SKIP LOCKED"
        return query(store._url, free, schedule_id)

    assert store.transact(work) == []


# -- a person's word, and what is lost


@KINDS
def test_an_acknowledged_pause_holds(
    store: PostgresStore, clock: Clock, kind: dict[str, str]
) -> None:
    add_schedule(store, **kind)
    know(store, clock)
    Book(store).schedules.pause("job")
    assert start(store) == []
    assert all(run.due_at != clock.now for run in get_runs(store))


@KINDS
def test_a_pause_is_not_acknowledged_between_the_plan_and_the_beginning(
    store: PostgresStore, clock: Clock, kind: dict[str, str]
) -> None:
    schedule_id = add_schedule(store, **kind)
    know(store, clock)

    def work(tx: Tx) -> list[tuple[Any, ...]]:
        tx.plans.worker = WORKER
        run_tick(tx)
        assert tx.plans.claims
        pause = "SELECT 1 FROM schedule_state WHERE schedule_id = %s FOR UPDATE SKIP LOCKED"
        return query(store._url, pause, schedule_id)

    assert store.transact(work) == [], "it waits for the commit"


def test_a_due_time_that_has_a_run_begins_none(store: PostgresStore, clock: Clock) -> None:
    add_schedule(store, **FREE)
    clock.advance(MINUTE)
    (first,) = start(store)
    query(
        store._url,
        "UPDATE schedule_state SET wake_at = %s, watermark = %s",
        *(clock.now, clock.now - MINUTE),
    )
    assert start(store) == []
    assert [run.id for run in get_runs(store)] == [first.run.id]


def test_what_a_lost_node_had_begun_is_taken_over(store: PostgresStore, clock: Clock) -> None:
    """Also if it was lost before it began to work, after the commit."""
    add_schedule(store, **FREE)
    clock.advance(MINUTE)
    (begun,) = start(store)
    assert lose(store, "node-1") == 1
    begin(store, "node-2", HOUR)
    (again,) = claim(store, "node-2")
    assert (again.run.id, again.run.attempt, again.run.losses) == (begun.run.id, 2, 1)
    assert not settle(store, begun.token)


def test_what_is_rolled_back_has_not_begun(store: PostgresStore, clock: Clock) -> None:
    add_schedule(store, **FREE)
    clock.advance(MINUTE)

    def work(tx: Tx) -> None:
        tx.plans.worker = WORKER
        run_tick(tx)
        assert tx.plans.claims
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011
        store.transact(work)
    assert get_runs(store) == []
    assert len(start(store)) == 1


def test_a_transaction_that_is_tried_again_counts_only_what_it_began_then(
    store: PostgresStore, clock: Clock
) -> None:
    add_schedule(store, **FREE)
    clock.advance(MINUTE)
    tries: list[list[Claim]] = []

    def work(tx: Tx) -> list[Claim]:
        tx.plans.worker = WORKER
        run_tick(tx)
        tries.append(list(tx.plans.claims))
        if len(tries) == 1:
            raise psycopg.errors.SerializationFailure
        return tries[-1]

    (begun,) = store.transact(work)
    assert [run.id for run in get_runs(store)] == [begun.run.id]
    assert len(tries) == 2

"""Queues with limits: how many runs are under way, and how many begin in a while; fair shares."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.model.queue import Queue, QueueLoad, Rate
from duebook.model.run import Outcome, Token
from tests.conformance.builders import (
    BEGIN,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    find_work,
    settle,
)

if TYPE_CHECKING:
    from duebook.store.base import Store
    from duebook.store.values import Work

SLOW = Queue("slow", concurrency=2)
RARE = Queue("rare", rate=Rate(3, timedelta(seconds=30)))


def add_runs(store: Store, queue: str, number: int, namespace: str = "default") -> list[str]:
    """Ready runs of as many schedules."""
    return [
        add_run(store, add_schedule(store, f"{queue}-{n}", namespace, queue=queue))
        for n in range(number)
    ]


def limit(store: Store, queue: Queue) -> None:
    store.transact(lambda tx: tx.limit_queue(queue))


def work(store: Store, *queues: str) -> Work:
    return find_work(store, queues)


def test_no_more_runs_of_a_queue_are_under_way_than_it_allows(store: Store) -> None:
    limit(store, SLOW)
    add_runs(store, "slow", 5)
    begin(store)
    first = claim(store, queue="slow")
    assert len(first) == 2
    begin(store, "node-2")
    assert claim(store, "node-2", queue="slow") == []
    assert work(store, "slow").places == ()
    settle(store, first[0].token)
    assert work(store, "slow").places == (("slow", "default"),)
    assert len(claim(store, "node-2", queue="slow")) == 1


def test_a_queue_without_limits_is_not_held_up_by_others(store: Store) -> None:
    limit(store, Queue("slow", concurrency=0))
    add_runs(store, "slow", 2)
    add_runs(store, "default", 3)
    begin(store)
    assert claim(store, queue="slow") == []
    assert len(claim(store)) == 3


def test_no_more_runs_of_a_queue_begin_than_its_rate_allows(
    store: Store, clock: VirtualClock
) -> None:
    limit(store, RARE)
    add_runs(store, "rare", 9)
    begin(store, lease=timedelta(hours=1))
    assert len(claim(store, queue="rare")) == 3, "after a rest as many as in a while"
    assert claim(store, queue="rare") == []
    seen = work(store, "rare")
    assert (seen.places, seen.next_at) == ((), BEGIN + 10 * SECOND)
    clock.advance(10 * SECOND)
    assert len(claim(store, queue="rare")) == 1
    clock.advance(15 * SECOND)
    assert len(claim(store, queue="rare")) == 1
    clock.advance(5 * SECOND)
    assert len(claim(store, queue="rare")) == 1, "what was saved is not lost"
    clock.advance(timedelta(hours=1))
    begin(store, "node-2")
    assert len(claim(store, "node-2", queue="rare")) == 3, "a rest saves no more than one while"


def test_a_claim_that_waited_for_its_turn_does_not_refill_the_rate_twice(
    store: Store, clock: VirtualClock
) -> None:
    """Its transaction began before that of the claim that went first."""
    limit(store, RARE)
    add_runs(store, "rare", 20)
    begin(store)
    assert len(claim(store, queue="rare")) == 3
    clock.advance(timedelta(seconds=20))
    assert len(claim(store, queue="rare")) == 2
    clock.advance(timedelta(seconds=-20))
    assert claim(store, queue="rare") == []
    clock.advance(timedelta(seconds=20))
    assert claim(store, queue="rare") == []


def test_a_smaller_claim_leaves_the_rest_of_the_rate_to_others(store: Store) -> None:
    limit(store, RARE)
    add_runs(store, "rare", 9)
    begin(store)
    assert len(claim(store, limit=1, queue="rare")) == 1
    assert len(claim(store, limit=9, queue="rare")) == 2


def test_limits_that_are_changed_keep_what_was_used_up(store: Store) -> None:
    limit(store, RARE)
    add_runs(store, "rare", 9)
    begin(store)
    claim(store, queue="rare")
    limit(store, Queue("rare", rate=Rate(5, timedelta(seconds=30))))
    assert claim(store, queue="rare") == []
    limit(store, Queue("rare", concurrency=4))
    assert len(claim(store, queue="rare")) == 1


def test_a_queue_that_is_freed_has_no_limits(store: Store) -> None:
    limit(store, Queue("slow", concurrency=0))
    add_runs(store, "slow", 3)
    begin(store)
    assert store.transact(lambda tx: tx.free_queue("slow"))
    assert not store.transact(lambda tx: tx.free_queue("slow"))
    assert len(claim(store, queue="slow")) == 3


def test_queues_are_listed_with_their_limits_and_load(store: Store) -> None:
    limit(store, SLOW)
    limit(store, RARE)
    add_runs(store, "slow", 5)
    add_runs(store, "default", 1)
    begin(store)
    claim(store, queue="slow")
    assert store.read(lambda tx: tx.list_queues()) == [
        QueueLoad(Queue("default"), 1, 0),
        QueueLoad(RARE, 0, 0),
        QueueLoad(SLOW, 3, 2),
    ]


def test_work_is_listed_by_queue_and_namespace(store: Store) -> None:
    assert work(store, "default").places == ()
    add_runs(store, "default", 2, "zoo")
    add_runs(store, "default", 2, "alpha")
    add_runs(store, "late", 1)
    assert work(store, "late", "default", "none").places == (
        ("late", "default"),
        ("default", "alpha"),
        ("default", "zoo"),
    )


def test_a_claim_takes_from_its_namespace_only(store: Store) -> None:
    add_runs(store, "default", 3, "zoo")
    (mine,) = add_runs(store, "default", 1, "alpha")
    begin(store)
    claims = claim(store, namespace="alpha")
    assert [claimed.run.id for claimed in claims] == [mine]


def test_many_runs_are_settled_at_once(store: Store) -> None:
    add_runs(store, "default", 4)
    begin(store)
    claims = claim(store)
    done, failed = Outcome("succeeded"), Outcome("failed", "exit", "it broke\0", 3)
    stale = Token(claims[2].run.id, 7, "node-1")
    ended = [(claims[0].token, done), (claims[1].token, failed), (stale, done)]
    for _ in range(2):  # repeating it is harmless
        settled = store.transact(lambda tx: tx.settle_all(ended))
        assert settled == {claims[0].token, claims[1].token}
    runs = store.read(lambda tx: [tx.get_run(claimed.run.id) for claimed in claims])
    assert [run.status for run in runs] == ["succeeded", "failed", "running", "running"]
    assert (runs[1].reason, runs[1].error, runs[1].exit_code) == ("exit", "it broke�", 3)
    assert (runs[0].failures, runs[1].failures) == (0, 1)


def test_runs_that_are_settled_at_once_wake_whom_they_shall(
    store: Store, clock: VirtualClock
) -> None:
    ids = [add_schedule(store, f"job-{n}") for n in range(2)]
    add_schedule(store, "after", depends_on=[{"schedule": "job-0", "within": "1h", "wait": "1h"}])
    for schedule_id in ids:
        add_run(store, schedule_id)
    begin(store)
    claims = claim(store)
    clock.advance(SECOND)
    assert store.read(lambda tx: tx.earliest_wake()) != clock.now
    store.transact(lambda tx: tx.settle_all([(c.token, Outcome("succeeded")) for c in claims]))
    assert store.read(lambda tx: tx.earliest_wake()) == clock.now

"""Claiming: which node gets which run, in which order, and never two of an exclusive schedule."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duebook.balance import check_books
from duebook.model.plan import Fire
from duebook.model.run import Token
from duebook.model.serving import ALL, Serving
from duebook.planner import plan
from duebook.store.values import QueuePart
from tests.support.builders import (
    BEGIN,
    LEASE,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    claimed_run,
    find_work,
    get_run,
    get_runs,
    lose,
    make_spec,
    settle,
    tick,
)

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.run import Claim
    from duebook.store.base import Store, Tx
    from tests.support.backends import Backend


def names(claims: list[Claim]) -> list[str | None]:
    return [claimed.run.schedule for claimed in claims]


# -- what a claim is


def test_a_claim_has_the_run_its_token_and_its_definition(
    store: Store, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store, payload={"a": 1})
    clock.advance(MINUTE)
    tick(store)
    now = clock.advance(SECOND)
    begin(store)
    (claimed,) = claim(store)
    assert claimed.token == Token(claimed.run.id, 1, "node-1")
    assert claimed.spec == make_spec(payload={"a": 1})
    assert claimed.user == "a test"
    assert claimed.run == get_run(store, claimed.run.id)
    assert (claimed.run.status, claimed.run.attempt) == ("running", 1)
    assert (claimed.run.schedule_id, claimed.run.node) == (schedule_id, "host-of-node-1")
    assert (claimed.run.claimed_at, claimed.run.started_at) == (now, now)


def test_a_manual_run_keeps_its_payload_until_it_is_claimed(store: Store) -> None:
    schedule_id = add_schedule(store, overlap="allow")
    begin(store)
    for payload in (None, {}, {"ä": [1, None, "\n"]}):
        add_run(store, schedule_id, payload)
        (claimed,) = claim(store)
        assert claimed.run.payload == payload
        assert (claimed.run.origin, claimed.run.due_at) == ("manual", None)


# -- order


def test_runs_in_the_given_parts_of_a_queue_are_claimed_in_its_order(
    store: Store, clock: VirtualClock
) -> None:
    low, high = (
        add_schedule(store, name, overlap="allow", priority=priority)
        for name, priority in (("low", -1), ("high", 5))
    )
    begin(store)
    for _ in range(3):
        clock.advance(SECOND)
        add_run(store, low)
        add_run(store, high)
    parts = [QueuePart(-100, BEGIN, -6), QueuePart(-5, BEGIN, 0), QueuePart(1, BEGIN, 100)]

    def take(tx: Tx) -> list[Claim]:
        return tx.claims.claim("node-1", "default", 4, parts=parts)

    assert names(store.transact(take)) == ["high", "high", "high", "low"]
    assert names(store.transact(take)) == ["low", "low"]


def test_work_in_the_given_parts_of_a_queue_is_found_also_of_other_namespaces(
    store: Store,
) -> None:
    for namespace in ("billing", "shop", "stock"):
        add_run(store, add_schedule(store, namespace=namespace, overlap="allow"))
    parts = {("default", "shop"): [QueuePart(0, BEGIN, 100)]}
    found = store.look_for_work(["default"], (), (), ALL, parts)
    assert [namespace for _, namespace in found.places] == ["billing", "shop", "stock"]
    served = store.look_for_work(["default"], (), (), Serving(("shop", "stock")), parts)
    assert [namespace for _, namespace in served.places] == ["shop", "stock"]


def test_claims_go_by_priority_then_readiness(store: Store, clock: VirtualClock) -> None:
    begin(store)
    ids = {
        name: add_schedule(store, name, priority=priority)
        for name, priority in (("low", -1), ("high-late", 5), ("high-early", 5), ("normal", 0))
    }
    for name in ("low", "normal", "high-early", "high-late"):
        add_run(store, ids[name])
        clock.advance(SECOND)
    assert names(claim(store, limit=1)) == ["high-early"]
    assert names(claim(store)) == ["high-late", "normal", "low"]


def test_a_claim_takes_no_more_than_its_limit(store: Store) -> None:
    begin(store)
    schedule_id = add_schedule(store, overlap="allow")
    for _ in range(5):
        add_run(store, schedule_id)
    assert len(claim(store, limit=2)) == 2
    assert len(claim(store, limit=10)) == 3
    assert claim(store) == []


def test_a_claim_takes_only_from_its_queue(store: Store) -> None:
    begin(store)
    add_run(store, add_schedule(store, "fast", queue="fast"))
    add_run(store, add_schedule(store, "slow", queue="slow"))
    assert claim(store) == []
    assert names(claim(store, queue="slow")) == ["slow"]
    assert names(claim(store, queue="fast")) == ["fast"]


def next_at(store: Store) -> datetime | None:
    return find_work(store, ["default"]).next_at


def test_a_run_is_not_claimed_before_it_is_ready(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    begin(store)
    add_run(store, add_schedule(store))
    backend.write("UPDATE runs SET ready_at = ready_at + {second}")
    assert next_at(store) == BEGIN + SECOND
    assert claim(store) == []
    clock.advance(SECOND)
    assert names(claim(store)) == ["job"]
    assert next_at(store) is None


def test_the_earliest_ready_time_is_the_next_one_to_come_in_any_queue(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    assert next_at(store) is None
    for seconds, queue in ((0, "now"), (9, "late"), (5, "soon")):
        run_id = add_run(store, add_schedule(store, queue, queue=queue, priority=seconds))
        later = "UPDATE runs SET ready_at = ready_at + ? * {second} WHERE id = ?"
        backend.write(later, seconds, run_id)
    assert next_at(store) == BEGIN + 5 * SECOND
    clock.advance(5 * SECOND)
    assert next_at(store) == BEGIN + 9 * SECOND
    clock.advance(4 * SECOND)
    assert next_at(store) is None


def test_a_queue_has_work_exactly_when_a_claim_would_find_some(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    def has_work(queue: str = "default") -> bool:
        return bool(find_work(store, [queue]).places)

    schedule_id = add_schedule(store)
    begin(store)
    assert not has_work()
    add_run(store, schedule_id)
    assert has_work()
    assert not has_work("other")
    backend.write("UPDATE runs SET ready_at = ready_at + {second}")
    assert not has_work()
    clock.advance(SECOND)
    (claimed,) = claim(store)
    add_run(store, schedule_id)
    assert not has_work()
    settle(store, claimed.token)
    assert has_work()


def test_no_run_is_claimed_twice_by_threads_of_two_stores(backend: Backend) -> None:
    stores = [backend.open(), backend.open()]
    schedule_id = add_schedule(stores[0], overlap="allow")
    for _ in range(40):
        add_run(stores[0], schedule_id)
    for number in range(4):
        begin(stores[0], f"node-{number}")
    ready, claimed = threading.Barrier(4), list[Token]()

    def work(number: int) -> None:
        ready.wait()
        while claims := claim(stores[number % 2], f"node-{number}", limit=3):
            claimed.extend(c.token for c in claims)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({token.run_id for token in claimed}) == len(claimed) == 40
    assert {run.attempt for run in get_runs(stores[0])} == {1}


# -- only live nodes


def test_a_session_that_ended_claims_nothing(store: Store) -> None:
    add_run(store, add_schedule(store))
    begin(store)
    store.transact(lambda tx: tx.nodes.end_session("node-1"))
    assert claim(store) == []


def test_a_session_whose_lease_ran_out_claims_nothing_even_before_its_burial(
    store: Store, clock: VirtualClock
) -> None:
    add_run(store, add_schedule(store))
    begin(store)
    clock.advance(LEASE)
    assert claim(store) == []
    assert store.transact(lambda tx: tx.nodes.renew("node-1", LEASE))
    assert names(claim(store)) == ["job"]


def test_a_buried_session_claims_nothing(store: Store, clock: VirtualClock) -> None:
    add_run(store, add_schedule(store))
    begin(store)
    clock.advance(LEASE)
    store.transact(lambda tx: tx.nodes.bury())
    assert claim(store) == []


def test_a_session_that_nobody_began_claims_nothing(store: Store) -> None:
    add_run(store, add_schedule(store))
    assert claim(store, "nobody") == []
    assert [run.status for run in get_runs(store)] == ["queued"]


# -- exclusive schedules


def test_an_exclusive_schedule_has_at_most_one_run_under_way(store: Store) -> None:
    begin(store)
    begin(store, "node-2")
    schedule_id = add_schedule(store)
    first, second = add_run(store, schedule_id), add_run(store, schedule_id)
    (claimed,) = claim(store, limit=1)
    assert claimed.run.id == first
    assert claim(store) == claim(store, "node-2") == []
    settle(store, claimed.token)
    assert [c.run.id for c in claim(store, "node-2")] == [second]


def test_an_exclusive_schedule_has_at_most_one_run_in_a_batch(store: Store) -> None:
    begin(store)
    schedule_id = add_schedule(store)
    for _ in range(3):
        add_run(store, schedule_id)
    assert len(claim(store, limit=10)) == 1
    assert sorted(run.status for run in get_runs(store)) == ["queued", "queued", "running"]


def test_a_manual_run_waits_for_the_run_of_a_due_time(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    manual = add_run(store, claimed.run.schedule_id or "")
    assert claim(store) == []
    settle(store, claimed.token)
    assert [c.run.id for c in claim(store)] == [manual]


def test_a_manual_run_that_has_begun_keeps_the_run_of_a_due_time_out_and_no_other(
    store: Store, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store, overlap="skip")
    clock.advance(MINUTE)
    begin(store)
    manual = add_run(store, schedule_id)
    snapshot = store.transact(lambda tx: tx.plans.snapshot(schedule_id))
    fired = replace(plan(snapshot, clock.now), decisions=(Fire(clock.now, "schedule"),))
    (begun,) = claim(store)
    assert begun.run.id == manual
    waiting = add_run(store, schedule_id)
    clock.advance(SECOND)
    store.transact(lambda tx: tx.plans.commit([fired], None))
    assert claim(store) == []
    settle(store, begun.token)
    (due,) = claim(store)
    assert due.run.origin == "schedule"
    settle(store, due.token)
    assert [c.run.id for c in claim(store)] == [waiting]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_exclusive_runs_that_must_wait_do_not_take_the_places_of_others(
    store: Store, limit: int
) -> None:
    """A claim that returns fewer runs than asked for tells its node that nothing more is ready."""
    begin(store)
    jammed = add_schedule(store, "jammed", priority=9)
    for _ in range(5):
        add_run(store, jammed)
    other = add_schedule(store, "other", overlap="allow")
    for _ in range(5):
        add_run(store, other)
    assert names(claim(store, limit=limit)) == ["jammed", *["other"] * (limit - 1)]


def test_runs_of_a_schedule_that_allows_it_run_beside_each_other(store: Store) -> None:
    begin(store)
    schedule_id = add_schedule(store, overlap="allow")
    for _ in range(3):
        add_run(store, schedule_id)
    assert len(claim(store, limit=1)) == 1
    assert len(claim(store)) == 2


def test_exclusive_schedules_do_not_wait_for_each_other(store: Store) -> None:
    begin(store)
    for name in ("a", "b", "c"):
        add_run(store, add_schedule(store, name))
    assert len(claim(store)) == 3


def test_an_exclusive_run_that_was_taken_over_is_claimed_once(store: Store) -> None:
    begin(store)
    begin(store, "node-2")
    schedule_id = add_schedule(store)
    first = add_run(store, schedule_id)
    add_run(store, schedule_id)
    claim(store, limit=1)
    assert lose(store, "node-1") == 1
    (again,) = claim(store, "node-2")
    assert again.run.id != first or again.run.attempt == 2
    assert claim(store, "node-2") == []


# -- own runs


def test_own_runs_are_the_running_ones_of_the_session(store: Store) -> None:
    begin(store)
    begin(store, "node-2")
    schedule_id = add_schedule(store, overlap="allow")
    for _ in range(3):
        add_run(store, schedule_id)
    mine = claim(store, limit=2)
    claim(store, "node-2", limit=1)
    settle(store, mine[0].token)
    store.transact(lambda tx: tx.runs.cancel(mine[1].run.id, "cancelled"))
    own = store.read(lambda tx: tx.claims.own_runs("node-1"))
    assert [(run.token, run.cancel_reason) for run in own] == [(mine[1].token, "cancelled")]
    assert [run.cancel_reason for run in store.read(lambda tx: tx.claims.own_runs("node-2"))] == [
        None
    ]


# -- limits under many claimers at once


def claim_all_at_once(backend: Backend, claimers: int, queue: str = "default") -> list[Claim]:
    """Several sessions, each on a store of its own, claim one by one until nothing is left."""
    stores = [backend.open() for _ in range(claimers)]
    for number, store in enumerate(stores):
        begin(store, f"claimer-{number}")
    ready = threading.Barrier(claimers)
    found: list[Claim] = []

    def work(number: int) -> None:
        ready.wait()
        while claims := claim(stores[number], f"claimer-{number}", limit=2, queue=queue):
            found.extend(claims)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(claimers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_an_exclusive_schedule_has_one_run_under_way_whoever_claims(
    backend: Backend, store: Store
) -> None:
    for name in ("a", "b", "c"):
        schedule_id = add_schedule(store, name)
        for _ in range(5):
            add_run(store, schedule_id)
    assert sorted(map(str, names(claim_all_at_once(backend, 8)))) == ["a", "b", "c"]
    assert check_books(store, deep=True).balanced


@pytest.mark.parametrize("most", [1, 3])
def test_a_limit_holds_exactly_whoever_claims(backend: Backend, store: Store, most: int) -> None:
    limited = add_schedule(store, "limited", overlap="allow", max_concurrent=most)
    free = add_schedule(store, "free", overlap="allow")
    for _ in range(8):
        add_run(store, limited)
        add_run(store, free)
    found = names(claim_all_at_once(backend, 8))
    assert found.count("limited") == most
    assert found.count("free") == 8


def test_a_limit_counts_the_runs_of_other_queues(backend: Backend, store: Store) -> None:
    begin(store)
    schedule_id = add_schedule(store, overlap="allow", max_concurrent=2, queue="one")
    for _ in range(4):
        add_run(store, schedule_id)
    backend.write("UPDATE runs SET queue = 'two' WHERE id IN (SELECT max(id) FROM runs)")
    assert len(claim(store, queue="two")) == 1
    assert len(claim(store, queue="one")) == 1

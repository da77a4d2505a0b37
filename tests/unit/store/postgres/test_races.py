"""What two nodes do at the same moment: limits hold, and nothing is doubled or ended too early."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from duebook.engine.advancer import Advancer
from duebook.ids import new_id
from duebook.model.enqueued import load_enqueued
from duebook.model.queue import Queue
from duebook.model.run import Outcome
from tests.support.builders import (
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    get_run,
)
from tests.support.flow_builders import CHAIN, put_flow, start, steps_of
from tests.support.postgres_stores import LOCK_WAITS, opened, query, without_waiting
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.model.run import Claim
    from duebook.store.base import Tx
    from duebook.store.postgres import PostgresStore

NARROW = Queue("narrow", 1, None)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(url: str, clock: VirtualClock) -> Iterator[PostgresStore]:
    with opened(url, clock) as made:
        yield made


def test_a_claim_counts_a_limited_queue_only_when_the_claim_before_it_has_committed(
    url: str, store: PostgresStore, clock: VirtualClock
) -> None:
    store.transact(lambda tx: tx.queues.limit_queue(NARROW))
    for name in ("a", "b"):
        add_run(store, add_schedule(store, name, queue="narrow"))
    for node in ("node-1", "node-2"):
        begin(store, node)
    with opened(url, clock) as other:
        second: list[Claim] = []
        thread = threading.Thread(
            target=lambda: second.extend(claim(other, "node-2", queue="narrow"))
        )

        def work(tx: Tx) -> list[Claim]:
            claimed = tx.claims.claim("node-1", "narrow", 10, (), "default")
            thread.start()
            eventually(lambda: query(url, LOCK_WAITS) or not thread.is_alive())
            return claimed

        first = store.transact(work)
        thread.join()
    assert (len(first), len(second)) == (1, 0), "one at a time"


def test_a_run_that_is_claimed_and_fails_meanwhile_does_not_expire_between_its_attempts(
    url: str, store: PostgresStore, clock: VirtualClock
) -> None:
    """Found as one that nobody has begun; when it is to end, it waits for its second attempt."""
    begin(store)
    options: dict[str, Any] = {"expire_after": "10s", "retry": {"attempts": 2, "delay": "1m"}}
    wanted = load_enqueued("job", {}, None, options)
    run_id = new_id()
    store.transact(lambda tx: tx.enqueued.enqueue(run_id, "default", wanted))
    clock.advance(10 * SECOND)
    points: list[str] = []

    def interfere(point: str) -> None:
        points.append(point)
        if point != "before:expire_runs" or points.count(point) > 1:
            return
        clock.advance(-SECOND)  # it was claimed in time
        (claimed,) = store.transact(
            lambda tx: tx.claims.claim("node-1", "default", 1, ["job"], "default")
        )
        outcome = Outcome("failed", "exit_code")
        assert store.transact(lambda tx: tx.attempts.settle(claimed.token, outcome, MINUTE))
        clock.advance(SECOND)

    with opened(url, clock, interfere) as other:
        assert other.transact(lambda tx: tx.attempts.expire(10)) == 0
    assert "before:expire_runs" in points
    run = get_run(store, run_id)
    assert (run.status, run.attempt) == ("queued", 1)


def test_an_advancer_leaves_alone_what_another_advances(
    url: str, store: PostgresStore, clock: VirtualClock
) -> None:
    put_flow(store, CHAIN)
    run_id = start(store)
    with opened(without_waiting(url), clock) as other:

        def work(tx: Tx) -> int:
            taken = Advancer(store).advance(tx)
            assert other.transact(Advancer(other).advance) == 0
            return taken

        assert store.transact(work) == 1
    assert list(steps_of(store, run_id)) == ["one"]

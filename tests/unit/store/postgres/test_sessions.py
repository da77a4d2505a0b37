"""A claim under way and the session it is for: the node can renew meanwhile, and nobody bury it."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from duebook.model.queue import Queue
from duebook.store.postgres import PostgresStore
from tests.support.builders import LEASE, VirtualClock, add_run, add_schedule, begin, claim
from tests.support.postgres_stores import LOCK_WAITS, query, without_waiting
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.store.base import Tx


@contextmanager
def claiming(url: str, clock: VirtualClock) -> Iterator[PostgresStore]:
    """Books on which a claim of `node-1` waits at the gate of its queue, and nobody else waits."""
    waiting, over = threading.Event(), threading.Event()

    def hook(name: str) -> None:
        if name == "before:get_limiter":
            waiting.set()

    def hold_gate(tx: Tx) -> None:
        tx.queues.limit_queue(Queue("default", concurrency=1))
        claimer.start()
        assert over.wait(PATIENCE)

    with (
        closing(PostgresStore(without_waiting(url), clock)) as store,
        closing(PostgresStore(url, clock, hook)) as other,
    ):
        add_run(store, add_schedule(store))
        begin(store)
        store.transact(lambda tx: tx.queues.limit_queue(Queue("default", concurrency=1)))
        claimer = threading.Thread(target=lambda: claim(other))
        holder = threading.Thread(target=lambda: store.transact(hold_gate))
        holder.start()
        try:
            assert waiting.wait(PATIENCE)
            eventually(lambda: query(url, LOCK_WAITS))
            yield store
        finally:
            over.set()
            holder.join()
            claimer.join()


def test_a_claim_that_waits_for_its_turn_does_not_hold_up_its_nodes_renewal(
    postgres_url: str, clock: VirtualClock
) -> None:
    with claiming(postgres_url, clock) as store:
        assert store.pulse("node-1", LEASE, ["default"]).alive


def test_a_node_is_not_buried_while_it_claims_and_holds_up_nobody_who_would(
    postgres_url: str, clock: VirtualClock
) -> None:
    with claiming(postgres_url, clock) as store:
        clock.advance(2 * LEASE)
        assert store.transact(lambda tx: tx.nodes.bury()) == []
    with closing(PostgresStore(postgres_url, clock)) as store:
        assert store.transact(lambda tx: tx.nodes.bury()) == ["node-1"]
        assert store.transact(lambda tx: tx.attempts.take_over(10)) == 1

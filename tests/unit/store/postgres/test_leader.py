"""A leader that stops in the middle of its commit: the pulses of all nodes go on, its own too."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.store.postgres import PostgresStore
from tests.support.builders import LEASE, MINUTE, VirtualClock, add_schedule, begin, run_tick
from tests.support.postgres_stores import without_waiting
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from duebook.store.base import Tx
    from duebook.store.values import Pulse


def pulse(store: PostgresStore, session: str) -> Pulse:
    return store.pulse(session, LEASE, ["default"], leads=True)


def test_a_leader_in_its_commit_holds_up_no_pulse_and_no_renewal(postgres_url: str) -> None:
    clock, planned, go_on = VirtualClock(), threading.Event(), threading.Event()
    with (
        closing(PostgresStore(postgres_url, clock)) as leader,
        closing(PostgresStore(without_waiting(postgres_url), clock)) as other,
    ):
        add_schedule(other)
        begin(other, "first")
        begin(other, "second", 10 * LEASE)
        term = pulse(leader, "first").term
        assert term is not None
        clock.advance(MINUTE)
        pulse(leader, "first")

        def plan_and_stop(tx: Tx) -> int:
            assert tx.nodes.holds_term("first", term)
            fired = run_tick(tx)
            planned.set()
            assert go_on.wait(PATIENCE)
            return fired

        fired: list[int] = []
        thread = threading.Thread(target=lambda: fired.append(leader.transact(plan_and_stop)))
        thread.start()
        try:
            assert planned.wait(PATIENCE)
            assert pulse(other, "second").term is None
            assert pulse(other, "first").term == term, "its own lease can be renewed meanwhile"
            clock.advance(LEASE + timedelta(seconds=1))
            assert pulse(other, "second").term is None, "nobody leads before that commit is over"
        finally:
            go_on.set()
            thread.join()
        assert fired == [1]
        assert eventually(lambda: pulse(other, "second").term) == term + 1
        assert not leader.transact(lambda tx: tx.nodes.holds_term("first", term))

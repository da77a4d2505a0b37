"""The pulse: a node renews its lease, and sees everything that it waits for, in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.model.consumer import new_consumer
from duebook.store.values import OwnRun
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
    tick,
)

if TYPE_CHECKING:
    from duebook.store.base import Store
    from duebook.store.values import Pulse
    from tests.support.backends import Backend


def pulse(store: Store, session_id: str = "node-1", leads: bool = False) -> Pulse:
    return store.pulse(session_id, LEASE, ["default"], leads)


def test_a_pulse_at_rest_says_that_there_is_nothing(store: Store) -> None:
    begin(store)
    seen = pulse(store)
    assert (seen.now, seen.alive, seen.term, seen.lead_until) == (BEGIN, True, None, None)
    assert (seen.wake_at, seen.queued, seen.ready_at, seen.expiry) == (None, False, None, None)
    assert (seen.deaths, seen.own, seen.sinks) == (False, (), ())


def test_a_pulse_renews_the_lease(store: Store, clock: VirtualClock) -> None:
    begin(store)
    clock.advance(LEASE - SECOND)
    assert pulse(store).alive
    clock.advance(LEASE - SECOND)
    assert store.transact(lambda tx: tx.nodes.bury()) == []


def test_the_pulse_of_a_buried_session_says_so(store: Store, clock: VirtualClock) -> None:
    begin(store)
    clock.advance(LEASE)
    store.transact(lambda tx: tx.nodes.bury())
    assert not pulse(store).alive


def test_a_pulse_tells_when_the_next_schedule_wakes(store: Store) -> None:
    begin(store)
    add_schedule(store)
    assert pulse(store).wake_at == BEGIN + MINUTE


def test_a_pulse_tells_of_work_in_the_node_s_own_queues(store: Store) -> None:
    begin(store)
    add_run(store, add_schedule(store, "other", queue="other"))
    assert not pulse(store).queued
    add_run(store, add_schedule(store))
    assert pulse(store).queued


def test_a_pulse_tells_when_a_run_that_waits_gets_ready(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    store.transact(lambda tx: tx.attempts.hand_back(claimed.token, 9 * SECOND))
    assert pulse(store).ready_at == clock.now + 9 * SECOND


def test_a_pulse_tells_when_the_next_run_expires(store: Store, clock: VirtualClock) -> None:
    begin(store)
    add_schedule(store, expire_after="30s")
    clock.advance(MINUTE)
    tick(store)
    assert pulse(store).expiry == clock.now + 30 * SECOND


def test_a_pulse_tells_what_the_node_works_on_and_what_shall_end(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    assert pulse(store).own == (OwnRun(claimed.token, None),)
    store.transact(lambda tx: tx.runs.cancel(claimed.run.id, "by_hand"))
    assert pulse(store).own == (OwnRun(claimed.token, "by_hand"),)


def test_a_pulse_tells_of_a_lease_that_ran_out_and_of_what_it_left(
    store: Store, clock: VirtualClock
) -> None:
    claimed_run(store, clock, "node-2")
    begin(store)
    assert not pulse(store).deaths
    clock.advance(LEASE)
    assert pulse(store).deaths, "nobody has buried it"
    store.transact(lambda tx: tx.nodes.bury())
    assert pulse(store).deaths, "its run is left"
    store.transact(lambda tx: tx.attempts.take_over(10))
    assert not pulse(store).deaths


def test_a_pulse_tells_where_events_are_published(store: Store) -> None:
    begin(store)
    group = new_consumer("default", "billing", "group", None, 4, 3)
    sinks = [
        new_consumer("default", "bus", "kafka", ("a", "b"), 4, 3, {"servers": "k:9092"}),
        new_consumer("shop", "bus", "kafka", None, 4, 3, {"servers": "k:9092"}),
    ]
    for wanted in (group, *reversed(sinks)):
        store.transact(lambda tx, wanted=wanted: tx.consumers.save_consumer(wanted, 0))  # type: ignore[misc]
    assert pulse(store).sinks == tuple(sinks)
    known = store.read(lambda tx: tx.consumers.list_consumers())
    assert [consumer for consumer in known if consumer.kind != "group"] == sinks


def test_many_runs_of_a_dead_node_are_taken_over_at_once(store: Store, backend: Backend) -> None:
    begin(store, "node-2")
    ids = {add_run(store, add_schedule(store, f"job-{n}")) for n in range(7)}
    assert len(claim(store, "node-2")) == 7
    store.transact(lambda tx: tx.nodes.end_session("node-2"))
    assert store.transact(lambda tx: tx.attempts.take_over(5)) == 5
    assert store.transact(lambda tx: tx.attempts.take_over(5)) == 2
    begin(store)
    assert {claimed.run.id for claimed in claim(store)} == ids
    lost = backend.rows("SELECT count(*) FROM run_attempts WHERE outcome = 'lost'")
    assert lost == [(7,)]


# -- the leader


def test_the_first_node_that_asks_leads_and_the_next_waits(store: Store) -> None:
    begin(store)
    begin(store, "node-2")
    first, second = pulse(store, leads=True), pulse(store, "node-2", leads=True)
    assert (first.term, second.term) == (1, None)
    assert second.lead_until == BEGIN + LEASE


def test_a_leader_that_renews_keeps_its_term(store: Store, clock: VirtualClock) -> None:
    begin(store)
    begin(store, "node-2")
    for _ in range(5):
        assert pulse(store, leads=True).term == 1
        assert pulse(store, "node-2", leads=True).term is None
        clock.advance(LEASE - SECOND)


def test_a_leader_whose_lease_ran_out_is_followed_under_a_new_term(
    store: Store, clock: VirtualClock
) -> None:
    begin(store)
    begin(store, "node-2", 10 * LEASE)
    assert pulse(store, leads=True).term == 1
    clock.advance(LEASE)
    assert pulse(store, "node-2", leads=True).term == 2
    assert pulse(store, leads=True).term is None, "it lives, but leads no more"


def test_a_leader_that_leaves_is_followed_at_once(store: Store) -> None:
    begin(store)
    begin(store, "node-2")
    pulse(store, leads=True)
    store.transact(lambda tx: tx.nodes.end_session("node-1"))
    assert pulse(store, "node-2", leads=True).term == 2


def test_a_dead_session_leads_nobody(store: Store, clock: VirtualClock) -> None:
    begin(store)
    pulse(store, leads=True)
    clock.advance(LEASE)
    store.transact(lambda tx: tx.nodes.bury())
    seen = pulse(store, leads=True)
    assert (seen.alive, seen.term) == (False, None)


def test_a_term_holds_until_another_leads(store: Store, clock: VirtualClock) -> None:
    begin(store)
    begin(store, "node-2", 10 * LEASE)
    assert not store.transact(lambda tx: tx.nodes.holds_term("node-1", 1))
    pulse(store, leads=True)
    assert store.transact(lambda tx: tx.nodes.holds_term("node-1", 1))
    assert not store.transact(lambda tx: tx.nodes.holds_term("node-2", 1))
    clock.advance(LEASE)
    pulse(store, "node-2", leads=True)
    assert not store.transact(lambda tx: tx.nodes.holds_term("node-1", 1))
    assert store.transact(lambda tx: tx.nodes.holds_term("node-2", 2))

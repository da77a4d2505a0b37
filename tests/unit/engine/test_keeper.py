"""The keeper: who is buried, and when nobody is; on a virtual clock, without threads."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.engine.keeper import Keeper
from duebook.errors import Unavailable
from duebook.flows.flow_cache import FlowCache
from duebook.ids import new_id
from duebook.model.node import Drain
from duebook.store.values import SessionInfo
from duebook.testing.clock import VirtualClock
from duebook.testing.node import VirtualPlaces
from duebook.testing.stand_ins import StandIns
from duebook.testing.step_preparer import SimulatedPreparer

if TYPE_CHECKING:
    from duebook.engine.places import Places
    from duebook.store.sqlite import SqliteStore
    from tests.support.builders import VirtualClock as BooksClock

LEASE = timedelta(seconds=30)


class Machine:
    """A wall clock that may jump, and a monotonic one that may not."""

    def __init__(self, clock: BooksClock) -> None:
        self.clock = clock
        self.monotonic = 1_000.0

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))
        self.monotonic += seconds


@pytest.fixture
def machine(clock: BooksClock) -> Machine:
    return Machine(clock)


def new_keeper(
    store: SqliteStore, machine: Machine, places: Places | None = None, lease: timedelta = LEASE
) -> Keeper:
    session = SessionInfo(new_id(), "host", 1, "scheduler,worker", "0", "2026f")
    store.transact(lambda tx: tx.nodes.begin_session(session, lease))
    return Keeper(store, session.id, lease, places, lambda *_: None, lambda: machine.monotonic)


def alive(store: SqliteStore, keeper: Keeper) -> bool:
    return store.transact(lambda tx: tx.nodes.renew(keeper.session_id, LEASE))


def renew_for(keeper: Keeper, machine: Machine, seconds: float) -> None:
    for _ in range(int(seconds // 10)):
        machine.pass_time(10)
        keeper.step()


def test_a_node_that_no_longer_renews_is_buried(store: SqliteStore, machine: Machine) -> None:
    mine, other = new_keeper(store, machine), new_keeper(store, machine)
    renew_for(mine, machine, 60)
    assert not mine.lost
    assert not alive(store, other)


def test_a_new_node_buries_nobody_before_it_has_lived_for_a_lease(
    store: SqliteStore, machine: Machine
) -> None:
    other = new_keeper(store, machine)
    machine.pass_time(100)  # the books were out of reach for everybody
    mine = new_keeper(store, machine)
    renew_for(mine, machine, 20)
    assert alive(store, other)


def test_a_node_with_a_long_lease_renews_as_often_as_others(
    store: SqliteStore, machine: Machine
) -> None:
    keeper = new_keeper(store, machine, lease=timedelta(minutes=10))
    keeper.renew()
    assert keeper.due_in == 10
    machine.pass_time(300)
    keeper.guard()
    assert keeper.holds_lease


def test_a_node_with_a_longer_lease_is_judged_after_that_long(
    store: SqliteStore, machine: Machine
) -> None:
    """After an outage it may not have had the time to renew."""
    long = new_keeper(store, machine, lease=timedelta(minutes=10))
    short = new_keeper(store, machine)
    machine.pass_time(1_000)
    mine = new_keeper(store, machine)
    renew_for(mine, machine, 500)
    assert not alive(store, short)
    assert alive(store, long)
    renew_for(mine, machine, 700)
    assert not alive(store, long)


def test_a_keeper_hears_of_a_drain_by_a_hint_or_with_its_next_renewal(
    store: SqliteStore, machine: Machine
) -> None:
    keeper = new_keeper(store, machine)
    keeper.renew()
    asked = Drain(machine.clock.now, stops=False)
    store.transact(lambda tx: tx.nodes.drain(keeper.session_id, asked))
    heard = []
    for hinted in (False, True):
        if hinted:
            keeper.ask_drain()
        keeper.step()
        heard.append(keeper.drain)
    assert heard == [None, asked], "at rest it asks nothing without a hint"
    store.transact(lambda tx: tx.nodes.drain(keeper.session_id, None))
    machine.pass_time(10)
    keeper.step()
    assert keeper.drain is None


def test_a_new_node_buries_those_of_its_machine_whose_process_is_gone_at_once(
    store: SqliteStore, machine: Machine
) -> None:
    """Asked by pid and start; who lives on the same machine, and who is elsewhere, stays."""
    sessions = {
        name: SessionInfo(
            new_id(), "host", pid, "worker", "0", "2026f", machine=where, process_started=7
        )
        for name, pid, where in (
            ("gone", 11, "here"),
            ("lives", 12, "here"),
            ("container", 11, "there"),
            ("nameless", 11, ""),
            ("mine", 13, "here"),
        )
    }
    for session in sessions.values():
        store.transact(lambda tx, session=session: tx.nodes.begin_session(session, LEASE))  # type: ignore[misc]
    asked: list[tuple[int, int]] = []

    def is_gone(pid: int, started: int) -> bool:
        asked.append((pid, started))
        return pid == 11

    words = (store, sessions["mine"].id, LEASE, None, lambda *_: None, lambda: machine.monotonic)
    keeper = Keeper(*words, is_gone=is_gone)
    keeper.renew()
    assert sorted(asked) == [(11, 7), (12, 7)]
    living = {node.id for node in store.read(lambda tx: tx.nodes.list_nodes())}
    assert {name for name, session in sessions.items() if session.id in living} == {
        "lives",
        "container",
        "nameless",
        "mine",
    }
    asked.clear()
    keeper.renew()
    assert asked == [(12, 7)]


def test_a_jump_of_the_clock_buries_nobody_who_lives(store: SqliteStore, machine: Machine) -> None:
    mine, other = new_keeper(store, machine), new_keeper(store, machine)
    for _ in range(6):
        renew_for(mine, machine, 10)
        other.step()
    machine.clock.advance(timedelta(hours=1))
    renew_for(mine, machine, 10)
    other.step()
    assert not other.lost
    for _ in range(6):
        renew_for(mine, machine, 10)
        other.step()
    assert not mine.lost
    assert not other.lost


def test_an_outage_makes_everybody_look_dead_and_buries_nobody(
    store: SqliteStore, machine: Machine
) -> None:
    mine, other = new_keeper(store, machine), new_keeper(store, machine)
    renew_for(mine, machine, 10)
    machine.pass_time(25)  # nobody reached the books
    mine.step()
    assert alive(store, other)


def test_a_node_that_cannot_renew_stops_its_own_work_before_its_lease_ends(
    store: SqliteStore, machine: Machine
) -> None:
    keeper = new_keeper(store, machine)
    store.close()
    machine.pass_time(20)
    with pytest.raises(Unavailable):
        keeper.step()
    assert not keeper.lost
    machine.pass_time(5)
    with pytest.raises(Unavailable):
        keeper.step()
    assert keeper.lost


def test_a_keeper_that_is_stuck_is_noticed_by_others(store: SqliteStore, machine: Machine) -> None:
    keeper = new_keeper(store, machine)
    machine.pass_time(24)
    keeper.guard()
    assert not keeper.lost
    machine.pass_time(1)
    keeper.guard()
    assert keeper.lost


def test_what_a_claim_still_brought_to_a_lost_session_is_stopped_as_well(
    store: SqliteStore, machine: Machine
) -> None:
    stopped: list[str] = []

    class Working(VirtualPlaces):
        def stop_all(self, reason: str) -> None:
            stopped.append(reason)

    clock = VirtualClock(machine.clock.now)
    keeper = new_keeper(
        store, machine, Working(1, clock, StandIns(SimulatedPreparer(store, FlowCache())))
    )
    machine.pass_time(25)
    keeper.guard()
    keeper.guard()
    assert set(stopped) == {"lost"}
    assert len(stopped) > 1, "not only when the session was lost"


def test_a_node_that_was_buried_knows_it_at_its_next_renewal(
    store: SqliteStore, machine: Machine
) -> None:
    keeper = new_keeper(store, machine)
    store.transact(lambda tx: tx.nodes.end_session(keeper.session_id))
    machine.pass_time(10)
    keeper.step()
    assert keeper.lost


def test_a_clock_set_back_is_told_once(
    store: SqliteStore, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = new_keeper(store, machine)
    keeper.renew()
    machine.clock.advance(-timedelta(hours=1))
    renew_for(keeper, machine, 60)
    told = [record.message for record in caplog.records if "behind" in record.message]
    assert len(told) == 1
    assert told[0].startswith("this machine's clock is 59m")


def test_the_time_on_the_books_is_estimated_by_the_clock_that_cannot_jump(
    store: SqliteStore, machine: Machine
) -> None:
    keeper = new_keeper(store, machine)
    keeper.renew()
    began = machine.clock.now
    machine.pass_time(5)
    machine.clock.advance(timedelta(hours=1))
    assert keeper.now == began + timedelta(seconds=5)


def test_a_node_with_a_longer_lease_than_others_judges_only_after_that_long(
    store: SqliteStore, machine: Machine
) -> None:
    other = new_keeper(store, machine)
    machine.pass_time(1_000)
    mine = new_keeper(store, machine, lease=timedelta(minutes=10))
    renew_for(mine, machine, 590)
    assert alive(store, other)
    machine.pass_time(31)
    mine.hurry()
    mine.step()
    assert not alive(store, other)


def test_a_node_may_not_work_when_its_lease_is_about_to_end_though_it_has_not_noticed_yet(
    store: SqliteStore, machine: Machine
) -> None:
    keeper = new_keeper(store, machine)
    may_work = []
    for seconds in (24, 1):
        machine.pass_time(seconds)
        may_work.append(keeper.holds_lease)
    assert (may_work, keeper.lost) == ([True, False], False)

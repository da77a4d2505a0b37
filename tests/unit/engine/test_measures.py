"""What a node counts: the real loops on a virtual clock, without threads but the settler's."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.engine.books_clock import BooksClock
from duebook.engine.dispatcher import Dispatcher
from duebook.engine.keeper import Keeper
from duebook.engine.measures import Histogram, Measures
from duebook.engine.places import Room
from duebook.engine.settler import Settler
from duebook.engine.ticker import Ticker
from duebook.errors import Unavailable
from duebook.model.plan import Fire, Plan
from duebook.model.retry import Retry
from duebook.model.run import Outcome
from duebook.store.sqlite import SqliteStore
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
    lose,
    tick,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.model.run import Claim, Token


class Places:
    """Implements engine.slots.Places: nothing is ever done here."""

    def __init__(self, free: int = 10) -> None:
        self.claiming = threading.Lock()
        self.begun: list[Claim] = []
        self._number = free

        self.work_waits = False

    def room(self) -> Room:
        return Room(self._number - len(self.begun), 0)

    def begin(self, claims: list[Claim]) -> None:
        self.begun += claims

    def working(self) -> set[Token]:
        return {claim.token for claim in self.begun}

    def stop(self, token: Token, reason: str) -> None: ...

    def stop_all(self, reason: str) -> None: ...


@pytest.fixture
def measures() -> Measures:
    return Measures()


def counted(histogram: Histogram) -> int:
    return sum(histogram.counts)


def test_a_value_counts_below_the_first_bound_that_it_does_not_exceed() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.add([0.5, 1.0, 1.5, 2.0, 2.1])
    assert histogram.counts == [2, 2, 1]
    assert histogram.total == pytest.approx(7.1)


def test_due_times_are_fired_or_skipped_by_reason(
    store: SqliteStore, clock: VirtualClock, measures: Measures
) -> None:
    add_schedule(store, "runs")
    add_schedule(store, "skips", overlap="skip", catchup="skip")
    clock.advance(10 * MINUTE + 30 * SECOND)
    Ticker(store, measures=measures).step()
    assert measures.fired == 2
    assert measures.skipped == {"coalesced": 8, "missed": 9, "overlap": 1}
    assert measures.due == 20


def test_a_due_time_that_has_a_run_already_is_skipped(measures: Measures) -> None:
    fire = Fire(BEGIN, "schedule")
    plan = Plan("s", 1, (fire, replace(fire, due_at=BEGIN + MINUTE)), "active", BEGIN, None, None)
    measures.planned([plan], fired=1, set_aside=0)
    assert (measures.due, measures.fired) == (2, 1)
    assert measures.skipped == {"already_started": 1}


def test_a_tick_that_the_database_refuses_is_not_counted(
    store: SqliteStore, clock: VirtualClock, measures: Measures, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_schedule(store)
    clock.advance(MINUTE)
    ticker = Ticker(store, measures=measures)
    transact = store.transact

    def refuse(work: object) -> None:
        def all_but(tx: object) -> None:
            work(tx)  # type: ignore[operator]
            raise Unavailable("not now")

        transact(all_but)

    monkeypatch.setattr(store, "transact", refuse)
    with pytest.raises(Unavailable):
        ticker.step()
    monkeypatch.undo()
    assert measures.fired == 0
    ticker.step()
    assert measures.fired == 1


def test_a_schedule_that_cannot_be_planned_is_counted_as_set_aside(
    store: SqliteStore,
    clock: VirtualClock,
    measures: Measures,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_schedule(store)
    clock.advance(MINUTE)

    def broken(*_: object) -> None:
        raise ValueError("no plan")

    monkeypatch.setattr("duebook.engine.ticker.plan", broken)
    Ticker(store, measures=measures).step()
    assert (measures.set_aside, measures.due) == (1, 0)


def test_lateness_is_from_the_due_time_to_the_start_and_of_live_due_times_only(
    store: SqliteStore, clock: VirtualClock, measures: Measures
) -> None:
    schedule_id = add_schedule(store, overlap="allow")
    clock.advance(MINUTE + 2 * SECOND)
    tick(store)
    add_run(store, schedule_id)
    clock.advance(3 * SECOND)
    places = Places()
    Dispatcher(store, places, begin(store), ("default",), measures=measures).step()
    assert len(places.begun) == measures.claimed == 2
    assert (counted(measures.lateness), measures.lateness.total) == (1, 5.0)
    assert (counted(measures.queue_wait), measures.queue_wait.total) == (2, 6.0)
    assert counted(measures.claims) == 1


def test_a_second_attempt_is_neither_late_nor_has_it_waited(
    store: SqliteStore, clock: VirtualClock, measures: Measures
) -> None:
    add_schedule(store)
    clock.advance(MINUTE)
    tick(store)
    claim(store, begin(store))
    lose(store, "node-1")
    clock.advance(MINUTE)
    places = Places()
    Dispatcher(store, places, begin(store, "node-2"), ("default",), measures=measures).step()
    assert measures.claimed == 1
    assert counted(measures.lateness) == counted(measures.queue_wait) == 0


def test_attempts_are_counted_by_their_end_and_measured_by_the_books(
    store: SqliteStore, clock: VirtualClock, measures: Measures
) -> None:
    schedule_id = add_schedule(store, overlap="allow", retry=Retry(attempts=2, jitter=False))
    for _ in range(4):
        add_run(store, schedule_id)
    begin(store)
    done, failed, back, lost = claim(store)
    lost = lost._replace(token=lost.token._replace(session_id="gone"))
    clock.advance(7 * SECOND)
    settled: list[Claim] = []
    settler = Settler(store, settled.extend, measures)
    settler.put(done, Outcome("succeeded"))
    settler.put(failed, Outcome("failed", "error", "oh"))
    settler.put(back, None)
    settler.put(lost, Outcome("succeeded"))
    eventually(lambda: len(settled) == 4)
    settler.close()
    assert measures.ends == {"succeeded": 1, "retried": 1, "handed_back": 1, "refused": 1}
    assert (counted(measures.lengths), measures.lengths.total) == (4, 28.0)


def test_takeovers_burials_stalls_and_a_lost_session_are_counted(
    store: SqliteStore, clock: VirtualClock, measures: Measures
) -> None:
    add_schedule(store)
    clock.advance(MINUTE)
    tick(store)
    claim(store, begin(store))
    seconds = 0.0

    def keeper(session_id: str) -> Keeper:
        return Keeper(
            store,
            begin(store, session_id),
            LEASE,
            None,
            lambda *_: None,
            lambda: seconds,
            measures=measures,
        )

    def pass_time(length: float) -> None:
        nonlocal seconds
        seconds += length
        clock.advance(timedelta(seconds=length))

    other = keeper("node-2")
    for _ in range(4):
        pass_time(10)
        other.renew()
    assert (measures.takeovers, measures.burials, measures.lease_stalls) == (1, 1, 0)
    pass_time(16)
    other.renew()
    assert (measures.lease_stalls, measures.sessions_lost) == (1, 0)
    pass_time(25)
    other.guard()
    other.guard()
    assert measures.sessions_lost == 1


def test_runs_that_nobody_began_in_time_are_counted(
    store: SqliteStore, clock: VirtualClock, measures: Measures
) -> None:
    add_schedule(store, expire_after="10s")
    clock.advance(MINUTE)
    tick(store)
    clock.advance(11 * SECOND)
    keeper = Keeper(store, begin(store), LEASE, None, lambda *_: None, measures=measures)
    keeper.renew()
    assert measures.expired == 1


def test_the_time_of_each_tick_is_measured(tmp_path: Path) -> None:
    clock, measures = VirtualClock(), Measures()
    store = SqliteStore(tmp_path / "book.db", clock)
    add_schedule(store, "job")
    times = iter(range(100))
    ticker = Ticker(store, clock=BooksClock(lambda: float(next(times))), measures=measures)
    ticker.step()  # nothing is due: that is no tick
    assert sum(measures.ticks.counts) == 0
    clock.advance(MINUTE)
    ticker.step()
    store.close()
    assert sum(measures.ticks.counts) == 1
    assert measures.ticks.total >= 1.0

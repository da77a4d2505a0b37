"""How many round trips work takes on PostgreSQL, and what holds when statements share a message."""

from __future__ import annotations

import threading
from datetime import UTC
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from psycopg import errors

from duebook.engine.ticker import Ticker
from duebook.errors import Unavailable
from duebook.model.run import Outcome
from duebook.model.serving import ALL
from duebook.store.postgres.connection import Connection
from duebook.store.postgres.hints import Herald
from duebook.store.postgres.prepared import Statement
from duebook.store.values import FreeWorker
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    add_run,
    add_schedule,
    begin,
    claim,
    get_runs,
    list_all,
    run_tick,
    tick,
)
from tests.support.builders import VirtualClock as Clock
from tests.support.postgres_stores import opened, query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.model.run import Claim
    from duebook.store.base import Tx
    from duebook.store.postgres import PostgresStore

RECURRING = {"trigger": {"every": "1m"}}
GONE = (
    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'duebook'"
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(postgres_url: str, clock: Clock) -> Iterator[PostgresStore]:
    with opened(postgres_url, clock) as made:
        yield made


class Exchanges:
    """Counts what this thread waits for a server; `before` is called with the number of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self.before: Callable[[int], None] = lambda _: None
        thread, wait = threading.current_thread(), Connection.wait

        def count(connection: Connection, *words: Any, **named: Any) -> Any:
            if threading.current_thread() is thread:
                self.number += 1
                self.before(self.number)
            return wait(connection, *words, **named)

        monkeypatch.setattr(Connection, "wait", count)
        # one that was idle for long, as on a busy machine, would be tried with a message more
        monkeypatch.setattr(Connection, "is_awake", lambda *_: True)
        # a hint takes the idle connection for a moment, and whoever needs one then connects anew
        monkeypatch.setattr(Herald, "ring", lambda *_: None)

    def of(self, work: Callable[[], object]) -> int:
        self.number = 0
        work()
        return self.number


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> Exchanges:
    return Exchanges(monkeypatch)


def run_dry(ticker: Ticker) -> None:
    """One tick that is known to be due, without a look before it."""
    ticker.full = True
    ticker.step()


# -- how many


@pytest.mark.parametrize(
    ("definition", "most"),
    [(RECURRING | {"overlap": "allow"}, 3), (RECURRING | {"overlap": "skip"}, 4)],
    ids=["runs at once", "heeds the run before it"],
)
def test_a_tick_takes_few_round_trips(
    store: PostgresStore,
    clock: Clock,
    exchanges: Exchanges,
    definition: dict[str, Any],
    most: int,
) -> None:
    """Begin and take; facts; states and runs; the next wake and COMMIT."""
    for number in range(3):
        add_schedule(store, f"job-{number}", **definition)
    ticker = Ticker(store)
    for _ in range(2):  # in the second one all definitions are known
        clock.advance(MINUTE)
        found = exchanges.of(lambda: run_dry(ticker))
        for id_ in [run.id for run in get_runs(store) if run.status == "queued"]:
            store.transact(lambda tx, id_=id_: tx.runs.cancel(id_, "cancelled"))  # type: ignore[misc]
    assert found <= most
    assert len(get_runs(store)) == 6


@pytest.mark.parametrize(("overlap", "most"), [("allow", 3), ("skip", 4)])
def test_a_run_that_begins_with_its_due_time_takes_no_round_trip_of_its_own(
    store: PostgresStore, clock: Clock, exchanges: Exchanges, overlap: str, most: int
) -> None:
    add_schedule(store, trigger={"every": "1m"}, overlap=overlap)
    begin(store, lease=60 * MINUTE)
    claims: list[Claim] = []

    def start(tx: Tx) -> None:
        tx.plans.worker = FreeWorker("node-1", 10, ("default",), (), ALL)
        run_tick(tx)
        claims.extend(tx.plans.claims)

    clock.advance(MINUTE)
    tick(store)  # its definition is known from now on
    store.transact(lambda tx: tx.runs.cancel(get_runs(store)[0].id, "cancelled"))
    clock.advance(MINUTE)
    assert exchanges.of(lambda: store.transact(start)) <= most
    assert len(claims) == 1


def test_a_claim_and_a_settle_take_two_round_trips_each(
    store: PostgresStore, clock: Clock, exchanges: Exchanges
) -> None:
    """Everything else, and COMMIT."""
    add_schedule(store, trigger={"every": "1m"}, overlap="allow")
    begin(store, lease=60 * MINUTE)
    clock.advance(MINUTE)
    tick(store)
    settle(store, claim(store))  # its definition is known from now on
    clock.advance(MINUTE)
    tick(store)
    claims: list[Claim] = []
    assert exchanges.of(lambda: claims.extend(claim(store, limit=5))) == 2
    assert exchanges.of(lambda: settle(store, claims)) == 2
    assert [run.status for run in get_runs(store)] == ["succeeded", "succeeded"]


def settle(store: PostgresStore, claims: list[Claim]) -> None:
    ended = [(claim.token, Outcome("succeeded")) for claim in claims]
    store.transact(lambda tx: tx.attempts.settle_all(ended))


def test_schedules_that_are_new_take_one_round_trip_more(
    store: PostgresStore, clock: Clock, exchanges: Exchanges
) -> None:
    """Definitions and active runs are asked for together."""
    add_schedule(store, trigger={"at": (BEGIN + MINUTE).isoformat()})
    clock.advance(MINUTE)
    with opened(store._url, clock) as other:
        ticker = Ticker(other)
        other.read(list_all)  # connected
        assert exchanges.of(lambda: run_dry(ticker)) <= 4
    assert len(get_runs(store)) == 1


def test_a_tick_that_finds_nothing_takes_two_round_trips_and_a_look_one(
    store: PostgresStore, clock: Clock, exchanges: Exchanges
) -> None:
    add_schedule(store)
    ticker = Ticker(store)
    assert exchanges.of(lambda: run_dry(ticker)) == 2
    assert exchanges.of(ticker.step) == 1
    assert store.look_for_due() == (clock.now + MINUTE, clock.now)


def test_a_transaction_begins_with_its_first_statement(
    store: PostgresStore, exchanges: Exchanges
) -> None:
    add_schedule(store)

    def find(tx: Tx) -> str:
        return tx.schedules.find_schedule("default", "job")

    assert exchanges.of(lambda: store.read(find)) == 2, "and ROLLBACK"
    assert exchanges.of(lambda: store.transact(find)) == 2, "and COMMIT"
    assert exchanges.of(lambda: store.transact(lambda _: None)) == 0


# -- and what holds all the same


def test_now_is_the_same_for_the_take_as_for_the_plan(postgres_url: str) -> None:
    """Also where the take goes with BEGIN, before anybody here knows the time."""

    def work(tx: Tx) -> None:
        assert len(tx.plans.take(10).snapshots) == 1
        (at,) = tx.db.connection.execute("SELECT now()").fetchone()  # type: ignore[attr-defined]
        assert at == tx.now

    with opened(postgres_url) as store:
        add_schedule(store, trigger={"every": "1s"})
        store.transact(
            lambda tx: tx.db.connection.execute(  # type: ignore[attr-defined]
                "UPDATE schedule_state SET wake_at = now() - interval '1 second'"
            )
        )
        store.transact(work)


def test_what_wakes_next_is_seen_after_the_tick_and_told_in_utc(
    postgres_url: str, clock: Clock
) -> None:
    elsewhere = f"{postgres_url}&options={quote('-c timezone=Asia/Tokyo')}"
    with opened(elsewhere, clock) as store:
        add_schedule(store)
        clock.advance(MINUTE)
        for found in (Ticker(store).step(), store.look_for_due()[0]):
            assert found == clock.now + MINUTE
            assert found.tzinfo == UTC


def test_a_connection_that_broke_while_idle_is_replaced_under_a_tick(
    store: PostgresStore, postgres_url: str, clock: Clock
) -> None:
    add_schedule(store)
    clock.advance(MINUTE)
    query(postgres_url, GONE)
    run_dry(Ticker(store))
    assert len(get_runs(store)) == 1


def test_a_tick_that_is_cut_off_at_any_message_leaves_nothing_half_written(
    store: PostgresStore, postgres_url: str, clock: Clock, exchanges: Exchanges
) -> None:
    add_schedule(store, "fires")
    add_run(store, add_schedule(store, "busy"))
    clock.advance(MINUTE)
    ticker = Ticker(store)
    for number in range(2, 5):  # the first one is tried again on another connection

        def cut(at: int, number: int = number) -> None:
            if at == number:
                query(postgres_url, GONE)

        exchanges.number, exchanges.before = 0, cut
        with pytest.raises(Unavailable):
            run_dry(ticker)
        exchanges.before = lambda _: None
        assert len(get_runs(store)) == 1, number
        assert store.look_for_due()[0] == clock.now, number
    exchanges.number = 0
    run_dry(ticker)
    assert exchanges.number == 4, "each of its messages was tried"
    assert len(get_runs(store)) == 2


def test_a_commit_that_carried_a_question_and_whose_answer_is_lost_is_unknown(
    store: PostgresStore, postgres_url: str
) -> None:
    def work(tx: Tx) -> None:
        assert tx.db.connection  # type: ignore[attr-defined]
        tx.plans.wake_after_commit()
        query(postgres_url, GONE)

    with pytest.raises(Unavailable, match="it is unknown whether"):
        store.transact(work)


def test_a_question_that_fails_with_the_commit_undoes_the_transaction_and_says_why(
    store: PostgresStore,
) -> None:
    """The server answered: it is known that nothing was kept."""

    def write(tx: Tx) -> None:
        db: Any = tx.db
        db.connection.execute("INSERT INTO quotas (namespace, max_priority) VALUES ('x', 1)")
        db.last.append(Statement("SELECT 1 / 0"))

    with pytest.raises(errors.DivisionByZero):
        store.transact(write)
    assert query(store._url, "SELECT count(*) FROM duebook.quotas") == [(0,)]


def test_a_write_that_nobody_waits_for_must_change_what_it_says(
    store: PostgresStore, clock: Clock
) -> None:
    """What it may change is locked, so that this can only be a mistake of ours."""
    add_schedule(store)
    clock.advance(MINUTE)

    def work(tx: Tx) -> None:
        db: Any = tx.db
        rows = [(None, None, None, 0, None, None, None, "no such schedule", 1)]
        db.soon("move_state", rows)
        assert tx.plans.earliest_wake()

    with pytest.raises(RuntimeError, match="0 rows instead of 1"):
        store.transact(work)
    assert tick(store) == 1


def test_a_first_message_that_failed_is_not_taken_for_a_commit(store: PostgresStore) -> None:
    def work(tx: Tx) -> None:
        db: Any = tx.db
        with pytest.raises(errors.DivisionByZero):
            db._grouping.together([Statement("SELECT 1 / 0")])

    with pytest.raises(Unavailable, match="rolled"):
        store.transact(work)
    assert store.transact(lambda tx: tx.now + SECOND)

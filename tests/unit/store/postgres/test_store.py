"""What only a PostgreSQL store has: its clock, its pool, hints, outages, and locks in one order."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import errors

from duebook.book import Book
from duebook.clock import utc_now
from duebook.engine.due_cursor import DueCursor
from duebook.engine.ticker import Ticker
from duebook.errors import DuebookError, Unavailable
from duebook.model.plan import Fire
from duebook.model.run import LogLine, Outcome, Progress
from duebook.planner import plan
from duebook.store.postgres import PostgresStore, beginning
from duebook.store.postgres import store as store_module
from duebook.store.postgres.connection import SCHEMA
from duebook.store.postgres.pool import Pool
from duebook.store.postgres.route import Route
from duebook.store.values import News
from tests.support.builders import (
    LEASE,
    MINUTE,
    add_run,
    add_schedule,
    begin,
    claim,
    claimed_run,
    get_runs,
    list_all,
    run_tick,
    settle,
    tick,
)
from tests.support.builders import VirtualClock as Clock
from tests.support.postgres import Server
from tests.support.postgres_stores import LOCK_WAITS, opened, query
from tests.support.processes import in_a_child
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.store.base import Store, Tx


def cut_off(url: str) -> None:
    """The server ends every connection of the store."""
    query(
        url,
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'duebook'",
    )


# -- time


def test_now_is_the_databases(store: PostgresStore) -> None:
    for now in (store.transact(lambda tx: tx.now), store.read(lambda tx: tx.now)):
        assert abs(now - utc_now()) < MINUTE
        assert now.utcoffset() == timedelta()
    assert store.transact(lambda tx: tx.behind) == timedelta()


def test_a_database_clock_behind_the_watermark_fires_nothing_again(postgres_url: str) -> None:
    """As after a failover."""
    clock = Clock()
    with opened(postgres_url, clock) as store:
        add_schedule(store, overlap="allow")
        clock.advance(3 * MINUTE)
        assert tick(store) > 0
        ran = [run.due_at for run in get_runs(store)]
        clock.advance(-3 * MINUTE)
        for _ in range(3):
            clock.advance(MINUTE)
            assert tick(store) == 0
        clock.advance(MINUTE)
        tick(store)
        assert len({run.due_at for run in get_runs(store)}) == len(ran) + 1


# -- what holds in a transaction only


@pytest.mark.parametrize(("verb", "message"), [("transact", "WRITE"), ("read", "READ")])
def test_a_transaction_has_its_settings_and_leaves_none(
    store: PostgresStore, verb: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, message, getattr(beginning, message))
    names = ("search_path", "plan_cache_mode", "jit", "idle_in_transaction_session_timeout")

    def work(tx: Tx) -> list[Any]:
        connection = tx.db.connection  # type: ignore[attr-defined]
        return [connection.execute(f"SHOW {name}".encode()).fetchone()[0] for name in names]

    assert getattr(store, verb)(work) == [SCHEMA, "force_generic_plan", "off", "5s"]
    connection = store._pool.take()
    assert connection.execute("SHOW plan_cache_mode").fetchone() == ("auto",)
    store._pool.give(connection)


def test_a_node_that_stops_between_take_and_commit_gives_its_schedules_back(
    postgres_url: str,
) -> None:
    clock, fired = Clock(), list[int]()

    def stop(tx: Tx) -> None:
        tx.plans.take(10)
        assert tick(other) == 0, "somebody has it"
        sooner = b"SET LOCAL idle_in_transaction_session_timeout = '100ms'"
        tx.db.connection.execute(sooner)  # type: ignore[attr-defined]
        fired.append(eventually(lambda: tick(other)))
        tx.plans.earliest_wake()

    with opened(postgres_url, clock) as stopped, opened(postgres_url, clock) as other:
        add_schedule(other)
        clock.advance(MINUTE)
        with pytest.raises(Unavailable):
            stopped.transact(stop)
        assert fired == [1]


def test_a_ticker_that_finds_what_is_due_in_other_hands_looks_again_soon(postgres_url: str) -> None:
    clock = Clock()
    with opened(postgres_url, clock) as store, opened(postgres_url, clock) as other:
        add_schedule(store)
        clock.advance(MINUTE)
        looked = store.transact(lambda tx: (tx.plans.take(1), Ticker(other).step())[1])
        assert looked is not None
        assert timedelta() < looked - clock.now < timedelta(seconds=0.05)
        assert get_runs(store) == []


def test_what_is_due_only_after_another_ticker_looked_is_planned_by_the_one_that_waited(
    postgres_url: str,
) -> None:
    """It is told to look while the other one commits: nobody else would come before a pulse."""
    clock, cursor, told = Clock(), DueCursor(), list[str]()
    helper = threading.Thread(target=lambda: Ticker(store, cursor=cursor).step())

    def hook(name: str) -> None:
        if name == "before:COMMIT" and not told:
            told.append(add_schedule(other, "late"))  # a minute ago, by its clock
            helper.start()
            eventually(lambda: cursor.turn.waiting)

    with opened(postgres_url, Clock()) as other, opened(postgres_url, clock, hook) as store:
        add_schedule(other, "early")
        clock.advance(MINUTE)
        Ticker(store, cursor=cursor).step()
        helper.join()
        assert {run.schedule for run in get_runs(other)} == {"early", "late"}


def test_a_tick_takes_as_many_statements_for_many_schedules_as_for_few(
    postgres_server: Server,
) -> None:
    """Whatever their policies: due times that fire, that are skipped once and again, that wait."""
    kinds: list[dict[str, Any]] = [
        {"overlap": "allow"},
        {"overlap": "skip"},
        {"overlap": "queue"},
        {"skip_if_successful": True},
        {"depends_on": [{"schedule": "other", "within": "1h"}]},
        {"trigger": {"every": "1m"}, "catchup": "all", "catchup_pace": "0s"},
    ]
    statements = []
    for number in (2, 20):
        clock, points = Clock(), list[str]()
        with postgres_server.database() as url, opened(url, clock, points.append) as store:
            for kind, definition in enumerate(kinds):
                for copy in range(number):
                    add_schedule(store, f"job-{kind}-{copy}", **definition)
            for _ in range(4):
                clock.advance(MINUTE)
                points.clear()
                tick(store)
            assert "before:extend_ledger" in points
            statements.append(points)
    assert statements[0] == statements[1]
    assert len(statements[0]) < 50


# -- trouble


def test_a_transaction_that_others_made_impossible_is_tried_again(store: PostgresStore) -> None:
    tries: list[str] = []

    def work(tx: Tx) -> int:
        tries.append(add_name := f"job-{len(tries)}")
        add = "INSERT INTO schedules (id, namespace, name, version, created_at)"
        values = " VALUES (%s, 'default', %s, 1, now())"
        tx.db.connection.execute((add + values).encode(), [add_name, add_name])  # type: ignore[attr-defined]
        if len(tries) < 3:
            raise errors.DeadlockDetected
        return len(tries)

    assert store.transact(work) == 3
    assert store.read(lambda tx: tx.schedules.find_schedule("default", "job-2")) == "job-2"
    with pytest.raises(DuebookError):
        store.read(lambda tx: tx.schedules.find_schedule("default", "job-0"))


def test_a_transaction_that_others_always_make_impossible_is_given_up(store: PostgresStore) -> None:
    def work(_tx: Tx) -> None:
        raise errors.SerializationFailure

    with pytest.raises(Unavailable, match="busy"):
        store.transact(work)


def test_connections_that_broke_while_idle_are_replaced_without_a_word(
    store: PostgresStore, postgres_url: str
) -> None:
    add_schedule(store, "before")
    cut_off(postgres_url)
    add_schedule(store, "after")
    cut_off(postgres_url)
    assert len(store.read(list_all)) == 2


def test_a_commit_whose_answer_is_lost_is_unavailable_and_says_so(postgres_url: str) -> None:
    def hook(name: str) -> None:
        if name == "before:COMMIT":
            cut_off(postgres_url)

    with (
        opened(postgres_url, None, hook) as store,
        pytest.raises(Unavailable, match="it is unknown whether"),
    ):
        begin(store)


def test_a_failure_that_the_work_ignored_is_not_taken_for_a_commit(store: PostgresStore) -> None:
    def work(tx: Tx) -> None:
        with pytest.raises(errors.UndefinedTable):
            tx.db.connection.execute("SELECT * FROM nowhere")  # type: ignore[attr-defined]

    with pytest.raises(Unavailable, match="rolled"):
        store.transact(work)


def test_a_server_that_comes_back_is_used_again() -> None:
    server = Server(durable=True)
    try:
        with opened(server.url("postgres")) as store:
            add_schedule(store)
            store.news(0)
            server.stop()
            with pytest.raises(Unavailable, match="cannot reach the database 'postgres'"):
                store.read(lambda tx: tx.now)
            store.news(0)
            server.start()
            assert eventually(lambda: _find(store))
            assert eventually(lambda: store.news(0.1)), "it listens again"
    finally:
        server.close()


def _find(store: Store) -> str | None:
    try:
        return store.read(lambda tx: tx.schedules.find_schedule("default", "job"))
    except Unavailable:
        return None


def test_a_server_that_cannot_be_written_is_refused(
    postgres_url: str, postgres_server: Server
) -> None:
    """As a standby."""
    (name,) = query(postgres_url, "SELECT current_database()")[0]
    postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(Unavailable, match="read-only"):
        PostgresStore(postgres_url)


def test_a_store_refuses_use_after_a_fork(store: PostgresStore) -> None:
    store.news(0)
    for work in (
        lambda: store.transact(lambda tx: tx.now),
        lambda: store.read(lambda tx: tx.now),
        lambda: store.news(0),
    ):
        assert in_a_child(work).startswith("Unavailable: ")
    assert in_a_child(store.close) == "nothing"
    store.transact(lambda tx: tx.now)


def test_a_closed_store_is_unavailable(store: PostgresStore) -> None:
    store.close()
    store.close()
    for work in (store.transact, store.read):
        with pytest.raises(Unavailable, match="closed"):
            work(lambda tx: tx.now)
    with pytest.raises(Unavailable, match="closed"):
        store.news(0)


def test_a_connection_that_is_given_back_while_its_pool_is_closed_is_closed(
    postgres_url: str,
) -> None:
    pool = Pool(Route(postgres_url), 1, 0.0)
    connection = pool.take()

    class Lock:
        """Somebody else comes first."""

        def __init__(self) -> None:
            self._lock, self._others = threading.Lock(), [pool.close]

        def __enter__(self) -> None:
            while self._others:
                self._others.pop()()
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    vars(pool)["_lock"] = Lock()
    pool.give(connection)
    assert connection.closed


# -- hints


def listens(store: PostgresStore) -> None:
    """Returns once it does; what it may have missed before that is no news any more."""
    eventually(lambda: store.news(0.1) == ~News(0))


def test_a_listener_that_was_cut_off_counts_that_as_a_change(
    store: PostgresStore, postgres_url: str
) -> None:
    listens(store)
    cut_off(postgres_url)
    listens(store)


def test_what_gives_nobody_anything_to_do_is_not_told(postgres_url: str) -> None:
    clock = Clock()
    with opened(postgres_url, clock) as before:  # what it tells is told when it is closed
        claimed = claimed_run(before, clock, overlap="allow")
    with opened(postgres_url, clock) as store, opened(postgres_url, clock) as other:
        listens(other)
        line = LogLine(clock.now, "stdout", "text")
        store.transact(lambda tx: tx.nodes.renew("node-1", LEASE))
        store.transact(lambda tx: tx.attempts.append_log(claimed.token, 1, [line]))
        settle(store, claimed.token)
        assert claim(store) == []
        add_schedule(store, "later", trigger={"at": (clock.now + 9 * MINUTE).isoformat()})
        add_schedule(store, "last", trigger={"at": (clock.now + MINUTE / 2).isoformat()})
        assert eventually(lambda: other.news(0.1)) == News.WAKE


def test_a_wake_that_others_know_of_is_told_once(postgres_url: str) -> None:
    clock = Clock()
    with opened(postgres_url, clock) as store:
        listens(store)
        told: list[News] = []
        for minutes in (5, 6, 5, 4):
            at = (clock.now + minutes * MINUTE).isoformat()
            add_schedule(store, f"job-{len(told)}", trigger={"at": at})
            told.append(store.news(0))
        assert told == [News.WAKE, News(0), News(0), News.WAKE]
        clock.advance(4 * MINUTE)
        add_schedule(store, "later", trigger={"at": (clock.now + 9 * MINUTE).isoformat()})
        assert store.news(0) == News.WAKE, "the wake that was told has passed"


# -- one order of locks


def together(*jobs: Callable[[], object], rounds: Callable[[], object]) -> None:
    """Repeat the jobs in a thread each, while `rounds` goes on here; raises what one raised."""
    over, problems = threading.Event(), list[BaseException]()

    def repeat(job: Callable[[], object]) -> None:
        while not over.is_set():
            try:
                job()
            except BaseException as error:
                problems.append(error)
                over.set()

    threads = [threading.Thread(target=repeat, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    rounds()
    over.set()
    for thread in threads:
        thread.join()
    for problem in problems:
        raise problem


def test_ticks_claims_settles_and_cancels_together_never_deadlock(postgres_url: str) -> None:
    """Schedules that cancel their own runs, and others that wait for their success."""
    clock, succeeded = Clock(), Outcome("succeeded")
    with opened(postgres_url, clock) as store:
        ids = [add_schedule(store, f"job-{number}", overlap="cancel") for number in range(6)]
        for number in range(6):
            depends = [{"schedule": f"job-{number}", "within": "1h"}]
            add_schedule(store, f"after-{number}", overlap="cancel", depends_on=depends)
        begin(store, lease=timedelta(days=9))

        at_work, looking = set[str | None](), threading.Lock()

        def work_on() -> None:
            found = claim(store)
            with looking:
                of = [claimed.run.schedule_id for claimed in found]
                assert not at_work & set(of), "each excludes itself"
                at_work.update(of)
            for claimed in found:
                with looking:
                    at_work.remove(claimed.run.schedule_id)
                store.transact(lambda tx, c=claimed: tx.attempts.settle(c.token, succeeded))  # type: ignore[misc]

        def by_hand() -> None:
            for schedule_id in ids:
                add_run(store, schedule_id)

        def rounds() -> None:
            for _ in range(30):
                clock.advance(MINUTE)
                store.transact(run_tick)

        some = (lambda: tick(store), lambda: tick(store, limit=3))
        together(*some, work_on, work_on, by_hand, rounds=rounds)
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert query(postgres_url, deadlocks) == [(0,)]
        findings = [f for f in store.read(lambda tx: tx.checks.check()) if f.rule == "I3"]
        # by its dates a claim may seem early: here a minute can pass while it waits for its locks
        assert [f for f in findings if not f.text.startswith("began at")] == []


def test_a_settle_and_a_tick_that_cancels_the_same_run_do_not_deadlock(postgres_url: str) -> None:
    """The settle has ended the run and not yet woken its schedule when the tick comes."""
    clock, counts = Clock(), list[int]()
    waiting = (
        "SELECT 1 FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with opened(postgres_url, clock) as other:
        ticking = threading.Thread(target=lambda: counts.append(tick(other)))

        def hook(name: str) -> None:
            if name == "after:settle_run":
                ticking.start()
                eventually(lambda: counts or query(postgres_url, waiting))

        with opened(postgres_url, clock, hook) as store:
            add_run(store, add_schedule(store, overlap="cancel"))
            begin(store)
            (claimed,) = claim(store)
            clock.advance(MINUTE)
            assert settle(store, claimed.token)
            ticking.join()
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert query(postgres_url, deadlocks) == [(0,)]
        assert counts == [0], "the schedule was held"
        assert tick(other) == 1


@contextmanager
def waiting_for(url: str, run_id: str, work: Callable[[], Any]) -> Iterator[None]:
    """Within, `work` waits for a run that somebody else has locked."""
    thread = threading.Thread(target=work)
    with psycopg.connect(url, options=f"-c search_path={SCHEMA}") as connection:
        connection.execute("SELECT 1 FROM active_runs WHERE id = %s FOR UPDATE", [run_id])
        thread.start()
        eventually(lambda: query(url, LOCK_WAITS))
        yield
    thread.join()


def is_free(url: str, table: str, id_: str) -> bool:
    sql = f"SELECT 1 FROM {table} WHERE id = %s FOR NO KEY UPDATE SKIP LOCKED"  # noqa: S608
    return bool(query(url, sql, id_))


@pytest.mark.parametrize("verb", ["settle", "progress", "give way"])
def test_many_runs_are_locked_in_the_order_of_their_ids(postgres_url: str, verb: str) -> None:
    clock = Clock()
    with opened(postgres_url, clock) as store:
        ids = [add_schedule(store, f"job-{number}", overlap="cancel") for number in range(4)]
        clock.advance(MINUTE)
        for id_ in reversed(ids):
            store.transact(
                lambda tx, id_=id_: tx.plans.commit([plan(tx.plans.snapshot(id_), tx.now)], None)  # type: ignore[misc]
            )
        begin(store, lease=timedelta(days=9))
        tokens = sorted((c.token for c in claim(store)), key=lambda t: t.run_id, reverse=True)
        clock.advance(MINUTE)
        verbs: dict[str, Callable[[], Any]] = {
            "settle": lambda: store.transact(
                lambda tx: tx.attempts.settle_all(
                    [(token, Outcome("succeeded")) for token in tokens]
                )
            ),
            "progress": lambda: store.transact(
                lambda tx: tx.attempts.note_progress([(token, Progress(0.5)) for token in tokens])
            ),
            "give way": lambda: tick(store),
        }
        with waiting_for(postgres_url, tokens[-1].run_id, verbs[verb]):
            assert all(is_free(postgres_url, "active_runs", token.run_id) for token in tokens[:-1])


@pytest.mark.parametrize("first", ["plan", "claim"])
def test_of_a_plan_and_the_claim_of_a_backfill_one_sees_what_the_other_did(
    postgres_url: str, first: str
) -> None:
    """So that no backfill begins while a due time waits, however close they come."""
    clock = Clock()
    with opened(postgres_url, clock) as store, opened(postgres_url, clock) as other:
        begin(store, lease=timedelta(days=9))
        job = add_schedule(store, catchup="skip", grace="30s")
        clock.advance(2 * MINUTE)
        tick(store)
        settle(store, claim(store)[0].token)
        tick(store)
        before = clock.now - MINUTE
        filled = [Fire(before, "backfill")]
        store.transact(lambda tx: tx.runs.create_backfill(tx.plans.snapshot(job), filled))

        def plan_first(tx: Tx) -> None:
            clock.advance(MINUTE)
            snapshots = tx.plans.take(10).snapshots
            assert claim(other) == [], "somebody decides about due times"
            assert tx.plans.commit([plan(s, clock.now) for s in snapshots], None) == 1

        def claim_first(tx: Tx) -> None:
            assert [c.run.due_at for c in tx.claims.claim("node-1", "default", 9)] == [before]
            clock.advance(MINUTE)
            assert tick(other) == 0, "somebody begins a backfill"

        store.transact(plan_first if first == "plan" else claim_first)
        assert tick(other) == 0
        active = {(run.status, run.origin) for run in get_runs(store) if run.is_active}
        assert active == (
            {("queued", "schedule"), ("queued", "backfill")}
            if first == "plan"
            else {("running", "backfill")}
        )
        assert [c.run.origin for c in claim(other)] == (["schedule"] if first == "plan" else [])


def test_an_update_locks_runs_before_their_schedule_as_a_claim_does(postgres_url: str) -> None:
    with opened(postgres_url, Clock()) as store:
        schedule_id = add_schedule(store)
        run_id = add_run(store, schedule_id)
        book = Book(store)
        with waiting_for(
            postgres_url, run_id, lambda: book.schedules.update("job", overlap="allow")
        ):
            assert is_free(postgres_url, "schedules", schedule_id)


def test_a_node_says_how_far_its_clock_is_off(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the database's clock, which all go by."""
    off = timedelta(hours=1)
    monkeypatch.setattr("duebook.store.postgres.statements.utc_now", lambda: utc_now() - off)
    with opened(postgres_url) as store:
        begin(store)
        (node,) = store.read(lambda tx: tx.nodes.list_nodes())
        assert abs(node.clock_ahead + off) < timedelta(minutes=1)
        monkeypatch.setattr("duebook.store.postgres.store.utc_now", lambda: utc_now() + off)
        store.pulse(node.id, timedelta(minutes=1), [])
        (node,) = store.read(lambda tx: tx.nodes.list_nodes())
        assert abs(node.clock_ahead - off) < timedelta(minutes=1)


def test_ends_are_told_only_while_somebody_waits(postgres_url: str) -> None:
    worker, waiter = PostgresStore(postgres_url), PostgresStore(postgres_url)
    rung: list[News] = []
    ring = worker._herald.ring

    def note(news: News) -> None:
        rung.append(news)
        ring(news)

    worker._herald.ring = note  # type: ignore[method-assign]
    try:
        end_a_run(worker)
        assert not any(News.ENDS in news for news in rung), "nobody waits"
        worker.news(0)  # it listens, as a node does; for a minute anybody may be waiting
        worker._listener._awaited_until = 0.0
        seen = waiter.wait_for_ends(-1, 0)
        eventually(lambda: worker._listener.are_ends_awaited)
        seen = waiter.wait_for_ends(seen, 0)
        end_a_run(worker)
        assert any(News.ENDS in news for news in rung)
        eventually(lambda: waiter.wait_for_ends(seen, 0.1) != seen)
    finally:
        worker.close()
        waiter.close()


def end_a_run(store: PostgresStore) -> None:
    run = Book(store).enqueue("digest")
    Book(store).runs.cancel(run.id)

"""Due schedules per second on PostgreSQL, compared with one SQL statement and a one-row loop.

    python -m bench.fire --store postgres

The ceiling is one hand-written statement that takes, inserts and advances a batch, without Python
and without a plan: it handles only one trigger. The loop is what most database schedulers do: one
row per transaction. All write the same tables, with the server's durable settings.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import psycopg
from croniter import croniter

from bench.fire import BATCH, EXPRESSION, ROUNDS, START, Clock, fill
from bench.goals import Goals, ratios, show
from bench.server import durable_server
from duebook.engine.due_cursor import DueCursor
from duebook.engine.ticker import Ticker
from duebook.ids import new_id
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import Server

COLUMNS = (
    "id, schedule_id, version, due_at, origin, wakes, created_at, ready_at, namespace, trigger,"
    " queue, priority, exclusive, max_takeovers, status"
)
REST = f"'schedule:{EXPRESSION}', 'default', 0, false, 3, 'queued'"
CEILING = f"""
WITH due AS (
    SELECT schedule_id, version, next_due_at FROM schedule_state WHERE wake_at <= %(now)s
    ORDER BY wake_at LIMIT {BATCH} FOR UPDATE SKIP LOCKED),
moved AS (
    UPDATE schedule_state AS st SET watermark = %(now)s, fired = st.fired + 1,
        next_due_at = %(now)s + interval '1 minute', wake_at = %(now)s + interval '1 minute'
    FROM due WHERE st.schedule_id = due.schedule_id),
new AS (
    INSERT INTO due_keys (schedule_id, due_at, run_id)
    SELECT schedule_id, next_due_at, gen_random_uuid()::text FROM due
    ON CONFLICT DO NOTHING
    RETURNING run_id, schedule_id, due_at)
INSERT INTO active_runs ({COLUMNS})
SELECT new.run_id, new.schedule_id, due.version, new.due_at, 'schedule', false, %(now)s,
    %(now)s, 'default', {REST} FROM new JOIN due ON due.schedule_id = new.schedule_id
"""  # noqa: S608
MORE = """
INSERT INTO schedules (id, namespace, name, version, created_at)
SELECT 'more-' || n, 'default', 'more-' || n, 1, now() FROM generate_series(1, {many}) AS n;
INSERT INTO schedule_revisions (schedule_id, version, spec, valid_from)
SELECT s.id, 1, first.spec, now() FROM schedules AS s
CROSS JOIN (SELECT spec FROM schedule_revisions LIMIT 1) AS first WHERE s.id LIKE 'more-%';
INSERT INTO schedule_state (schedule_id, version, status, watermark, next_due_at, wake_at)
SELECT id, 1, 'active', now(), now() + interval '9 years', now() + interval '9 years'
FROM schedules WHERE id LIKE 'more-%';
"""
TAKE_ONE = (
    "SELECT schedule_id, version, next_due_at FROM schedule_state WHERE wake_at <= %s"
    " ORDER BY wake_at LIMIT 1 FOR UPDATE SKIP LOCKED"
)
INSERT_ONE = (
    f"INSERT INTO active_runs ({COLUMNS})"  # noqa: S608
    f" VALUES (%s, %s, %s, %s, 'schedule', false, %s, %s, 'default', {REST})"
)
MOVE_ONE = (
    "UPDATE schedule_state SET watermark = %s, next_due_at = %s, wake_at = %s"
    " WHERE schedule_id = %s"
)

Step = Callable[[], list[float]]
"""Fires all that is due; returns how long each call took."""
Fire = Callable[[str, Clock], Step]


def main(many: int, rounds: int = 3) -> None:
    with durable_server() as server:
        report(server, many, rounds)


def report(server: Server, many: int, rounds: int) -> None:
    kinds = [
        (fire, processes) for processes in (1, 2) for fire in (fire_by_statement, fire_by_ticker)
    ]
    found: dict[tuple[str, int], list[float]] = {}
    loop = []
    for _ in range(rounds):  # in turn, because the machine may be busy at times
        for fire, processes in kinds:
            speeds = found.setdefault((fire.__name__, processes), [])
            speeds.append(speed(server, fire, processes, (10 if rounds > 1 else 2) * BATCH))
        loop.append(speed(server, fire_by_row, 1, BATCH))
    (best, us), (best_of_two, two) = (
        [found[f.__name__, n] for f in (fire_by_statement, fire_by_ticker)] for n in (1, 2)
    )
    few, large = tick_milliseconds(server, BATCH), tick_milliseconds(server, many)
    claims, p99 = claims_of_fifty(server)
    title = "Due schedules per second on PostgreSQL"
    show("Duebook, one process", us, chart=title)
    show("one statement without Python, one process", best, chart=title)
    show("Duebook, two processes", two, chart=title)
    show("one statement without Python, two processes", best_of_two, chart=title)
    show("one row per transaction", loop, chart=title)
    show("50 connections with 1,000 due, claims per second", [claims])
    show("  p99 of one call, ms", [p99])
    show(f"a tick with 1,000 due among {BATCH:,} schedules, ms", [few])
    show(f"a tick with 1,000 due among {many:,} schedules, ms", [large])
    goals = Goals()
    goals.at_least("of the one statement", 1.0, ratios(us, best))
    goals.at_least("of the one statement, two processes", 0.65, ratios(two, best_of_two))
    goals.at_least("times the one-row loop", 20, ratios(us, loop))
    goals.at_least("claims per second of 50", 10_000, [claims])
    goals.below("p99 of one claim, ms", 100, [p99])
    goals.at_most(f"times as long among {many:,}", 1.5, [large / few])
    sys.exit(goals.exit_code)


@contextmanager
def books(server: Server, schedules: int, due: int) -> Iterator[tuple[str, Clock]]:
    """A database with this many schedules, of which the first are due at the next minute."""
    with server.database() as url:
        clock = Clock()
        store = PostgresStore(url, clock)
        fill(store, due)
        store.close()
        with psycopg.connect(
            url, autocommit=True, options=f"-c search_path={SCHEMA}"
        ) as connection:
            connection.execute(MORE.replace("{many}", str(schedules - due)).encode())
            connection.execute("VACUUM ANALYZE")
        yield url, clock


def speed(server: Server, fire: Fire, processes: int, number: int) -> float:
    """Due schedules per second of this many processes together."""
    with books(server, number, number) as (url, clock):
        with crew(fire, url, processes) as work:
            speeds = []
            for _ in range(ROUNDS if number > BATCH else 1):
                clock.now += timedelta(minutes=1)
                speeds.append(number / work(clock.now)[0])
        return statistics.median(speeds)


def claims_of_fifty(server: Server) -> tuple[float, float]:
    """Claims per second, and the p99 of one call in milliseconds, with 50 connections."""
    with books(server, BATCH, BATCH) as (url, clock), crew(fire_by_many, url, 4) as work:
        speeds, calls = [], []
        for number in range(8 * ROUNDS):
            clock.now += timedelta(minutes=1)
            taken, found = work(clock.now)
            if number >= 4 * ROUNDS:  # each process has seen the schedules by then
                speeds.append(BATCH / taken)
                calls += found
    return statistics.median(speeds), statistics.quantiles(calls, n=100)[98] * 1e3


@contextmanager
def crew(
    fire: Fire, url: str, number: int
) -> Iterator[Callable[[datetime], tuple[float, list[float]]]]:
    """Processes that fire what is due at a given time: the seconds in total, and of each call."""
    context = get_context("spawn")
    begin = context.Barrier(number + 1)
    orders, done = context.Queue(), context.Queue()
    processes = [
        context.Process(target=member, args=(fire, url, begin, orders, done)) for _ in range(number)
    ]

    def work(now: datetime | None) -> tuple[float, list[float]]:
        for _ in processes:
            orders.put(now)
        begin.wait()
        began = time.perf_counter()
        ends = [done.get() for _ in processes]
        return max(end for end, _ in ends) - began, [call for _, calls in ends for call in calls]

    for process in processes:
        process.start()
    work(START)  # nothing is due yet: this connects and prepares statements
    try:
        yield work
    finally:
        for process in processes:
            process.kill()


def member(fire: Fire, url: str, begin: Any, orders: Any, done: Any) -> None:
    clock = Clock()
    step = fire(url, clock)
    while True:
        clock.now = orders.get()
        begin.wait()
        calls = step()
        done.put((time.perf_counter(), calls))


def fire_by_ticker(url: str, clock: Clock) -> Step:
    """As in a node: a second ticker helps while there is more than a batch."""
    return by_threads(PostgresStore(url, clock), clock, 2)


def fire_by_many(url: str, clock: Clock) -> Step:
    return by_threads(PostgresStore(url, clock, connections=13), clock, 13)


def by_threads(store: PostgresStore, clock: Clock, number: int) -> Step:
    cursor = DueCursor()
    tickers = [Ticker(store, batch=BATCH, cursor=cursor) for _ in range(number)]
    pool = ThreadPoolExecutor(number)

    def go(ticker: Ticker) -> list[float]:
        calls = []
        wake_at: datetime | None = clock.now
        while wake_at is not None and wake_at <= clock.now:
            began = time.perf_counter()
            wake_at = ticker.step()
            calls.append(time.perf_counter() - began)
        return calls

    return lambda: [call for calls in pool.map(go, tickers) for call in calls]


def fire_by_statement(url: str, clock: Clock) -> Step:
    connection = psycopg.connect(url, autocommit=True, options=f"-c search_path={SCHEMA}")

    def step() -> list[float]:
        while connection.execute(CEILING.encode(), {"now": clock.now}).rowcount:
            pass
        return []

    return step


def fire_by_row(url: str, clock: Clock) -> Step:
    connection = psycopg.connect(url, options=f"-c search_path={SCHEMA}")

    def step() -> list[float]:
        now = clock.now
        while row := connection.execute(TAKE_ONE, [now]).fetchone():
            following = croniter(EXPRESSION, now).get_next(datetime)
            connection.execute(INSERT_ONE.encode(), [new_id(), *row, now, now])
            connection.execute(MOVE_ONE, [now, following, following, row[0]])
            connection.commit()
        connection.rollback()
        return []

    return step


def tick_milliseconds(server: Server, schedules: int) -> float:
    with books(server, schedules, BATCH) as (url, clock):
        ticker = Ticker(PostgresStore(url, clock), batch=BATCH)
        times = []
        for _ in range(ROUNDS):
            clock.now += timedelta(minutes=1)
            began = time.perf_counter()
            ticker.step()
            times.append((time.perf_counter() - began) * 1e3)
        return statistics.median(times)

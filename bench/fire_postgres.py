"""Due schedules per second on PostgreSQL, beside one SQL statement and beside the one-row loop.

    python -m bench.fire --store postgres

The ceiling is one hand-written statement that takes, inserts and advances a batch, without Python
and without a plan: it knows one trigger only. The loop is what most schedulers in a database do:
one row per transaction. All write the same tables, with the server's durable settings.
"""

from __future__ import annotations

import statistics
import sys
import time
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
from croniter import croniter
from tests.postgres import Server

from bench.fire import BATCH, EXPRESSION, ROUNDS, Clock, fill
from duebook.engine.ticker import Ticker
from duebook.ids import new_id
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    FROM due WHERE st.schedule_id = due.schedule_id)
INSERT INTO runs ({COLUMNS})
SELECT gen_random_uuid()::text, schedule_id, version, next_due_at, 'schedule', false, %(now)s,
    %(now)s, 'default', {REST} FROM due
ON CONFLICT (schedule_id, due_at) DO NOTHING
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
    f"INSERT INTO runs ({COLUMNS})"  # noqa: S608
    f" VALUES (%s, %s, %s, %s, 'schedule', false, %s, %s, 'default', {REST})"
)
MOVE_ONE = (
    "UPDATE schedule_state SET watermark = %s, next_due_at = %s, wake_at = %s"
    " WHERE schedule_id = %s"
)


def main(many: int) -> None:
    server = Server(durable=True)
    try:
        server.make_template(lambda url: PostgresStore(url).close())
        report(server, many)
    finally:
        server.close()


def report(server: Server, many: int) -> None:
    ceiling, ours, loop = [], [], []
    for _ in range(3):  # by turns, for the machine may be busy now and then
        ceiling.append(speed(server, fire_by_statement))
        ours.append(speed(server, fire_by_ticker))
        loop.append(speed(server, fire_by_row, BATCH))
    best, us, rows = map(statistics.median, (ceiling, ours, loop))
    few, large = tick_milliseconds(server, BATCH), tick_milliseconds(server, many)
    print(f"{'PostgreSQL ' + server.version + ', due schedules per second':40}{us:>12,.0f}")
    print(f"{'  one statement without Python':40}{best:>12,.0f}")
    print(f"{'  one row per transaction':40}{rows:>12,.0f}")
    print(f"{'a tick with 1,000 due, ms':40}{few:>12.1f}")
    print(f"{f'  among {many:,} schedules':40}{large:>12.1f}")
    goals = [
        ("of the one statement", us / best, ">= 0.7", us / best >= 0.7),
        ("times the one-row loop", us / rows, ">= 20", us / rows >= 20),
        ("times as long among many", large / few, "<= 1.5", large / few <= 1.5),
    ]
    for what, ratio, goal, holds in goals:
        print(f"{what:40}{ratio:>12.2f}   goal {goal:7}{'holds' if holds else 'MISSED'}")
    sys.exit(0 if all(holds for *_, holds in goals) else 1)


@contextmanager
def books(server: Server, schedules: int, due: int) -> Iterator[tuple[str, Clock]]:
    """A database with so many schedules, of which the first are due at the next minute."""
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


def speed(
    server: Server, fire: Callable[[str, Clock], Callable[[], None]], number: int = 10 * BATCH
) -> float:
    with books(server, number, number) as (url, clock):
        step = fire(url, clock)
        speeds = []
        for _ in range(ROUNDS if number > BATCH else 1):
            clock.now += timedelta(minutes=1)
            began = time.perf_counter()
            step()
            speeds.append(number / (time.perf_counter() - began))
        return statistics.median(speeds)


def fire_by_ticker(url: str, clock: Clock) -> Callable[[], None]:
    ticker = Ticker(PostgresStore(url, clock), batch=BATCH)

    def step() -> None:
        while (wake_at := ticker.step()) is not None and wake_at <= clock.now:
            pass

    return step


def fire_by_statement(url: str, clock: Clock) -> Callable[[], None]:
    connection = psycopg.connect(url, autocommit=True, options=f"-c search_path={SCHEMA}")

    def step() -> None:
        while connection.execute(CEILING.encode(), {"now": clock.now}).rowcount:
            pass

    return step


def fire_by_row(url: str, clock: Clock) -> Callable[[], None]:
    connection = psycopg.connect(url, options=f"-c search_path={SCHEMA}")

    def step() -> None:
        now = clock.now
        while row := connection.execute(TAKE_ONE, [now]).fetchone():
            following = croniter(EXPRESSION, now).get_next(datetime)
            connection.execute(INSERT_ONE.encode(), [new_id(), *row, now, now])
            connection.execute(MOVE_ONE, [now, following, following, row[0]])
            connection.commit()
        connection.rollback()

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

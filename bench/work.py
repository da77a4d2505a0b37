"""Runs per second beside pgqueuer, how late they start, and what a node at rest asks.

    python -m bench.work

No-op async tasks through the real dispatcher, slots and settler of one worker process, beside
pgqueuer with batches of 500 on the same durable server. Lateness and queries are those of a real
node.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import threading
import time
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver
from pgqueuer.types import QueueExecutionMode
from tests.postgres import Server

from duebook.clock import utc_now
from duebook.engine.alarm import Alarm
from duebook.engine.dispatcher import Dispatcher
from duebook.engine.node import new_session
from duebook.engine.performer import TargetPerformer
from duebook.engine.slots import Slots
from duebook.ids import new_id
from duebook.model.schedule import load_spec
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA
from duebook.targets.spawner import Spawner
from duebook.targets.task import Tasks

BATCH = 500
NUMBER = 20_000
ROUNDS = 3
TASK = {"trigger": {"every": "9d"}, "target": {"task": "job"}, "overlap": "allow"}
MANY_RUNS = """
INSERT INTO runs (id, schedule_id, version, origin, wakes, created_at, ready_at, namespace, trigger,
    queue, priority, task, exclusive, max_takeovers, status)
SELECT new, s.id, 1, 'manual', false, now(), now(), 'default', 'manual', 'default', 0, 'job', false,
    3, 'queued'
FROM schedules AS s CROSS JOIN unnest(%s::text[]) AS new
"""
LATE = """
SELECT extract(epoch FROM started_at - due_at) * 1000 FROM runs WHERE due_at IS NOT NULL
"""


async def job() -> None:
    pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="how long lateness is measured")
    options = parser.parse_args()
    server = Server(durable=True)
    try:
        server.make_template(lambda url: PostgresStore(url).close())
        server.execute("CREATE DATABASE peer")
        sys.exit(report(server, options.seconds))
    finally:
        server.close()


def report(server: Server, seconds: int) -> int:
    ours, peer = [], []
    for _ in range(ROUNDS):  # by turns, for the machine may be busy now and then
        ours.append(runs_per_second(server))
        peer.append(asyncio.run(pgqueuer_per_second(server.url("peer", "127.0.0.1"))))
    us, them = statistics.median(ours), statistics.median(peer)
    print(f"{'no-op tasks per second, one worker':40}{us:>12,.0f}")
    print(f"{f'  pgqueuer, batches of {BATCH}':40}{them:>12,.0f}")
    late = lateness(server, seconds)
    p50, p99 = statistics.median(late), statistics.quantiles(late, n=100)[98]
    print(f"{'lateness of 100 a second, ms: median':40}{p50:>12.1f}")
    print(f"{'  p99':40}{p99:>12.1f}")
    rest = queries_at_rest(server, seconds)
    print(f"{'queries of a node at rest, a second':40}{rest:>12.2f}")
    goals = [
        ("times pgqueuer", us / them, ">= 1.5", us / them >= 1.5),
        ("p99 of lateness, ms", p99, "< 25", p99 < 25),
        ("queries at rest", rest, "<= 0.2", rest <= 0.2),
    ]
    for what, figure, goal, holds in goals:
        print(f"{what:40}{figure:>12.2f}   goal {goal:7}{'holds' if holds else 'MISSED'}")
    return 0 if all(holds for *_, holds in goals) else 1


def runs_per_second(server: Server) -> float:
    """Everything that a worker process does for async tasks."""
    with server.database() as url:
        store = PostgresStore(url)
        add(store, "job", TASK)
        execute(url, MANY_RUNS, [new_id() for _ in range(NUMBER)])
        tasks = Tasks()
        tasks.add(job)
        session = new_session("worker", tasks.names)
        store.transact(lambda tx: tx.begin_session(session, timedelta(minutes=5)))
        alarm = Alarm()
        performer = TargetPerformer(store, Spawner(), lambda: None, tasks=tasks)
        slots = Slots(store, performer, 2 * BATCH, alarm.ring)
        dispatcher = Dispatcher(store, slots, session.id, ("default",), lambda: tasks.names)
        began = time.perf_counter()
        dispatcher.step()
        while slots.working():
            alarm.wait(1)
            dispatcher.step()
        taken = time.perf_counter() - began
        slots.close()
        performer.close()
        store.close()
        left = execute(url, "SELECT count(*) FROM runs WHERE status <> 'succeeded'")
        assert left == [(0,)], left
    return NUMBER / taken


async def pgqueuer_per_second(url: str) -> float:
    connection = await asyncpg.connect(url)
    driver = AsyncpgDriver(connection)
    queries = Queries(driver)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await queries.install()
    await connection.execute("VACUUM ANALYZE")
    queuer = PgQueuer(driver)

    @queuer.entrypoint("job")
    async def job(job: Any) -> None:
        pass

    await queries.enqueue(["job"] * NUMBER, [None] * NUMBER, [0] * NUMBER)
    began = time.perf_counter()
    await queuer.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
    taken = time.perf_counter() - began
    await connection.close()
    return NUMBER / taken


def lateness(server: Server, seconds: int) -> list[float]:
    """Milliseconds from the due time to the start, of runs of a real node."""
    with server.database() as url:
        store = PostgresStore(url)
        begin = utc_now() + timedelta(seconds=5)
        for number in range(100 * seconds):
            at = begin + timedelta(milliseconds=10 * number)
            trigger = {"at": at.isoformat()}
            add(store, f"job-{number}", TASK | {"trigger": trigger})
        with node(url):
            end = begin + timedelta(seconds=seconds + 3)
            threading.Event().wait((end - utc_now()).total_seconds())
        store.close()
        late = [float(row[0]) for row in execute(url, LATE)]
    assert len(late) == 100 * seconds, len(late)
    return late


def queries_at_rest(server: Server, seconds: int) -> float:
    """Statements in the server's log while a node has nothing to do."""
    with server.database() as url:
        PostgresStore(url).close()
        with node(url):
            threading.Event().wait(5)
            server.execute("ALTER SYSTEM SET log_statement = 'all'")
            server.execute("SELECT pg_reload_conf()")
            threading.Event().wait(1)
            before = statements(server)
            threading.Event().wait(max(seconds, 30))
            return (statements(server) - before) / max(seconds, 30)


def statements(server: Server) -> int:
    log = (server.folder / "log").read_text(errors="replace")
    return log.count(" LOG:  statement: ") + log.count(" LOG:  execute ")


class node:  # noqa: N801 - reads as a word in a with statement
    """A node of one's own process, as users start it."""

    def __init__(self, url: str) -> None:
        program = ["--app", "bench.program:book", "--slots", "50", "--quiet"]
        self._words = [sys.executable, "-m", "duebook", "up", *program]
        self._env = os.environ | {"DUEBOOK_DATABASE_URL": url}

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._words, stdout=subprocess.DEVNULL, env=self._env)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)


def add(store: PostgresStore, name: str, form: dict[str, Any]) -> None:
    spec = load_spec(form, name)

    def work(tx: Any) -> None:
        due_at = spec.triggers[0].next_after(tx.now)
        tx.create_schedule(new_id(), "default", name, spec, due_at, due_at, "bench")

    store.transact(work)


def execute(url: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, options=f"-c search_path={SCHEMA}") as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


if __name__ == "__main__":
    main()

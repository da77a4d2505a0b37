"""How deleting old history affects running work: lateness of 2,000 runs per second.

    python -m bench.retention [--old 1000000] [--seconds 30] [--quick]

A real node executes runs that are enqueued evenly: in turn while it deletes many runs that ended
before the retention period, and with no such runs. With --quick everything is run briefly, and the
figures mean little.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.drain import execute
from bench.goals import Goals, show
from bench.nodes import node
from bench.server import durable_server
from duebook.book import Book
from duebook.ids import new_id
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.hints import hint
from duebook.store.values import News
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.postgres import Server

EACH_SECOND: Final = 2_000
TIMES_A_SECOND: Final = 10
ROUNDS: Final = 3
OLD: Final = """
INSERT INTO ended_runs (id, schedule_id, version, due_at, origin, wakes, created_at, ready_at,
    namespace, trigger, queue, priority, task, exclusive, max_takeovers, status, attempt,
    session_id, claimed_at, started_at, finished_at)
SELECT gen_random_uuid()::text, r.schedule_id, r.version, at, 'schedule', false, at, at,
    r.namespace, r.trigger, r.queue, 0, r.task, false, 3, 'succeeded', 1, 'gone', at, at, at
FROM runs AS r CROSS JOIN LATERAL (
    SELECT now() - interval '100 days' + n * interval '1 ms' AS at
    FROM generate_series(1, %s) AS n) AS times
WHERE r.id = %s
"""
NEW: Final = """
INSERT INTO active_runs (id, schedule_id, version, origin, wakes, created_at, ready_at, namespace,
    trigger, queue, priority, task, exclusive, max_takeovers, status)
SELECT v.id, r.schedule_id, r.version, 'manual', false, now(), now(), r.namespace, 'manual',
    r.queue, 0, r.task, false, 3, 'queued'
FROM unnest(%s::text[]) AS v (id) JOIN runs AS r ON r.id = %s
"""
LATE: Final = """
SELECT extract(epoch FROM started_at - ready_at) * 1000 FROM runs
WHERE trigger = 'manual' AND finished_at IS NOT NULL AND id <> %s
ORDER BY ready_at
"""
LEFT: Final = "SELECT count(*) FROM runs WHERE finished_at < now() - interval '90 days'"


class Measured(NamedTuple):
    late: list[float]
    """milliseconds from when each run was ready to its start"""
    removed: float
    """old runs deleted per second"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=int, default=1_000_000, help="runs to be removed")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="try everything for a moment")
    options = parser.parse_args()
    rounds = 1 if options.quick else ROUNDS
    old, seconds = (10_000, 3) if options.quick else (options.old, options.seconds)
    with durable_server() as server:
        sys.exit(report(partial(measure, server, seconds=seconds), old, seconds, rounds))


def report(measured: Callable[[int], Measured], old: int, seconds: int, rounds: int) -> int:
    without, beside, removed, done = [], [], [], []
    for _ in range(rounds):
        without.append(p99(measured(0).late))
        among = measured(old)
        beside.append(p99(among.late))
        removed.append(among.removed)
        done.append(len(among.late) / seconds)
    show("p99 of lateness without old history, ms", without)
    show("  while it is removed, ms", beside)
    show("old runs removed a second", removed)
    goals = Goals()
    goals.at_least("runs a second beside the removal", 0.98 * EACH_SECOND, done)
    goals.at_least("removed for each run that ends", 1, [n / EACH_SECOND for n in removed])
    return goals.exit_code


def p99(late: list[float]) -> float:
    return statistics.quantiles(late, n=100)[98]


def measure(server: Server, old: int, seconds: int) -> Measured:
    with server.database() as url:
        with PostgresStoreOf(url) as first:
            if old:
                execute(url, OLD, old, first)
            execute(url, "ANALYZE runs")
            with node(url):
                enqueue(url, first, 2)  # until it is up
                before, began = left(url), time.perf_counter()
                enqueue(url, first, seconds)
                removed = (before - left(url)) / (time.perf_counter() - began)
        late = [float(ms) for (ms,) in execute(url, LATE, first)]
    return Measured(late[-seconds * EACH_SECOND :], removed)


class PostgresStoreOf:
    """A store with a schedule and its first run, whose id it returns."""

    def __init__(self, url: str) -> None:
        self._store = PostgresStore(url)

    def __enter__(self) -> str:
        tasks = Tasks()
        tasks.add(_job, "job")
        book = Book(self._store, tasks=tasks)
        book.schedules.create("job", trigger={"every": "9d"}, target="job", overlap="allow")
        return book.schedules.trigger("job").id

    def __exit__(self, *_: object) -> None:
        self._store.close()


async def _job() -> None:
    pass


def enqueue(url: str, first: str, seconds: float) -> None:
    """At even intervals, regardless of earlier runs."""
    begin = time.perf_counter()
    for number in range(round(seconds * TIMES_A_SECOND)):
        pause = begin + number / TIMES_A_SECOND - time.perf_counter()
        threading.Event().wait(max(pause, 0))
        execute(url, NEW, [new_id() for _ in range(EACH_SECOND // TIMES_A_SECOND)], first)
        execute(url, hint("bench", News.WORK).decode())  # as clients that enqueue runs do


def left(url: str) -> int:
    return int(execute(url, LEFT)[0][0])


if __name__ == "__main__":
    main()

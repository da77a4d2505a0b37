"""Keeps nodes on PostgreSQL busy for long, and fails if anything grows: `make soak`.

    python -m bench.soak [--minutes 30] [--rate 1000] [--nodes 2] [--every 5]

RATE schedules become due each second, and each runs a task that does nothing. Every few seconds it
records the nodes' memory, threads and descriptors, the server's connections, the size and dead rows
of the tables, how late runs start and how many wait. The first quarter is for warming up; growth is
the median of the last quarter compared with the second. History is expected to grow: there, the
bytes per row are compared.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
from tests.support.waiting import eventually

from bench.drain import execute
from bench.nodes import node
from bench.processes import descriptors, memory, threads
from bench.server import durable_server
from duebook.clock import utc_now
from duebook.ids import new_id
from duebook.model.definition import load_spec
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA
from duebook.store.values import NewSchedule

if TYPE_CHECKING:
    from duebook.store.base import Tx

PERIOD: Final = 10
"""Seconds between two due times of a schedule."""
BATCH: Final = 1_000
HISTORY: Final = ("ended_runs", "due_keys", "ledger", "events")
SESSIONS: Final = "SELECT count(*) FROM node_sessions"
TABLES: Final = """
SELECT relname = ANY(%(history)s) AS history, sum(pg_total_relation_size(relid)),
    sum(n_dead_tup), sum(n_live_tup)
FROM pg_stat_user_tables WHERE schemaname = %(schema)s GROUP BY 1
"""
CONNECTIONS: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND backend_type = 'client backend'
"""
LATE: Final = """
SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY late),
    percentile_cont(0.99) WITHIN GROUP (ORDER BY late), max(late)
FROM (SELECT extract(epoch FROM started_at - due_at) * 1000 AS late FROM ended_runs
      WHERE finished_at > now() - make_interval(secs => %s)) AS recent
"""
WAITING: Final = "SELECT count(*) FROM active_runs"


class Sample(NamedTuple):
    """The measurements at one moment."""

    seconds: float
    memory: float
    """MB of all nodes"""
    threads: int
    descriptors: int
    connections: int
    live_tables: float
    """MB of the tables whose rows change"""
    dead_rows: int
    """in these tables"""
    history_row: float
    """bytes of a row of history, with indexes"""
    runs: float
    """per second"""
    p50: float
    p99: float
    longest: float
    waiting: int


class Growth(NamedTuple):
    """A field of samples, and how much it may grow: by a factor, and by an additional amount."""

    field: str
    factor: float
    more: float


ALLOWED: Final = (
    Growth("memory", 1.1, 8),
    Growth("threads", 1, 4),
    Growth("descriptors", 1, 8),
    Growth("connections", 1, 4),
    Growth("live_tables", 1.25, 4),
    Growth("dead_rows", 1.5, 20_000),
    Growth("history_row", 1.1, 20),
    Growth("p50", 1.5, 10),
    Growth("p99", 1.5, 100),
    Growth("waiting", 1.5, 500),
)
RATE_KEPT: Final = 0.98


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=int, default=1_000, help="due times a second")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--every", type=float, default=5, help="seconds between two looks")
    options = parser.parse_args()
    with durable_server() as server, server.database() as url:
        samples = soak(url, options.minutes * 60, options.rate, options.nodes, options.every)
    sys.exit(verdict(samples, options.rate))


def soak(url: str, seconds: float, rate: int, number: int, every: float) -> list[Sample]:
    print(f"{seconds / 60:g} minutes of {rate:,} due times a second, {number} nodes", flush=True)
    with ExitStack() as stack:
        add_schedules(url, rate * PERIOD)
        nodes = [stack.enter_context(node(url, slots=200)) for _ in range(number)]
        eventually(lambda: execute(url, SESSIONS) == [(number,)])
        pids = [one.pid for one in nodes]
        samples, began = [], time.monotonic()
        print(" ".join(f"{field:>11}" for field in Sample._fields), flush=True)
        while (now := time.monotonic() - began) < seconds:
            samples.append(look(url, pids, now, every))
            print(" ".join(f"{value:>11,.6g}" for value in samples[-1]), flush=True)
            rest = began + (len(samples) + 1) * every - time.monotonic()
            threading.Event().wait(max(rest, 0.1))
    return samples


def add_schedules(url: str, number: int) -> None:
    """Due every PERIOD seconds, one shortly after the other."""
    form: dict[str, Any] = {"target": "job", "overlap": "allow"}
    begin = utc_now() + timedelta(seconds=5 + number / 1_000)
    step = timedelta(seconds=PERIOD) / number
    made = []
    for n in range(number):
        due = begin + n * step
        trigger = {"every": f"{PERIOD}s", "anchor": due.isoformat()}
        spec = load_spec(form | {"trigger": trigger}, f"job-{n}")
        made.append(NewSchedule(new_id(), "default", f"job-{n}", spec, due, due))

    def add(tx: Tx, first: int) -> None:
        tx.schedules.create_schedules(made[first : first + BATCH], "soak", utc_now())

    with closing(PostgresStore(url)) as store:
        for first in range(0, number, BATCH):
            store.transact(partial(add, first=first))
    execute(url, "ANALYZE")


def look(url: str, pids: list[int], seconds: float, while_: float) -> Sample:
    with psycopg.connect(url, options=f"-c search_path={SCHEMA}") as connection:

        def ask(statement: str, *values: Any) -> list[tuple[Any, ...]]:
            return connection.execute(statement.encode(), values or None).fetchall()

        tables = connection.execute(TABLES, {"history": [*HISTORY], "schema": SCHEMA}).fetchall()
        sizes = {row[0]: [float(value) for value in row[1:]] for row in tables}
        ((connections,),) = ask(CONNECTIONS)
        ((number, p50, p99, longest),) = ask(LATE, while_)
        ((waiting,),) = ask(WAITING)
    history, live = sizes[True], sizes[False]
    # the statistics are some seconds old: with few rows they mean nothing
    row = history[0] / history[2] * 2 if history[2] > BATCH else 0
    return Sample(
        seconds,
        sum(map(memory, pids)),
        sum(map(threads, pids)),
        sum(map(descriptors, pids)),
        connections,
        live[0] / 1e6,
        int(live[1]),
        row,
        number / while_,
        float(p50 or 0),
        float(p99 or 0),
        float(longest or 0),
        waiting,
    )


def verdict(samples: list[Sample], rate: int) -> int:
    """The exit code; prints for each figure how it grew."""
    quarter = len(samples) // 4
    if not quarter:
        print("too few samples for a verdict")
        return 1
    before, after = samples[quarter : 2 * quarter], samples[-quarter:]
    wrong = 0
    print(f"\n{'median of':16}{'2nd quarter':>14}{'last quarter':>14}{'allowed':>14}")
    for field, factor, more in ALLOWED:
        first, last = median(before, field), median(after, field)
        allowed = first * factor + more
        wrong += last > allowed
        grew = "GREW" if last > allowed else "holds"
        print(f"{field:16}{first:>14,.6g}{last:>14,.6g}{allowed:>14,.6g}  {grew}")
    first, last = median(before, "runs"), median(after, "runs")
    behind = last < RATE_KEPT * rate
    wrong += behind
    print(
        f"{'runs a second':16}{first:>14,.6g}{last:>14,.6g}{RATE_KEPT * rate:>14,.6g}"
        f"  {'TOO FEW' if behind else 'holds'}"
    )
    print(f"{wrong} figures are wrong" if wrong else "nothing grew")
    return 1 if wrong else 0


def median(samples: list[Sample], field: str) -> float:
    return statistics.median(float(getattr(sample, field)) for sample in samples)


if __name__ == "__main__":
    main()

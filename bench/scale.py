"""How a tick grows with the number of schedules, and a claim with that of finished runs.

    python -m bench.scale [--schedules 10000000] [--finished 50000000]        (make bench-scale)

Both are measured in turn with a database that has few of them. The rows are copies of real ones,
made by set-based SQL: all of them take about 50 GB and, on an otherwise idle machine, half an hour.
If the disk is too small for the requested sizes, they fill two thirds of the free space; the sizes
that were used are printed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from bench.claims import CLAIMED, claimer
from bench.drain import KINDS, worker
from bench.due_runs import JOB, Clock, add_schedules, fire
from bench.goals import Goals, interleaved, ratios, show
from bench.server import durable_server
from duebook.engine.ticker import Ticker
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.support.postgres import Server

FEW: Final = 1_000
"""Schedules that are due every minute, from which the others are copied."""
ROUNDS: Final = 9
CLAIMS: Final = 10
BACKLOG: Final = 12
"""Minutes whose runs are ready when claims start."""
AT_ONCE: Final = 500_000
"""Rows that one statement inserts."""
SCHEDULE_BYTES: Final = 1_100
RUN_BYTES: Final = 800
"""On disk, with indexes."""

FAR: Final = "r.{} + interval '9 years'"
EARLIER: Final = "r.{} - n * interval '1 minute'"
COPIES: Final = {
    "schedules": {"id": "r.id || '-' || n", "name": "r.name || '-' || n"},
    "schedule_revisions": {"schedule_id": "r.schedule_id || '-' || n"},
    "schedule_state": {
        "schedule_id": "r.schedule_id || '-' || n",
        "next_due_at": FAR.format("next_due_at"),
        "wake_at": FAR.format("wake_at"),
    },
}
"""The columns that differ in copies of schedules, which are due in nine years."""
RUNS: Final = {"id": "r.id || '-' || n", "place": "nextval('run_places')"} | {
    name: EARLIER.format(name)
    for name in ("due_at", "created_at", "ready_at", "claimed_at", "started_at", "finished_at")
}
"""The columns that differ in copies of finished runs, each a minute earlier than the last."""
COLUMNS: Final = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s AND is_identity = 'NO' AND is_generated = 'NEVER'
ORDER BY ordinal_position
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000_000)
    parser.add_argument("--finished", type=int, default=50_000_000)
    parser.add_argument("--quick", action="store_true", help="try everything with few")
    options = parser.parse_args()
    if options.quick:
        options.schedules, options.finished = 10_000, 10_000
    with durable_server() as server:
        server.execute("ALTER SYSTEM SET max_wal_size = '8GB'")  # fewer checkpoints while filling
        server.execute("SELECT pg_reload_conf()")
        goals = Goals()
        compare_ticks(server, that_fit(server, options.schedules, SCHEDULE_BYTES), goals)
        compare_claims(server, that_fit(server, options.finished, RUN_BYTES), goals)
    sys.exit(goals.exit_code)


def that_fit(server: Server, wanted: int, size: int) -> int:
    """As many rows as requested, or as many as fill two thirds of the free space."""
    fitting = shutil.disk_usage(server.folder).free * 2 // 3 // size // FEW * FEW
    if fitting < wanted:
        print(f"{wanted:,} rows do not fit on this disk; {fitting:,} are made instead")
    return min(wanted, fitting)


def compare_ticks(server: Server, number: int, goals: Goals) -> None:
    sizes = powers(FEW, number)
    with ExitStack() as stack:
        kinds = {f"{n:,}": stack.enter_context(ticking(server, n)) for n in sizes}
        found = interleaved(kinds, ROUNDS)
    for size, figures in found.items():
        chart = f"A tick with {FEW:,} due among so many schedules, ms"
        show(f"{size} schedules: a tick with {FEW:,} due, ms", figures, chart=chart)
    what = f"a tick among {number:,} schedules, times one among {FEW:,}"
    goals.at_most(what, 1.5, ratios(found[f"{number:,}"], found[f"{FEW:,}"]))


def compare_claims(server: Server, number: int, goals: Goals) -> None:
    sizes = [0, *powers(min(number, 1_000_000), number)]
    with ExitStack() as stack:
        kinds = {f"{n:,}": stack.enter_context(claiming(server, n)) for n in sizes}
        found = interleaved(kinds, ROUNDS)
    for size, figures in found.items():
        chart = f"A claim of {CLAIMED} beside so many finished runs, ms"
        show(f"{size} finished runs: a claim of {CLAIMED}, ms", figures, chart=chart)
    what = f"a claim beside {number:,} finished runs, times beside none"
    goals.at_most(what, 1.2, ratios(found[f"{number:,}"], found["0"]))


def powers(first: int, last: int) -> list[int]:
    """Increasing by a factor of ten, and the last one."""
    found = [first]
    while found[-1] * 10 < last:
        found.append(found[-1] * 10)
    return found if last == first else [*found, last]


@contextmanager
def ticking(server: Server, schedules: int) -> Iterator[Callable[[], float]]:
    """Each call returns the milliseconds of a tick in which FEW of this many schedules are due."""
    with opened(server) as (url, store, clock):
        for table, replaced in COPIES.items():
            copy(url, table, replaced, schedules - FEW)
        settle_down(url)
        ticker = Ticker(store, batch=FEW)

        def tick() -> float:
            clock.now += timedelta(minutes=1)
            before, began = ticker.fired, time.perf_counter()
            ticker.step()
            taken = time.perf_counter() - began
            assert ticker.fired - before == FEW, ticker.fired - before
            return taken * 1e3

        tick()  # opens connections and prepares statements
        yield tick


@contextmanager
def claiming(server: Server, finished: int) -> Iterator[Callable[[], float]]:
    """Each call returns the milliseconds of a claim among this many finished runs."""
    with opened(server) as (url, store, clock):
        if finished:
            fire(store, clock)
            with worker(KINDS[0], store) as perform_all:
                perform_all()
            copy(url, "ended_runs", RUNS, finished - FEW)
        fire(store, clock, BACKLOG)
        settle_down(url)
        with claimer(store) as claim:
            claim(CLAIMS)  # prepares statements
            yield lambda: claim(CLAIMS)


@contextmanager
def opened(server: Server) -> Iterator[tuple[str, PostgresStore, Clock]]:
    with server.database() as url:
        clock = Clock()
        store = PostgresStore(url, clock)
        add_schedules(store, clock, {f"job-{n}": JOB for n in range(FEW)})
        yield url, store, clock
        store.close()


def copy(url: str, table: str, replaced: Mapping[str, str], number: int) -> None:
    """Copy the FEW existing rows this many times, with the replaced columns."""
    with connected(url) as connection:
        columns = [name for (name,) in connection.execute(COLUMNS, [SCHEMA, table])]
        assert set(replaced) <= set(columns), columns
        values = [replaced.get(name, f'r."{name}"') for name in columns]
        connection.execute(f"CREATE TEMP TABLE first AS TABLE {table}".encode())
        statement = sql.SQL(
            "INSERT INTO {} ({}) SELECT {} FROM generate_series(%s::int, %s::int) AS n"
            " CROSS JOIN first AS r"
        ).format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, columns)),
            sql.SQL(", ".join(values)),
        )
        times, step = number // FEW, AT_ONCE // FEW
        for begin in range(1, times + 1, step):
            connection.execute(statement, [begin, min(begin + step - 1, times)])


def settle_down(url: str) -> None:
    """Do in advance what the server would do in the background."""
    with connected(url) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def connected(url: str) -> psycopg.Connection:
    options = f"-c search_path={SCHEMA} -c synchronous_commit=off"
    return psycopg.connect(url, autocommit=True, options=options)


if __name__ == "__main__":
    main()

"""What a transaction left open by another client costs: a claim, and runs per second.

    python -m bench.held [--seconds 300] [--dead 100000] [--quick]

While it is open, PostgreSQL removes no row version that it might see, nor its index entries, so
entries of runs that started long ago stay in the index of ready runs. Claims are measured in turn
on the same kind of database without an open transaction, and on one whose statistics were taken
when nothing was queued, which autovacuum often does. With --quick everything is run briefly, and
the figures mean little.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg

from bench.claims import CLAIMED, claimer
from bench.drain import KINDS, worker
from bench.due_runs import JOB, Clock, add_schedules, fire
from bench.goals import Goals, interleaved, ratios, show
from bench.server import durable_server
from duebook.engine.ticker import Ticker
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.postgres import Server

SCHEDULES: Final = 5_000
"""Each becomes due once in every part of a measurement."""
CLAIMS: Final = SCHEDULES // CLAIMED
BACKLOG: Final = 4
"""How often all schedules have become due without their runs being claimed."""
ROUNDS: Final = 5
ENDS: Final = 5
"""The number of parts at the start and at the end whose speeds are compared."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="how long it is held open")
    parser.add_argument("--dead", type=int, default=100_000, help="runs whose entries stay")
    parser.add_argument("--quick", action="store_true", help="try everything for a moment")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.dead = 10, 10_000
    with durable_server() as server:
        goals = Goals()
        compare_claims(server, options.dead, goals)
        hold_open(server, options.seconds, goals)
    sys.exit(goals.exit_code)


def compare_claims(server: Server, dead: int, goals: Goals) -> None:
    with (
        books(server, dead) as clean,
        books(server, dead, held=True) as with_dead,
        books(server, dead, analyzed_empty=True) as analyzed_empty,
    ):
        kinds = {"clean": clean, "dead": with_dead, "analyzed empty": analyzed_empty}
        found = interleaved(kinds, ROUNDS)
    show(f"a claim of {CLAIMED}, ms", found["clean"])
    show(f"  among {dead:,} dead entries", found["dead"])
    show("  with statistics of an empty queue", found["analyzed empty"])
    what = f"a claim among {dead:,} dead entries, times"
    goals.at_most(what, 1.5, ratios(found["dead"], found["clean"]))
    what = "a claim with statistics of an empty queue, times"
    goals.at_most(what, 1.5, ratios(found["analyzed empty"], found["clean"]))


def hold_open(server: Server, seconds: int, goals: Goals) -> None:
    """Runs per second, part by part, while a transaction stays open for this many seconds."""
    with opened(server) as (url, store, clock):
        ticker = Ticker(store, batch=1_000)
        with worker(KINDS[0], store) as perform_all:
            fire(store, clock, ticker=ticker)
            perform_all()  # opens connections and prepares statements
            with open_transaction(url):
                until = time.monotonic() + seconds
                speeds: list[float] = []
                while time.monotonic() < until or len(speeds) < 2 * ENDS:
                    fire(store, clock, ticker=ticker)
                    speeds.append(SCHEDULES / perform_all())
    runs = len(speeds) * SCHEDULES
    begin, end = speeds[:ENDS], speeds[-ENDS:]
    show("runs a second as a transaction is opened", begin)
    show(f"  after {seconds} s and {runs:,} runs", end)
    what = f"after {seconds} s of a transaction held open, of its beginning"
    goals.at_least(what, 0.8, [speed / statistics.median(begin) for speed in end])


@contextmanager
def opened(server: Server) -> Iterator[tuple[str, PostgresStore, Clock]]:
    """A database with schedules that are due every minute, by a manually set clock."""
    with server.database() as url:
        clock = Clock()
        store = PostgresStore(url, clock)
        add_schedules(store, clock, {f"job-{n}": JOB for n in range(SCHEDULES)})
        execute(url, "VACUUM ANALYZE")
        yield url, store, clock
        store.close()


@contextmanager
def books(
    server: Server, runs: int, held: bool = False, analyzed_empty: bool = False
) -> Iterator[Callable[[], float]]:
    """A database in which this many runs have succeeded, with their dead entries or vacuumed; each
    call returns the milliseconds of a claim."""
    with opened(server) as (url, store, clock), open_transaction(url, held):
        execute(url, "ALTER TABLE active_runs SET (autovacuum_enabled = off)")  # keep statistics
        ticker = Ticker(store, batch=1_000)
        with worker(KINDS[0], store) as perform_all:
            for _ in range(0, runs, SCHEDULES):
                fire(store, clock, ticker=ticker)
                perform_all()
        if not held:
            execute(url, "VACUUM active_runs")
        with claimer(store) as claim_all:

            def claim() -> float:
                fire(store, clock, ticker=ticker)
                return claim_all(CLAIMS)

            if analyzed_empty:
                execute(url, "ANALYZE active_runs")
            fire(store, clock, BACKLOG, ticker)
            if not analyzed_empty:
                execute(url, "ANALYZE active_runs")
            claim()  # prepares statements
            yield claim


@contextmanager
def open_transaction(url: str, held: bool = True) -> Iterator[None]:
    """A client's transaction that has read the database, and does nothing more."""
    with psycopg.connect(url, options=f"-c search_path={SCHEMA}") as connection:
        if held:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT count(*) FROM active_runs")
        yield
        connection.rollback()


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={SCHEMA}") as connection:
        connection.execute(statement.encode())


if __name__ == "__main__":
    main()

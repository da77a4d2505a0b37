"""What a due time and its run cost: processor time of the server and of Python, and WAL.

    python -m bench.costs [--rows 20000] [--quick]

Processor time predicts better than speed what a larger machine could do, and changes less while
others use this one. docs/capacity.md is based on these figures. Autovacuum, checkpoints and the
WAL writer are part of the server's time.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg

from bench.drain import KINDS, worker
from bench.due_runs import JOB, Clock, add_schedules, fire
from bench.goals import show
from bench.processes import family, processor_seconds
from bench.server import durable_server
from duebook.engine.ticker import Ticker
from duebook.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.postgres import Server

ROWS: Final = 20_000
ROUNDS: Final = 5
WRITTEN: Final = "SELECT pg_current_wal_insert_lsn() - '0/0'"


class Spent(NamedTuple):
    """Since the start: seconds of processor time, bytes."""

    server: float
    python: float
    wal: float

    def since(self, before: Spent, number: int) -> Spent:
        """Per item, in µs and bytes."""
        server, python, wal = (now - then for now, then in zip(self, before, strict=True))
        return Spent(server / number * 1e6, python / number * 1e6, wal / number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--quick", action="store_true", help="few rows")
    options = parser.parse_args()
    with durable_server() as server:
        report(server, 2_000 if options.quick else options.rows)
    sys.exit(0)


def report(server: Server, rows: int) -> None:
    planned: list[Spent] = []
    ran: list[Spent] = []
    with server.database() as url:
        clock = Clock()
        with closing(PostgresStore(url, clock)) as store:
            add_schedules(store, clock, {f"job-{n}": JOB for n in range(rows)})
            ticker = Ticker(store, batch=1_000)
            with worker(KINDS[0], store) as perform_all:
                fire(store, clock, ticker=ticker)
                perform_all()  # opens connections and prepares statements
                for _ in range(ROUNDS):
                    plan = measured(server, url, rows, lambda: fire(store, clock, ticker=ticker))
                    planned.append(plan)
                    ran.append(measured(server, url, rows, perform_all))
    for what, found in (("plan a due time", planned), ("claim, run and settle", ran)):
        show(f"{what}, server: µs", [one.server for one in found], unit="µs")
        show(f"{what}, Python: µs", [one.python for one in found], unit="µs")
        show(f"{what}, WAL: bytes", [one.wal for one in found], unit="bytes")


def measured(server: Server, url: str, number: int, work: Callable[[], object]) -> Spent:
    before = spent(server, url)
    work()
    return spent(server, url).since(before, number)


def spent(server: Server, url: str) -> Spent:
    with psycopg.connect(url, autocommit=True) as connection:
        ((wal,),) = connection.execute(WRITTEN).fetchall()
    pids = family(server.pid)
    return Spent(sum(map(processor_seconds, pids)), time.process_time(), float(wal))


if __name__ == "__main__":
    main()

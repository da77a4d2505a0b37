"""How many bytes a schedule, a run, a ledger entry and an event take on PostgreSQL, with indexes.

    python -m bench.sizes [--rows 20000] [--quick]

Real rows, written by the engine itself, measured after a vacuum of the tables. docs/capacity.md is
based on these figures.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import psycopg

from bench.drain import KINDS, worker
from bench.due_runs import JOB, Clock, add_schedules, fire
from bench.goals import show
from bench.server import durable_server
from duebook.engine.ticker import Ticker
from duebook.ids import new_id
from duebook.model.event import new_draft
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA

if TYPE_CHECKING:
    from tests.support.postgres import Server

    from duebook.store.base import Tx

ROWS: Final = 20_000
CHART: Final = "Bytes of a row with its indexes"
FIRED: Final = 3
"""How often each schedule becomes due: an updated row takes more space than a new one."""
SIZES: Final = "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) AS name"
SCHEDULE: Final = ("schedules", "schedule_revisions", "schedule_state", "schedule_labels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--quick", action="store_true", help="few rows")
    options = parser.parse_args()
    with durable_server() as server:
        report(server, 2_000 if options.quick else options.rows)
    sys.exit(0)


def report(server: Server, rows: int) -> None:
    with server.database() as url:
        clock = Clock()
        with closing(PostgresStore(url, clock)) as store:
            ticker = Ticker(store, batch=1_000)
            add_schedules(store, clock, {f"job-{n}": JOB for n in range(rows)})
            with worker(KINDS[0], store) as perform_all:
                fire(store, clock, ticker=ticker)
                tell("a queued run", bytes_of(url, "active_runs"), rows)
                perform_all()
                for _ in range(FIRED - 1):
                    fire(store, clock, ticker=ticker)
                    perform_all()
            tell("a schedule", bytes_of(url, *SCHEDULE), rows)
            tell("a finished run", bytes_of(url, "ended_runs"), rows * FIRED)
            tell("the key of a due time", bytes_of(url, "due_keys"), rows * FIRED)
            clock.now += timedelta(days=2)
            skip_all(store, clock)
            tell("a ledger entry", bytes_of(url, "ledger"), rows)
            publish(store, rows)
            tell("an event", bytes_of(url, "events"), rows)


def bytes_of(url: str, *tables: str) -> int:
    """The size of tables with their indexes, vacuumed as autovacuum does it."""
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={SCHEMA}") as connection:
        connection.execute("VACUUM ANALYZE")
        ((size,),) = connection.execute(SIZES, [[*tables]]).fetchall()
    return int(size)


def tell(what: str, size: int, rows: int) -> None:
    show(f"{what}, bytes", [size / rows], chart=CHART)


def skip_all(store: PostgresStore, clock: Clock) -> None:
    """Each schedule has missed two days: with `catchup: one` a run, and one entry for the rest."""
    ticker = Ticker(store, batch=1_000)
    while (wake_at := ticker.step()) is not None and wake_at <= clock.now:
        pass


def publish(store: PostgresStore, rows: int) -> None:
    def add(tx: Tx, first: int) -> None:
        drafts = [
            new_draft(new_id(), "default", "orders", None, f"key-{n % 1000}", {"order": n})
            for n in range(first, min(first + 1_000, rows))
        ]
        tx.events.append_events(drafts)

    for first in range(0, rows, 1_000):
        store.transact(partial(add, first=first))


if __name__ == "__main__":
    main()

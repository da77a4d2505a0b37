"""How many bytes a schedule, a run, a ledger entry and an event take on PostgreSQL, with indexes.

    python -m bench.sizes [--rows 20000] [--quick]

Real rows, written by the engine itself, counted once the tables are vacuumed. docs/capacity.md
reckons with these figures.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import psycopg
from tests.support.postgres import Server

from bench.drain import KINDS, worker
from bench.due_runs import JOB, Clock, add_schedules, fire
from bench.goals import show
from duebook.engine.ticker import Ticker
from duebook.ids import new_id
from duebook.model.event import new_draft
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA

if TYPE_CHECKING:
    from duebook.store.base import Tx

ROWS: Final = 20_000
CHART: Final = "Bytes of a row with its indexes"
SIZES: Final = """
SELECT relname, pg_total_relation_size(c.oid), pg_indexes_size(c.oid)
FROM pg_class AS c WHERE relkind = 'r' AND relnamespace = %s::regnamespace
"""
SCHEDULE: Final = ("schedules", "schedule_revisions", "schedule_state", "schedule_labels")
ENDED: Final = ("ended_runs",)
LOG: Final = ("run_logs",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--quick", action="store_true", help="few rows")
    options = parser.parse_args()
    server = Server(durable=True)
    try:
        server.make_template(lambda url: PostgresStore(url).close())
        report(server, 2_000 if options.quick else options.rows)
    finally:
        server.close()
    sys.exit(0)


def report(server: Server, rows: int) -> None:
    with server.database() as url:
        clock = Clock()
        with closing(PostgresStore(url, clock)) as store:
            empty = sizes(url)
            add_schedules(store, clock, {f"job-{n}": JOB for n in range(rows)})
            schedules = sizes(url)
            tell("a schedule", empty, schedules, rows)
            fire(store, clock, ticker=Ticker(store, batch=1_000))
            queued = sizes(url)
            tell("a queued run", schedules, queued, rows, leave=SCHEDULE)
            with worker(KINDS[0], store) as perform_all:
                perform_all()
            ended = sizes(url)
            tell("a finished run, with the key of its due time", schedules, ended, rows, SCHEDULE)
            clock.now += timedelta(days=2)
            skip_all(store, clock)
            skipped = sizes(url)
            tell(
                "a ledger entry",
                ended,
                skipped,
                rows,
                leave=(*SCHEDULE, "active_runs"),
                only="ledger",
            )
            publish(store, rows)
            tell("an event", skipped, sizes(url), rows, only="events")


def sizes(url: str) -> dict[str, int]:
    """Of each table with its indexes, once what is dead is gone."""
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={SCHEMA}") as connection:
        connection.execute("VACUUM FULL ANALYZE")
        rows = connection.execute(SIZES, [SCHEMA]).fetchall()
    return {name: total for name, total, _ in rows}


def tell(
    what: str,
    before: dict[str, int],
    after: dict[str, int],
    rows: int,
    leave: tuple[str, ...] = (),
    only: str = "",
) -> None:
    grown = {
        table: size - before.get(table, 0)
        for table, size in after.items()
        if table not in leave and (not only or table.startswith(only))
    }
    show(f"{what}, bytes", [sum(grown.values()) / rows], chart=CHART)
    for table, size in sorted(grown.items()):
        if size > rows:
            print(f"    {table}: {size / rows:,.0f}")


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

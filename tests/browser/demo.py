"""Books with a day of history, from the simulation: what the browser tests and screenshots show."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

from duebook import cron, every
from duebook.clock import utc_now
from duebook.testing import Simulation

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["fill_demo"]

LOG = (
    "connecting to warehouse.example",
    "\x1b[32m1,204 orders\x1b[0m to load",
    "batch 1 of 3 … done",
    'batch 2 of 3 … \x1b[31mrefused\x1b[0m: duplicate key value violates "orders_pkey"',
)
A_DAY = 86_400_000_000


def fill_demo(path: Path) -> None:
    """A day of history up to now, with an outage, failures, a pause, and something under way."""
    with Simulation(start=utc_now().replace(microsecond=0) - timedelta(hours=26)) as sim:
        _define(sim)
        sim.advance("9h")
        sim.scheduler_down()
        sim.advance("2h")
        sim.scheduler_up()
        sim.advance_to(utc_now() - timedelta(hours=3))
        sim.task("orders", takes="70s", fails=1, error="IntegrityError: duplicate key: orders_pkey")
        sim.advance_to(utc_now() - timedelta(seconds=5))
        sim.book.schedules.pause("weekly-report", reason="the board meets later this month")
        source = sim.book.store._path  # type: ignore[attr-defined]
        with closing(sqlite3.connect(source)) as books, closing(sqlite3.connect(path)) as copy:
            books.backup(copy)
            copy.execute("UPDATE node_sessions SET expires_at = expires_at + ?", [A_DAY])
            _print(copy)
            copy.commit()


def _define(sim: Simulation) -> None:
    sim.task("orders", takes="70s")
    sim.task("digest", takes="40s", fails=1, error="SMTPError: 451 try again later")
    sim.task("stock", takes="4s")
    sim.task("search", takes="95m")
    create = sim.book.schedules.create
    create(
        "nightly-etl",
        trigger=cron("30 2 * * *", tz="America/New_York"),
        target="orders",
        labels={"team": "data", "tier": "1"},
        description="Loads the orders of the day into the warehouse",
        retry=2,
    )
    create(
        "orders",
        trigger=cron("*/20 * * * *", tz="Europe/Brussels"),
        target="orders",
        labels={"team": "data"},
        payload={"region": "north"},
    )
    create(
        "email-digest",
        trigger=cron("0 */3 * * *", tz="Europe/Brussels"),
        target="digest",
        labels={"team": "mail"},
    )
    create("stock", trigger=every("5m"), target="stock", labels={"team": "shop"})
    create("reindex", trigger=every("1h"), target="search", labels={"team": "search"})
    create("weekly-report", trigger=cron("0 9 * * 1", tz="Europe/London"), target="orders")
    create("backup", trigger=cron("15 3 * * *"), target={"command": ["pg_dump", "shop"]})
    create("lost", trigger=cron("10 4 * * *"), target="unknown_task")
    for number in range(6):
        create(
            f"tenant-{number}",
            trigger=cron("0 0 * * *"),
            target="stock",
            labels={"team": "tenants"},
        )


def _print(books: sqlite3.Connection) -> None:
    """Something in the log of what failed last."""
    run_id, attempt, at = books.execute(
        "SELECT id, attempt, started_at FROM runs WHERE status = 'failed' "
        "ORDER BY finished_at DESC LIMIT 1"
    ).fetchone()
    books.executemany(
        "INSERT INTO run_logs (run_id, attempt, seq, at, stream, text) VALUES (?,?,?,?,'stdout',?)",
        [(run_id, attempt, number, at, text) for number, text in enumerate(LOG, 1)],
    )

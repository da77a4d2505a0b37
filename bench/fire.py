"""Due schedules committed per second, compared with a one-row loop; and tick time with a million.

    python -m bench.fire --store sqlite        (or postgres: see fire_postgres.py)

The loop is what most database schedulers do: select one due row, ask a cron library for its next
time, insert the run, update the row, commit: a disk flush for each schedule. Both write the same
tables, durably. The cost of a flush determines the ratio, so it is printed too.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from croniter import croniter

from bench.goals import Goals, show
from duebook.engine.ticker import Ticker
from duebook.ids import new_id
from duebook.model.definition import load_spec
from duebook.store.sql.rows import from_micros, to_micros
from duebook.store.sqlite import SqliteStore
from duebook.store.values import NewSchedule

if TYPE_CHECKING:
    from duebook.store.base import Store, Tx

START = datetime(2026, 1, 1, tzinfo=UTC)
EXPRESSION = "* * * * *"
SPEC = {"trigger": {"cron": EXPRESSION}, "target": {"command": ["true"]}, "overlap": "allow"}
BATCH = 1_000
ROUNDS = 5
AT_ONCE = 1_000
"""Schedules that are added in one transaction."""


class Clock:
    """The database's clock, set manually."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--many", type=int, default=1_000_000, help="schedules of the large file")
    parser.add_argument("--quick", action="store_true", help="try everything with few schedules")
    options = parser.parse_args()
    if options.quick:
        options.many = 10_000
    if options.store == "postgres":
        from bench import fire_postgres

        fire_postgres.main(options.many, 1 if options.quick else 3)
    with tempfile.TemporaryDirectory() as folder:
        ours = ticks_per_second(Path(folder) / "ours.db")
        loop = loop_per_second(Path(folder) / "loop.db")
        few = tick_milliseconds(Path(folder) / "few.db", BATCH)
        many = tick_milliseconds(Path(folder) / "many.db", options.many)
        flush = flush_microseconds(Path(folder) / "flush")
    show("a flush of this disk, µs", [flush])
    show("SQLite, due schedules per second", [ours])
    show("  one row per transaction", [loop])
    show(f"a tick with 1,000 due among {BATCH:,} schedules, ms", [few])
    show(f"a tick with 1,000 due among {options.many:,} schedules, ms", [many])
    goals = Goals()
    goals.at_least("times the one-row loop", 15, [ours / loop])
    goals.at_most(f"times as long among {options.many:,}", 1.5, [many / few])
    sys.exit(goals.exit_code)


def ticks_per_second(path: Path) -> float:
    """Ten batches, all due at once, planned and committed by the real ticker."""
    clock = Clock()
    store = SqliteStore(path, clock)
    fill(store, 10 * BATCH)
    ticker = Ticker(store, batch=BATCH)
    speeds = []
    for _ in range(ROUNDS):
        clock.now += timedelta(minutes=1)
        began = time.perf_counter()
        while (wake_at := ticker.step()) is not None and wake_at <= clock.now:
            pass
        speeds.append(10 * BATCH / (time.perf_counter() - began))
    store.close()
    return statistics.median(speeds)


def tick_milliseconds(path: Path, schedules: int) -> float:
    """One tick with BATCH schedules due, and the others of the file due later."""
    clock = Clock()
    store = SqliteStore(path, clock)
    fill(store, BATCH)
    fill(store, schedules - BATCH, later=timedelta(days=365))
    ticker = Ticker(store, batch=BATCH)
    times = []
    for _ in range(ROUNDS):
        clock.now += timedelta(minutes=1)
        began = time.perf_counter()
        ticker.step()
        times.append((time.perf_counter() - began) * 1e3)
    store.close()
    return statistics.median(times)


def fill(store: Store, number: int, later: timedelta | None = None) -> None:
    spec = load_spec(SPEC, "bench")
    due = START + (later or timedelta(minutes=1))

    def add(tx: Tx, size: int) -> None:
        ids = [new_id() for _ in range(size)]
        made = [NewSchedule(id_, "default", f"s-{id_[9:]}-x", spec, due, due) for id_ in ids]
        tx.schedules.create_schedules(made, "bench", START)

    for first in range(0, number, AT_ONCE):
        store.transact(partial(add, size=min(AT_ONCE, number - first)))


def loop_per_second(path: Path) -> float:
    """One schedule per transaction, without Duebook."""
    SqliteStore(path, Clock()).close()
    store = SqliteStore(path, clock := Clock())
    fill(store, BATCH)
    store.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    now = to_micros(clock.now + timedelta(minutes=1))
    began = time.perf_counter()
    fired = 0
    while fire_one(connection, now or 0):
        fired += 1
    speed = fired / (time.perf_counter() - began)
    connection.close()
    return speed


def flush_microseconds(path: Path) -> float:
    times = []
    with path.open("wb", buffering=0) as file:
        for _ in range(200):
            file.write(b"x" * 4096)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1e6)
    return statistics.median(times)


def fire_one(connection: sqlite3.Connection, now: int) -> bool:
    connection.execute("BEGIN IMMEDIATE")
    row = connection.execute(
        "SELECT schedule_id, version, next_due_at FROM schedule_state"
        " WHERE wake_at <= ? ORDER BY wake_at LIMIT 1",
        (now,),
    ).fetchone()
    if row is None:
        connection.execute("ROLLBACK")
        return False
    connection.execute(
        "INSERT INTO runs (id, namespace, schedule_id, version, due_at, origin, trigger, queue,"
        " priority, exclusive, wakes, max_takeovers, payload, status, created_at, ready_at)"
        " VALUES (?, 'default', ?, ?, ?, 'schedule', 'schedule:* * * * *', 'default', 0, 0, 0, 3,"
        " ?, 'queued', ?, ?)",
        (new_id(), *row, json.dumps({}), now, now),
    )
    following = to_micros(croniter(EXPRESSION, from_micros(now)).get_next(datetime))
    connection.execute(
        "UPDATE schedule_state SET watermark = ?, next_due_at = ?, wake_at = ?"
        " WHERE schedule_id = ?",
        (now, following, following, row[0]),
    )
    connection.execute("COMMIT")
    return True


if __name__ == "__main__":
    main()

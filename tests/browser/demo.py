"""Books with a day of history, from the simulation: what the browser tests and screenshots show."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

from duebook import cron, every
from duebook.book import Book
from duebook.clock import utc_now
from duebook.delivery.courier import Courier
from duebook.engine.advancer import Advancer
from duebook.model.run import LogLine
from duebook.store.sqlite import SqliteStore
from duebook.store.values import SessionInfo
from duebook.testing import Simulation
from duebook.triggers.zones import tzdata_version
from duebook.version import __version__
from tests.support.builders import claim, settle
from tests.support.event_builders import Box, join
from tests.support.flow_builders import put_flow

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from duebook.model.run import Token
    from duebook.store.base import Store

__all__ = ["fill_demo"]

LOG = (
    "connecting to warehouse.example",
    "\x1b[32m1,204 orders\x1b[0m to load",
    "batch 1 of 3 … done",
    'batch 2 of 3 … \x1b[31mrefused\x1b[0m: duplicate key value violates "orders_pkey"',
)
A_DAY = 86_400_000_000
FLOW = """
name: warehouse
description: Loads the day into the warehouse
schedule: "0 4 * * *"
params:
  - DAY: today
steps:
  - {name: extract, command: "fetch --day ${DAY}"}
  - {name: check-orders, command: "check orders", depends: extract}
  - {name: check-parts, command: "check parts", depends: extract}
  - {name: load-orders, command: "load orders", depends: check-orders}
  - {name: load-parts, command: "load parts", depends: check-parts}
  - {name: report, command: "report ${DAY}", depends: [load-orders, load-parts]}
handler_on:
  failure: {command: "notify the team"}
"""


def fill_demo(path: Path) -> None:
    """A day of history up to now, with an outage, failures, a pause, and something under way."""
    with Simulation(start=utc_now().replace(microsecond=0) - timedelta(hours=26)) as sim:
        _define(sim)
        sim.advance("9h")
        sim.scheduler_down()
        sim.advance("2h")
        sim.scheduler_up()
        sim.advance_to(_before_orders(utc_now() - timedelta(hours=3)))
        sim.task("orders", takes="70s", fails=1, error="IntegrityError: duplicate key: orders_pkey")
        sim.advance_to(utc_now() - timedelta(seconds=5))
        sim.book.schedules.pause("weekly-report", reason="the board meets later this month")
        source = sim.book.store._path  # type: ignore[attr-defined]
        with closing(sqlite3.connect(source)) as books, closing(sqlite3.connect(path)) as copy:
            books.backup(copy)
            copy.execute("UPDATE node_sessions SET expires_at = expires_at + ?", [A_DAY])
            _print(copy)
            copy.commit()
    _tell_more(path)


def _before_orders(now: datetime) -> datetime:
    """Just before the schedule of that name was due last: the next that its task is for is it, and
    not another one, which would be tried again."""
    return now.replace(minute=now.minute // 20 * 20, second=0, microsecond=0) - timedelta(seconds=1)


def _tell_more(path: Path) -> None:
    """A flow whose run failed at a step, one under way, and events that somebody did not take."""
    with Book(SqliteStore(path), by="ann") as book:
        store = book.store
        put_flow(store, FLOW, "warehouse")
        info = SessionInfo(
            "flow-worker", "node-1", 4242, "worker", __version__, tzdata_version(), ("orders",)
        )
        store.transact(lambda tx: tx.nodes.begin_session(info, timedelta(days=1)))
        _perform(store, book.flows.start("warehouse").id, failing="load-orders")
        last = book.flows.start("warehouse", {"DAY": "2026-11-14"}).id
        _perform(store, last, leaving="load-orders")
        _plan(book)
        for number in range(30):
            data = {"order": 1000 + number, "total": f"{number * 7}.50"}
            book.events.publish("orders", data, key=str(number), type="order.placed")
        book.events.add_sink("hooks", "webhook", "orders", url="https://example.com/hooks")
        box = Box()
        box.refuses = {"7", "21"}
        courier = Courier(store, join(store, "billing", 1, 1, topics=["orders"]), box)
        courier.share()
        while courier.step() == 0:
            pass
        courier.close()


def _plan(book: Book) -> None:
    """Calendars, of which a schedule heeds one, and maintenance windows to come and gone."""
    now = utc_now().replace(minute=0, second=0, microsecond=0)
    book.calendars.save("closing-days", dates=["2026-12-24/2027-01-02", "2027-05-14"])
    book.calendars.save(
        "workdays",
        weekdays="MON-FRI",
        without={"dates": ["2027-04-05"], "calendars": ["closing-days"]},
    )
    book.calendars.save("closing-days", dates=["2026-12-24/2027-01-02"], weekdays="SUN")
    book.schedules.create(
        "invoices",
        trigger=cron("0 9 * * *", tz="Europe/Brussels"),
        target="orders",
        labels={"team": "billing"},
        calendar={"only": "workdays", "roll": "next"},
    )
    hour = timedelta(hours=1)
    book.windows.add("db upgrade", now + 9 * hour, now + 12 * hour, {"team": "billing"})
    book.windows.add("new disks", now + 90 * hour, now + 91 * hour)
    book.feeds.create("billing", {"team": "billing"})
    book.alerts.save("ops", on=["failure", "late:10m", "recovered"], to="mailto:ops@example.com")


def _perform(store: Store, run_id: str, failing: str = "", leaving: str = "") -> None:
    """Its steps, as far as they can; one fails, or stays under way."""
    advancer = Advancer(store)
    advancer.step()
    while claims := [one for one in claim(store, "flow-worker") if one.run.parent_run_id]:
        for claimed in claims:
            if claimed.run.step == leaving:
                continue
            if claimed.run.step == failing:
                _say(store, claimed.token)
                settle(store, claimed.token, "failed", error="duplicate key", reason="error")
            else:
                settle(store, claimed.token)
        advancer.step()
    assert store.read(lambda tx: tx.runs.get_run(run_id)).flow


def _say(store: Store, token: Token) -> None:
    lines = [LogLine(utc_now(), "stdout", text) for text in LOG]
    store.transact(lambda tx: tx.attempts.append_log(token, 1, lines))


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

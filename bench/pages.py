"""What a page of 50 costs among a thousand schedules and a million; creating 10,000 at once.

    python -m bench.pages [--quick]

The ratio of the two for each kind of page, on both databases: it should be at most 1.5. With
--quick everything is run with few schedules, and the figures mean little.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.goals import Goals, show
from bench.server import durable_server
from duebook.book import Book
from duebook.clock import utc_now
from duebook.ids import new_id
from duebook.model.definition import load_spec
from duebook.store.postgres import PostgresStore
from duebook.store.sqlite import SqliteStore
from duebook.store.values import NewSchedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from tests.support.postgres import Server

    from duebook.store.base import Store, Tx

FEW: Final = 1_000
MANY: Final = 1_000_000
AT_ONCE: Final = 10_000
ROUNDS: Final = 200
MOST: Final = 1.5
LONGEST: Final = 5.0
"""Seconds for 10,000 schedules."""
PAGE: Final = 50
PAGES: Final[dict[str, dict[str, Any]]] = {
    "by name": {},
    "by name, backwards": {"sort": "-name"},
    "by age": {"sort": "-created_at"},
    "by what is due next": {"sort": "next_due_at"},
    "with a label": {"label": "team:t3"},
    "names that begin so": {"text": "job-00*"},
    "names with a part": {"text": "7"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try everything with few schedules")
    options = parser.parse_args()
    part = 50 if options.quick else 1
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(durable_server())
        goals = Goals()
        report("SQLite", lambda: SqliteStore(folder / f"{new_id()}.db"), part, goals)
        report("PostgreSQL", lambda: on_postgres(server, stack), part, goals)
    sys.exit(goals.exit_code)


def on_postgres(server: Server, stack: ExitStack) -> Store:
    return PostgresStore(stack.enter_context(server.database()))


def report(title: str, opened: Callable[[], Store], part: int, goals: Goals) -> None:
    print(f"\n{title}: a page of {PAGE} among {FEW:,} and {MANY // part:,} schedules")
    few, many = Book(opened()), Book(opened())
    fill(few.store, FEW)
    fill(many.store, MANY // part)
    for words, asked in PAGES.items():
        small, large = milliseconds(asked, few, many)
        show(f"{title}, a page {words}, ms", [large])
        goals.at_most(f"{title}, a page {words}, times one among few", MOST, [large / small])
    seconds = bulk_seconds(many, AT_ONCE // part)
    goals.below(f"{title}, {AT_ONCE // part:,} schedules in one call, s", LONGEST, [seconds])
    few.close()
    many.close()


def fill(store: Store, number: int) -> None:
    now = utc_now()
    specs = [
        load_spec(
            {"trigger": {"every": "1h"}, "target": "work", "labels": {"team": f"t{team}"}}, "bench"
        ).anchored(now)
        for team in range(10)
    ]
    made = [
        NewSchedule(
            new_id(), "default", f"job-{place * 7919 % number:07}", specs[place % 10], due, due
        )
        for place in range(number)
        for due in [now + timedelta(days=1, milliseconds=place)]
    ]
    for first in range(0, number, AT_ONCE):
        some = made[first : first + AT_ONCE]
        store.transact(partial(_create, made=some, now=now))


def _create(tx: Tx, made: list[NewSchedule], now: datetime) -> None:
    tx.schedules.create_schedules(made, "bench", now)


def milliseconds(asked: dict[str, Any], *books: Book) -> list[float]:
    """The median for consecutive pages, as a user reads a list; for each book in turn."""
    times: list[list[float]] = [[] for _ in books]
    cursors: list[str | None] = [None] * len(books)
    for _ in range(ROUNDS):
        for place, book in enumerate(books):
            began = time.perf_counter()
            page = book.schedules.list(limit=PAGE, cursor=cursors[place], **asked)
            times[place].append((time.perf_counter() - began) * 1e3)
            cursors[place] = page.next_cursor
    return [statistics.median(of_one) for of_one in times]


def bulk_seconds(book: Book, number: int) -> float:
    forms = [
        {"name": f"new-{place}", "cron": f"{place % 60} * * * *", "target": "work"}
        for place in range(number)
    ]
    began = time.perf_counter()
    book.schedules.create_many(forms)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()

"""A node dies at every named point of a step on PostgreSQL: nothing is half-written, and repeating
the step heals.

The steps are those of the SQLite store. `raised`: the hook raises and the process goes on.
`cut off`: the server ends the connection at that very moment, as it does when a node is gone.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA
from tests.support.builders import VirtualClock
from tests.support.crash_steps import STEPS, TABLES, Crash, Points, Tables
from tests.support.reused import KEEPER, ReusedDatabase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.postgres import Server

    Books = psycopg.Connection[dict[str, Any]]

CUT_OFF = (
    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> %s"
)


class Base:
    """Books as they stand before a step, their clock, and what the step does to them uncrashed."""

    def __init__(self, server: Server, url: str, step: str) -> None:
        prepare, self.work = STEPS[step]
        self.clock = VirtualClock()
        store = PostgresStore(url, self.clock)
        prepare(store, self.clock)
        store.close()
        with look_into(url) as books:
            self.before = contents(books)
        points = Points()
        self.copies = ReusedDatabase(server, str(conninfo_to_dict(url)["dbname"]))
        with self.copies.books() as copy:
            store = PostgresStore(copy, self.clock, points)
            store.transact(self.work)
            store.close()
            with look_into(copy) as books:
                self.points, self.after = points.seen, contents(books)

    def close(self) -> None:
        self.copies.close()

    def crash(self, number: int, act: Callable[[str], None]) -> None:
        """The step, interrupted at a point; then twice more, to the end."""
        with self.copies.books() as url:
            store = PostgresStore(url, self.clock, Points(number, lambda: act(url)))
            with pytest.raises(Crash):
                store.transact(self.work)
            store.close()
            committed = self.points[number] == "after:COMMIT"
            with look_into(url) as books:
                left = self.after if committed else self.before
                assert contents(books) == left, self.points[number]
                store = PostgresStore(url, self.clock)
                for _ in range(2):
                    store.transact(self.work)
                    assert contents(books) == self.after, self.points[number]
                store.close()


@contextmanager
def look_into(url: str) -> Iterator[Books]:
    options = f"-c search_path={SCHEMA}"
    with psycopg.connect(url, options=options, row_factory=dict_row, autocommit=True) as books:
        yield books


def contents(books: Books) -> Tables:
    """Every row, with the ids of runs, which each attempt at a step makes anew, left out."""
    schedules = books.execute("SELECT id, name FROM schedules").fetchall()
    names = {row["id"]: row["name"] for row in schedules}
    return {table: _rows(books, table, names) for table in TABLES}


def _rows(books: Books, table: str, names: dict[str, str]) -> list[tuple[Any, ...]]:
    found = books.execute(f"SELECT * FROM {table}".encode()).fetchall()  # noqa: S608
    for row in found:
        for made_anew in ("id", "run_id", "place"):
            row.pop(made_anew, None)
        row["schedule_id"] = names.get(row.get("schedule_id", ""))
    return sorted((tuple(row.items()) for row in found), key=repr)


def raise_crash(_url: str) -> None:
    raise Crash


def cut_off(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(CUT_OFF, [KEEPER])
    raise Crash


@pytest.fixture(params=STEPS, scope="module")
def base(request: pytest.FixtureRequest, postgres_server: Server) -> Iterator[Base]:
    with (
        postgres_server.database() as url,
        closing(Base(postgres_server, url, request.param)) as made,
    ):
        yield made


def test_a_step_has_a_point_around_each_statement_and_the_commit(base: Base) -> None:
    assert base.points[-2:] == ["before:COMMIT", "after:COMMIT"]
    for before, after in zip(base.points[::2], base.points[1::2], strict=True):
        assert before.replace("before:", "after:") == after
    assert base.before != base.after


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("act", "half"),
    [  # each point in one way, before and after statements in both; `make test-long` has the others
        pytest.param(raise_crash, {0, 3}, id="raised"),
        pytest.param(cut_off, {1, 2}, id="cut off"),
        pytest.param(raise_crash, {1, 2}, id="raised too", marks=pytest.mark.long),
        pytest.param(cut_off, {0, 3}, id="cut off too", marks=pytest.mark.long),
    ],
)
def test_a_step_that_is_interrupted_leaves_nothing_half_written(
    base: Base, act: Callable[[str], None], half: set[int]
) -> None:
    for number in range(len(base.points)):
        if number % 4 in half:
            base.crash(number, act)


def test_a_store_that_was_interrupted_goes_on_without_being_opened_again(base: Base) -> None:
    with base.copies.books() as url:
        points = Points(len(base.points) // 2, lambda: cut_off(url))
        store = PostgresStore(url, base.clock, points)
        with pytest.raises(Crash):
            store.transact(base.work)
        store.transact(base.work)
        store.close()
        with look_into(url) as books:
            assert contents(books) == base.after

"""The database that tests share leaves nothing of one test to the next."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from duebook.book import Book
from duebook.store.postgres import PostgresStore
from tests.support.postgres_stores import query
from tests.support.reused import ReusedDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import Server


@pytest.fixture
def shared(postgres_server: Server) -> Iterator[ReusedDatabase]:
    with closing(ReusedDatabase(postgres_server)) as made:
        yield made


def contents(url: str) -> list[tuple[object, ...]]:
    """Everything in the tables that a test may have written, and the numbers that come next."""
    tables = [name for (name,) in query(url, "SELECT tablename FROM pg_tables ORDER BY 1")]
    own = [name for name in tables if not str(name).startswith(("pg_", "sql_"))]
    found = [(name, *query(url, f"SELECT json_agg(t) FROM {name} t")) for name in own]  # noqa: S608
    return found + query(url, "SELECT sequencename, last_value FROM pg_sequences ORDER BY 1")


def test_a_used_database_is_as_new_for_the_next_test(shared: ReusedDatabase) -> None:
    with shared.books() as first:
        new = contents(first)
        with closing(PostgresStore(first)) as store:
            Book(store).schedules.create("job", trigger={"every": "1m"}, target={"command": ["a"]})
            Book(store).schedules.trigger("job")
        query(first, "UPDATE leases SET term = 7")
        assert contents(first) != new
    with shared.books() as second:
        assert second == first
        assert contents(second) == new


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE more (n int)",
        "ALTER TABLE active_runs ADD COLUMN more int",
        "DROP INDEX runs_queued",
        "ANALYZE schedules",
        "ALTER ROLE somebody IN DATABASE {} SET work_mem = '1MB'",
    ],
)
def test_a_database_with_another_schema_or_settings_is_not_used_again(
    shared: ReusedDatabase, change: str
) -> None:
    with shared.books() as first:
        query(first, change.format(first.partition("@/")[2].partition("?")[0]))
    with shared.books() as second:
        assert second != first


def test_a_database_that_somebody_is_still_connected_to_is_not_used_again(
    shared: ReusedDatabase,
) -> None:
    with shared.books() as first:
        left = psycopg.connect(first)
    with shared.books() as second:
        assert second != first
    with pytest.raises(psycopg.OperationalError):
        left.execute("SELECT 1")
    left.close()

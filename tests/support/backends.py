"""The stores that the conformance suite runs on; another database is one more Backend here."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import psycopg
import pytest

from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA
from duebook.store.sqlite import SqliteStore
from duebook.store.sqlite.memory import Memory, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duebook.store.base import Store


_WRITES_RUNS = re.compile(r"\s*(UPDATE|DELETE FROM) runs\b")
BACKENDS = ["pgbouncer"] if os.environ.get("DUEBOOK_TEST_PGBOUNCER") else ["sqlite", "postgres"]
IN_MEMORY = [] if os.environ.get("DUEBOOK_TEST_PGBOUNCER") else ["memory"]


class Backend(Protocol):
    """One database that a test can open several times, and inspect behind the store's back."""

    def open(self, hook: Callable[[str], None] | None = None) -> Store:
        """Another store on the same database; closed with the test."""

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows of a query on the tables, whose names are the same in every database.

        Parameters are `?`; `{second}` is replaced by what to add to an instant.
        """

    def write(self, sql: str, *parameters: object) -> None:
        """Write what no method of the store can write yet."""

    def close(self) -> None: ...


def _for_sqlite(sql: str) -> str:
    return sql.replace("{second}", "1000000")


def _for_postgres(sql: str) -> bytes:
    return sql.replace("{second}", "interval '1 second'").replace("?", "%s").encode()


class SqliteBackend:
    def __init__(self, path: Path, clock: Callable[[], Any]) -> None:
        self.path = path
        self._clock = clock
        self._stores: list[SqliteStore] = []

    def open(self, hook: Callable[[str], None] | None = None) -> Store:
        store = SqliteStore(self.path, self._clock, hook)
        self._stores.append(store)
        return store

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(_for_sqlite(sql), parameters).fetchall()

    def write(self, sql: str, *parameters: object) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(_for_sqlite(sql), parameters)

    def close(self) -> None:
        for store in self._stores:
            store.close()


class MemoryBackend(SqliteBackend):
    """A database in the memory of the test; the stores share it."""

    def __init__(self, clock: Callable[[], Any]) -> None:
        self._clock = clock
        self._stores: list[SqliteStore] = []
        self._memory = Memory().use()  # stores are opened and closed

    @property
    def path(self) -> NoReturn:  # type: ignore[override]
        pytest.skip("no connection of others reaches a database in memory")

    def open(self, hook: Callable[[str], None] | None = None) -> Store:
        store = MemoryStore(self._memory, self._clock, hook)
        self._stores.append(store)
        return store

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self._memory:
            return self._memory.connection.execute(_for_sqlite(sql), parameters).fetchall()

    def write(self, sql: str, *parameters: object) -> None:
        self.rows(sql, *parameters)

    def close(self) -> None:
        super().close()
        self._memory.let_go()


def not_in_memory(backend: Backend) -> None:
    """Skip tests of what only databases that other processes can open promise: readers that do not
    block a writer, and what a process that died leaves behind."""
    if isinstance(backend, MemoryBackend):
        pytest.skip("a database in memory does not promise that")


class PostgresBackend:
    """`through` is another route to the database, which the stores use."""

    def __init__(self, url: str, clock: Callable[[], Any], through: str | None = None) -> None:
        self.url = url
        self._through = through or url
        self._clock = clock
        self._stores: list[PostgresStore] = []

    def open(self, hook: Callable[[str], None] | None = None) -> Store:
        store = PostgresStore(self._through, self._clock, hook, self.url)
        self._stores.append(store)
        return store

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, options=f"-c search_path={SCHEMA}") as connection:
            return connection.execute(_for_postgres(sql), parameters).fetchall()

    def write(self, sql: str, *parameters: object) -> None:
        """Changes of runs are applied to both of their tables."""
        tables = ("active_runs", "ended_runs") if _WRITES_RUNS.match(sql) else ("",)
        with psycopg.connect(self.url, options=f"-c search_path={SCHEMA}") as connection:
            for table in tables:
                one = _WRITES_RUNS.sub(rf"\1 {table}", sql, count=1)
                connection.execute(_for_postgres(one), parameters)

    def close(self) -> None:
        for store in self._stores:
            store.close()

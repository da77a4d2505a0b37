"""One PostgreSQL database for test after test, emptied in between, which takes a tenth of the work
of a new one.

If a test leaves more than rows behind, its database is not used again, and the next test gets a new
one: a session that still exists, or a change of the schema, of settings or statistics.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from duebook.store.postgres.connection import SCHEMA
from tests.support.waiting import within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import Server

MOST: Final = 50
"""Tests in a row: deleted rows keep their space in the files, because nothing vacuums them."""
LEAVING: Final = 0.5
"""Seconds within which closed sessions must end."""
FIRST_OWN: Final = 16_384
"""Objects with a lower number belong to PostgreSQL."""

TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
OTHERS: Final = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
CHANGES: Final = [
    ("pg_class", f"oid >= {FIRST_OWN}"),
    ("pg_attribute", f"attrelid >= {FIRST_OWN}"),
    ("pg_constraint", "true"),
    ("pg_trigger", "true"),
    ("pg_proc", f"oid >= {FIRST_OWN}"),
    ("pg_namespace", "true"),
    ("pg_statistic", "true"),
    ("pg_db_role_setting", "true"),
    ("pg_database", "datname = current_database()"),
]
"""Catalogues, and the condition for rows that a test may change or add."""
_SIZES: Final = "SELECT 0, sum(reltuples + relpages)::bigint FROM pg_class"
_ROWS: Final = [
    f"SELECT count(*), max(xmin::text::bigint) FROM {name} WHERE {which}"  # noqa: S608
    for name, which in CHANGES
]
MARK: Final = " UNION ALL ".join([_SIZES, *_ROWS])
"""Changes when the schema, settings or statistics change."""
KEEPER: Final = "duebook-test-keeper"
"""The name of the session that empties a database; code that ends all other sessions spares it."""
NUMBERS: Final = """
SELECT format('SELECT setval(%L, %s, %L);', format('%I.%I', schemaname, sequencename),
    coalesce(last_value, start_value), last_value IS NOT NULL)
FROM pg_sequences
"""
"""A statement for each sequence that makes it continue from its present value."""


class ReusedDatabase:
    """Databases without any rows, each used by many tests; or copies of another template."""

    def __init__(self, server: Server, template: str = "template") -> None:
        self._server = server
        self._template = template
        self._open = ExitStack()
        self._kept: _Kept | None = None

    @contextmanager
    def books(self) -> Iterator[str]:
        """The URL of a database in the state of the template, for one test."""
        if self._kept is None:
            url = self._open.enter_context(self._server.database(self._template))
            self._kept = self._open.enter_context(_kept(url))
        yield self._kept.url
        if not self._kept.empty():
            self.close()

    def close(self) -> None:
        self._kept = None
        self._open.close()


@contextmanager
def _kept(url: str) -> Iterator[_Kept]:
    options = f"-c search_path={SCHEMA}"
    with psycopg.connect(
        url, autocommit=True, options=options, application_name=KEEPER
    ) as connection:
        yield _Kept(url, connection)


class _Kept:
    """A database, its state when it was new, and a connection that empties it."""

    def __init__(self, url: str, connection: psycopg.Connection) -> None:
        self.url = url
        self._connection = connection
        self._tests = 0
        connection.execute("SET session_replication_role = replica")  # no triggers, no foreign keys
        self._mark = connection.execute(MARK.encode()).fetchall()
        tables = [name for (name,) in connection.execute(TABLES, [SCHEMA])]
        rows = ", ".join(map(_contents, tables))
        contents = connection.execute(f"SELECT {rows}".encode()).fetchone() or ()
        self._new = {name: text for name, text in zip(tables, contents, strict=True) if text}
        self._empty = [name for name in tables if name not in self._new]
        looks = [f"EXISTS (TABLE {name})" for name in self._empty]
        looks += map(_contents, self._new)
        self._look = f"SELECT {', '.join(looks)}".encode()
        self._restart = "".join(words for (words,) in connection.execute(NUMBERS.encode()))

    def empty(self) -> bool:
        """Restore its new state; returns False if the database cannot be used again."""
        self._tests += 1
        if self._tests == MOST or not within(LEAVING, self._is_alone):
            return False
        if self._connection.execute(MARK.encode()).fetchall() != self._mark:
            return False
        self._restore()
        return True

    def _is_alone(self) -> bool:
        return self._connection.execute(OTHERS).fetchone() == (0,)

    def _restore(self) -> None:
        found = self._connection.execute(self._look).fetchone() or ()
        used = [name for name, has in zip(self._empty, found, strict=False) if has]
        texts = zip(self._new.items(), found[len(self._empty) :], strict=True)
        changed = [name for (name, text), now in texts if now != text]
        words = [f"DELETE FROM {name};" for name in (*used, *changed)]  # noqa: S608
        words += [_refill(name, self._new[name]) for name in changed]
        self._connection.execute("".join([*words, self._restart]).encode(), prepare=False)


def _contents(name: str) -> str:
    return f"(SELECT json_agg(t)::text FROM {name} t)"  # noqa: S608


def _refill(name: str, text: str) -> str:
    rows = f"json_populate_recordset(NULL::{name}, {sql.Literal(text).as_string(None)})"
    return f"INSERT INTO {name} OVERRIDING SYSTEM VALUE SELECT * FROM {rows};"  # noqa: S608

"""Reads tables of other programs in SQLite files and PostgreSQL, without changing them."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from duebook.errors import Invalid, NotFound, Unavailable, shorten
from duebook.imports.sources import is_directory

__all__ = ["ForeignDatabase", "open_foreign"]

MOST_ROWS: Final = 20_000
READ_WITHIN: Final = "60s"
"""A table that its program has locked is not waited for."""
_URL: Final = re.compile(r"([a-z][a-z0-9]*)(?:\+[a-z0-9_]+)?://(.*)", re.IGNORECASE)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


class ForeignDatabase:
    """An open database of another program; close it."""

    def __init__(self, connection: Any, errors: type[Exception], postgres: bool) -> None:
        self._connection = connection
        self._errors = errors
        """those of its driver"""
        self._postgres = postgres

    def rows(self, table: str) -> list[dict[str, Any]] | None:
        """All rows of a table by the names of its columns; None if there is no such table. Raises
        Invalid if they cannot be read."""
        if not _NAME.fullmatch(table):
            raise Invalid(f'"{shorten(table)}" is not the name of a table')
        try:
            found = self._read(table) if self._exists(table) else None
        except self._errors as error:
            raise Invalid(f"table {table} cannot be read: {_in_a_line(error)}") from None
        if found is not None and len(found) > MOST_ROWS:
            raise Invalid(f"table {table} has more than {MOST_ROWS:,} rows")
        return found

    def _read(self, table: str) -> list[dict[str, Any]]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(f'SELECT * FROM "{table}" LIMIT {MOST_ROWS + 1}')  # noqa: S608
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _exists(self, table: str) -> bool:
        with closing(self._connection.cursor()) as cursor:
            if self._postgres:
                cursor.execute("SELECT to_regclass(%s) IS NOT NULL", (f'"{table}"',))
            else:
                cursor.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (table,))
            return bool(cursor.fetchone()[0])

    def close(self) -> None:
        self._connection.close()


def open_foreign(url: str) -> ForeignDatabase:
    """The database at a URL in SQLAlchemy's form, or the SQLite file at a path.

    Raises Invalid, NotFound and Unavailable.
    """
    match = _URL.fullmatch(url)
    if match is None:
        return _open_sqlite(url)
    kind = match[1].lower()
    if kind == "sqlite":
        return _open_sqlite(match[2].removeprefix("/"))
    if kind in ("postgresql", "postgres"):
        return _open_postgres(f"postgresql://{match[2]}")
    raise Invalid(f"{kind}:// cannot be read; use a SQLite file or postgresql://")


def _open_sqlite(path: str) -> ForeignDatabase:
    if not path:
        raise Invalid("the address names no file; use a path, or sqlite:///FILE")
    if is_directory(path):
        raise Invalid(f"{shorten(path, 200)} is a directory; name the SQLite file in it")
    file = Path(path)
    if not file.is_file():
        raise NotFound(f"there is no file {shorten(path, 200)}")
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        # one text that is not UTF-8 should not hide the other rows
        connection.text_factory = lambda content: content.decode("utf-8", "replace")
        with closing(connection.cursor()) as cursor:
            cursor.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.Error as error:
        raise Invalid(f"{shorten(path, 200)} is not a SQLite database: {error}") from None
    return ForeignDatabase(connection, sqlite3.Error, postgres=False)


def _open_postgres(url: str) -> ForeignDatabase:
    try:
        import psycopg
    except ImportError:
        raise Invalid(
            "PostgreSQL needs psycopg, which is not installed: "
            "pip install 'psycopg[binary]>=3.2,<4'"
        ) from None
    try:
        connection = psycopg.connect(url, connect_timeout=10)
        connection.read_only = True
        connection.execute(f"SET statement_timeout = '{READ_WITHIN}'")
    except psycopg.Error as error:
        raise Unavailable(f"the database cannot be reached: {_in_a_line(error)}") from None
    return ForeignDatabase(connection, psycopg.Error, postgres=True)


def _in_a_line(error: Exception) -> str:
    return shorten(" ".join(str(error).split()), 200)

"""Reads tables of other programs in SQLite files and PostgreSQL, without changing them."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from duebook.errors import Invalid, NotFound, Unavailable, shorten

__all__ = ["ForeignDatabase", "open_foreign"]

MOST_ROWS: Final = 20_000
_URL: Final = re.compile(r"([a-z][a-z0-9]*)(?:\+[a-z0-9_]+)?://(.*)", re.IGNORECASE)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


class ForeignDatabase:
    """An open database of another program; close it."""

    def __init__(self, connection: Any, postgres: bool) -> None:
        self._connection = connection
        self._postgres = postgres

    def rows(self, table: str) -> list[dict[str, Any]] | None:
        """All rows of a table by the names of its columns; None if there is no such table."""
        if not _NAME.fullmatch(table):
            raise Invalid(f'"{shorten(table)}" is not the name of a table')
        if not self._exists(table):
            return None
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(f'SELECT * FROM "{table}" LIMIT {MOST_ROWS + 1}')  # noqa: S608
            names = [column[0] for column in cursor.description]
            found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        if len(found) > MOST_ROWS:
            raise Invalid(f"table {table} has more than {MOST_ROWS:,} rows")
        return found

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
    """The database at a URL as SQLAlchemy writes it, or the SQLite file at a path.

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
    file = Path(path)
    if not file.is_file():
        raise NotFound(f"there is no file {shorten(path, 200)}")
    try:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        with closing(connection.cursor()) as cursor:
            cursor.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.Error as error:
        raise Invalid(f"{shorten(path, 200)} is not a SQLite database: {error}") from None
    return ForeignDatabase(connection, postgres=False)


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
    except psycopg.Error as error:
        told = shorten(" ".join(str(error).split()), 200)
        raise Unavailable(f"the database cannot be reached: {told}") from None
    return ForeignDatabase(connection, postgres=True)

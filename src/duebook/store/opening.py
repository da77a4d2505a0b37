"""Opens the books that a URL names; the one place that knows which store is for which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.errors import Invalid
from duebook.settings import database_path, is_postgres

if TYPE_CHECKING:
    from duebook.store.base import Store

__all__ = ["open_store", "place_of"]


def open_store(url: str) -> Store:
    """The books at `postgresql://…`, or in the file of `sqlite:///…` or a path, brought up to date.

    Raises Invalid for a URL that names no books, and Unavailable when they cannot be reached.
    """
    if not is_postgres(url):
        from duebook.store.sqlite import SqliteStore

        return SqliteStore(database_path(url))
    try:
        from duebook.store.postgres import PostgresStore
    except ImportError as error:
        raise Invalid(
            "PostgreSQL needs psycopg, which is not installed: pip install 'duebook[postgres]'"
        ) from error
    return PostgresStore(url)


def place_of(url: str) -> str:
    """Where the books are, for people: no password."""
    if not is_postgres(url):
        return str(database_path(url))
    from duebook.store.postgres import connection

    return connection.place_of(connection.full_conninfo(url))

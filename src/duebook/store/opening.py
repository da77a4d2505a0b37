"""Opens the books that a URL names; the one place that knows which store is for which."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from duebook.errors import Invalid
from duebook.settings import database_path, is_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.store.base import Store
    from duebook.store.postgres.arriving import Target

__all__ = ["open_store", "open_target", "place_of"]


def open_store(url: str, listen_url: str | None = None) -> Store:
    """The books at `postgresql://…`, or in the file of `sqlite:///…` or a path, brought up to date.

    `listen_url` leads to the same PostgreSQL without a pooler in between; a file needs none.

    Raises Invalid for a URL that names no books, and Unavailable when they cannot be reached.
    """
    if not is_postgres(url):
        from duebook.store.sqlite import SqliteStore

        return SqliteStore(database_path(url))
    with _driver_needed():
        from duebook.store.postgres import PostgresStore
    return PostgresStore(url, listen_url=listen_url)


def open_target(url: str) -> Target:
    """A PostgreSQL database that takes over the books of a file; raises as `open_store`."""
    if not is_postgres(url):
        raise Invalid("books are copied to PostgreSQL; write the second place as postgresql://…")
    with _driver_needed():
        from duebook.store.postgres.arriving import Target
    return Target(url)


@contextmanager
def _driver_needed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise Invalid(
            "PostgreSQL needs psycopg, which is not installed: pip install 'duebook[postgres]'"
        ) from error


def place_of(url: str) -> str:
    """Where the books are, for people: no password."""
    if not is_postgres(url):
        return str(database_path(url))
    from duebook.store.postgres.route import Route

    return Route(url).place

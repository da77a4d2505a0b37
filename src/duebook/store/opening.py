"""Opens the database of a URL; the only place that knows which store belongs to which URL."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from duebook.errors import Invalid, NotFound
from duebook.ids import check_name
from duebook.settings import MEMORY, database_path, is_memory, is_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook.store.base import Store
    from duebook.store.postgres.arriving import Target

__all__ = ["memory_name", "open_beside", "open_store", "open_target", "place_of"]


def open_store(url: str, listen_url: str | None = None, create: bool = True) -> Store:
    """The database at `postgresql://…`, in the file of `sqlite:///…` or a path, or in memory, with
    an up-to-date schema.

    `listen_url` leads to the same PostgreSQL without a pooler in between; a file needs none.

    Raises Invalid for an unusable URL, Unavailable when the database cannot be reached, and
    NotFound when it does not exist and `create` is false.
    """
    if is_memory(url):
        from duebook.store.sqlite.memory import MemoryStore

        return MemoryStore(memory_name(url))
    if not is_postgres(url):
        from duebook.store.sqlite import SqliteStore

        path = database_path(url)
        if not create:
            _refuse_missing(path)
        return SqliteStore(path)
    with _driver_needed():
        from duebook.store.postgres import PostgresStore
    return PostgresStore(url, listen_url=listen_url, create=create)


def open_beside(store: Store, url: str, listen_url: str | None = None) -> Store:
    """Another store on the same database, with its own connections."""
    if is_memory(url):
        from duebook.store.sqlite.memory import MemoryStore

        assert isinstance(store, MemoryStore)  # noqa: S101 - by its URL
        return store.another()
    return open_store(url, listen_url)


def memory_name(url: str) -> str:
    """The name in `memory://NAME`, empty for `memory://`; raises Invalid."""
    name = url.removeprefix(MEMORY)
    return check_name(name, "the name in memory://NAME") if name else ""


def _refuse_missing(path: Path) -> None:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"there is no database at {path.absolute()}; change to the directory of your "
            "database, choose it with --database, or create one here: duebook up"
        ) from None
    except OSError:
        return  # opening it explains what is wrong


def open_target(url: str) -> Target:
    """A PostgreSQL database that receives the contents of a file; raises like `open_store`."""
    if not is_postgres(url):
        raise Invalid(
            "only copies to PostgreSQL are supported; give the second database as postgresql://…"
        )
    with _driver_needed():
        from duebook.store.postgres.arriving import Target
    return Target(url)


@contextmanager
def _driver_needed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise Invalid(
            "PostgreSQL needs psycopg, which is not installed: "
            "pip install 'psycopg[binary]>=3.2,<4'"
        ) from error


def place_of(url: str) -> str:
    """The address of the database for people, without its password."""
    if is_memory(url):
        return MEMORY + memory_name(url)
    if not is_postgres(url):
        return str(database_path(url))
    from duebook.store.postgres.route import Route

    return Route(url).place

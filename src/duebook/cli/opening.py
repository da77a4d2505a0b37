"""Opens the database or the server that a command line names."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from duebook.book import Book
from duebook.cli.arguments import user
from duebook.errors import Invalid
from duebook.settings import Settings, is_memory, load_settings
from duebook.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.client import Client
    from duebook.remote import RemoteBook

__all__ = ["database_settings", "open_book", "open_database", "settings_of"]


def settings_of(ctx: click.Context | None = None, **flags: str | None) -> Settings:
    """The settings in force, with the flags of the current command line."""
    return load_settings({**_flags(ctx), **flags})


def database_settings(ctx: click.Context | None = None, **flags: str | None) -> Settings:
    """As `settings_of`, for a command that needs the database itself; raises NeedsDatabase.

    --database overrides a server that the environment or a file names.
    """
    settings, given = settings_of(ctx, **flags), _flags(ctx)
    elsewhere = settings.url is not None and settings.database_url == Settings().database_url
    if given.get("url") or (elsewhere and not given.get("database_url")):
        from duebook.remote.needs import needs_database

        context = ctx or click.get_current_context()
        raise needs_database(context.command_path)
    return settings


@contextmanager
def open_book(create: bool = False) -> Iterator[Client]:
    """Open the client that the current command line names, and close it at the end.

    Raises NotFound for a database that does not exist, unless `create`.
    """
    settings, given = settings_of(), _flags()
    if given.get("url") and given.get("database_url"):
        raise click.UsageError("give either --database or --url, not both")
    remote = settings.url is not None and not given.get("database_url")
    opened: Client = _server(settings) if remote else _database(settings, create)
    with opened as book:
        yield book


@contextmanager
def open_database(create: bool = False) -> Iterator[Book]:
    """As `open_book`, but never for a server; raises NeedsDatabase."""
    with _database(database_settings(), create) as book:
        yield book


def _database(settings: Settings, create: bool) -> Book:
    if is_memory(settings.database_url):
        raise Invalid(
            f"{settings.database_url} is in the memory of the process that opened it, and no other "
            "command can see it; ask its node with --url, or use a file: --database books.db"
        )
    store = open_store(settings.database_url, settings.listen_url, create)
    return Book(store, settings.namespace, by=f"cli:{user()}")


def _server(settings: Settings) -> RemoteBook:
    from duebook.remote import RemoteBook

    assert settings.url is not None  # noqa: S101 - the caller has checked
    return RemoteBook(settings.url, settings.token or _local_token(settings), settings.namespace)


def _local_token(settings: Settings) -> str | None:
    """The token that a node on this machine stores for its user; valid only on this machine."""
    from duebook.api.local_token import find_local_token, local_token_path
    from duebook.remote.server import is_loopback_url

    if settings.url is None or not is_loopback_url(settings.url):
        return None
    return find_local_token(local_token_path(settings.database_url))


def _flags(ctx: click.Context | None = None) -> dict[str, str | None]:
    return (ctx or click.get_current_context()).find_root().obj or {}

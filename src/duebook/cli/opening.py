"""Opens the books that a command line names."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from duebook.book import Book
from duebook.cli.arguments import user
from duebook.settings import Settings, load_settings
from duebook.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["open_book", "settings_of"]


def settings_of(ctx: click.Context | None = None, **flags: str | None) -> Settings:
    """The settings in force, with the flags of the current command line."""
    given = (ctx or click.get_current_context()).find_root().obj or {}
    return load_settings({**given, **flags})


@contextmanager
def open_book() -> Iterator[Book]:
    """The book of the current command line, closed at the end."""
    settings = settings_of()
    store = open_store(settings.database_url, settings.listen_url)
    book = Book(store, settings.namespace, by=f"cli:{user()}")
    try:
        yield book
    finally:
        book.close()

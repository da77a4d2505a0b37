"""The PostgreSQL that benchmarks use: with durable settings, as in production."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from tests.support.postgres import Server

from duebook.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["durable_server"]


@contextmanager
def durable_server() -> Iterator[Server]:
    """Its databases have Duebook's schema."""
    with closing(Server(durable=True)) as server:
        server.make_template(lambda url: PostgresStore(url).close())
        yield server

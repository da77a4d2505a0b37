"""Stores on a PostgreSQL database for tests that inspect locks and tables behind them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg

from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def opened(url: str, *arguments: Any, **named: Any) -> Iterator[PostgresStore]:
    store = PostgresStore(url, *arguments, **named)
    try:
        yield store
    finally:
        store.close()


def query(url: str, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, options=f"-c search_path={SCHEMA}", autocommit=True) as connection:
        cursor = connection.execute(sql.encode(), parameters)
        return cursor.fetchall() if cursor.description else []


def without_waiting(url: str) -> str:
    """Connections with this URL fail instead of waiting for a lock."""
    return f"{url}&options={quote('-c lock_timeout=1ms')}"


LOCK_WAITS = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)

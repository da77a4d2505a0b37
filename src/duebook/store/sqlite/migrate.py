"""Brings a file's schema up to date: numbered SQL files, each applied once and recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from duebook.store.migrations import Migration, check_applied, find_migrations, too_new
from duebook.store.sqlite.connection import APPLICATION_ID

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Migration", "applied", "available", "is_current", "migrate"]

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT
"""
_END_SESSIONS: Final = """
UPDATE node_sessions SET ended_at = ?, seen_at = ? WHERE ended_at IS NULL
"""


def available() -> list[Migration]:
    """The migrations that this version of Duebook includes, in order."""
    return find_migrations(Path(__file__).with_name("migrations"))


def applied(connection: sqlite3.Connection) -> dict[int, str]:
    """The file's migrations: number to checksum; empty for a new file."""
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone()
    if not known:
        return {}
    return dict(connection.execute("SELECT number, checksum FROM migrations"))


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether there is nothing to apply; writes nothing."""
    return applied(connection) == {one.number: one.checksum for one in available()}


def migrate(connection: sqlite3.Connection, now: int) -> list[Migration]:
    """Apply missing migrations, in the caller's transaction; returns those that were applied.

    Raises Conflict for a schema from a newer Duebook, or one that was changed manually.
    """
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(_TABLE)
    have, ours = applied(connection), available()
    if max(have, default=0) > ours[-1].number:
        raise too_new(max(have), ours[-1].number)
    check_applied(have, ours)
    missing = [migration for migration in ours if migration.number not in have]
    for migration in missing:
        for statement in migration.statements:
            connection.execute(statement)
        connection.execute(
            "INSERT INTO migrations (number, name, checksum, applied_at) VALUES (?, ?, ?, ?)",
            (migration.number, migration.name, migration.checksum, now),
        )
    if missing:  # running nodes are too old, and notice when they renew
        connection.execute(_END_SESSIONS, (now, now))
    return missing

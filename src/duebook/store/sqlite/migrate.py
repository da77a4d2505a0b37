"""Brings a file's schema up to date: numbered SQL files, each applied once and remembered."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from duebook.errors import Conflict
from duebook.store.sqlite.connection import APPLICATION_ID

if TYPE_CHECKING:
    import sqlite3

__all__ = ["Migration", "applied", "available", "migrate"]

_FILE: Final = re.compile(r"(\d{4})_(\w+)\.sql")
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT
"""


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def available() -> list[Migration]:
    """The migrations this version of Duebook brings, in order."""
    return [
        Migration(int(match[1]), match[2], path.read_text("utf-8"))
        for path in sorted(Path(__file__).with_name("migrations").glob("*.sql"))
        if (match := _FILE.fullmatch(path.name))
    ]


def applied(connection: sqlite3.Connection) -> dict[int, str]:
    """Number to checksum of what a file has; empty for a new file."""
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone()
    if not known:
        return {}
    return dict(connection.execute("SELECT number, checksum FROM migrations"))


def migrate(connection: sqlite3.Connection, now: int) -> list[Migration]:
    """Apply what is missing, in the caller's transaction; returns what was applied.

    Raises Conflict for a schema from a newer Duebook, or one that was changed by hand.
    """
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(_TABLE)
    have, ours = applied(connection), available()
    _check(have, ours)
    missing = [migration for migration in ours if migration.number not in have]
    for migration in missing:
        for statement in _statements(migration.sql):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO migrations (number, name, checksum, applied_at) VALUES (?, ?, ?, ?)",
            (migration.number, migration.name, migration.checksum, now),
        )
    return missing


def _check(have: dict[int, str], ours: list[Migration]) -> None:
    newest = ours[-1].number
    if ahead := [number for number in have if number > newest]:
        raise Conflict(
            f"the database has schema {max(ahead)}, and this Duebook knows only {newest}; "
            "upgrade Duebook"
        )
    for migration in ours:
        if have.get(migration.number, migration.checksum) != migration.checksum:
            raise Conflict(
                f"migration {migration.number:04d}_{migration.name} of the database differs from "
                "the one of this Duebook; restore the schema or the program"
            )


def _statements(sql: str) -> list[str]:
    """The statements of a file; none of ours has a semicolon inside."""
    code = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--"))
    return [statement.strip() for statement in code.split(";") if statement.strip()]

"""Brings a database's schema up to date, once, however many nodes start at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.lazy_dataclasses import dataclass
from duebook.store.migrations import (
    Migration,
    check_applied,
    find_migrations,
    min_compatible,
    too_new,
)
from duebook.store.postgres.connection import SCHEMA, translated
from duebook.store.postgres.route import Route

if TYPE_CHECKING:
    import psycopg

    from duebook.store.postgres.connection import Connection

__all__ = ["LOCK", "SchemaOf", "applied", "available", "migrate", "schema_of"]

LOCK: Final = 0x44756542
"""The advisory lock for migrations; starting nodes share it."""
_TABLES: Final = f"""
CREATE SCHEMA IF NOT EXISTS {SCHEMA};
CREATE TABLE IF NOT EXISTS migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS meta (
    key text PRIMARY KEY,
    value bigint NOT NULL
)
"""
_KEEP: Final = (
    "INSERT INTO meta (key, value) VALUES (%s, %s)"
    " ON CONFLICT (key) DO UPDATE SET value = greatest(meta.value, excluded.value)"
)
_END_SESSIONS: Final = """
UPDATE node_sessions SET ended_at = now(), seen_at = now() WHERE ended_at IS NULL
"""
_SIZE: Final = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
WHERE c.relnamespace = to_regnamespace(%s) AND c.relkind = 'r'
"""


def available() -> list[Migration]:
    """The migrations that this version of Duebook includes, in order."""
    return find_migrations(Path(__file__).with_name("migrations"))


def applied(connection: psycopg.Connection[tuple[Any, ...]]) -> dict[int, str]:
    """The database's migrations: number to checksum; empty for a new one."""
    known = connection.execute("SELECT to_regclass(%s)", [f"{SCHEMA}.migrations"]).fetchone()
    if known is None or known[0] is None:
        return {}
    rows = connection.execute(f"SELECT number, checksum FROM {SCHEMA}.migrations")  # noqa: S608
    return dict(rows.fetchall())


@dataclass(frozen=True, slots=True)
class SchemaOf:
    """The schema of a database, compared with ours."""

    number: int
    """0: no schema"""
    newest: int
    min_compatible: int | None
    size: int
    """of all tables and indexes, in bytes"""


def schema_of(url: str) -> SchemaOf:
    """The schema of a database, without changing it."""
    route = Route(url)
    with translated(route.place), route.connect() as connection:
        number, newest = max(applied(connection), default=0), available()[-1].number
        if not number:
            return SchemaOf(0, newest, None, 0)
        rows = connection.execute(_SIZE, [SCHEMA]).fetchall()
        return SchemaOf(number, newest, _min_compatible(connection), int(rows[0][0]))


def migrate(connection: Connection) -> list[Migration]:
    """Apply missing migrations, all or nothing; returns those that were applied.

    A schema from a newer Duebook is used as it is, unless it excludes this version: then it raises
    Conflict, as for a schema that was changed manually.
    """
    ours = available()
    if not _missing(connection, ours):  # the usual case, which needs no special rights
        return []
    connection.patience = None  # others may be migrating, and an index takes its time
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        connection.execute(f"SET LOCAL search_path TO {SCHEMA}")
        connection.execute(_TABLES)
        missing = _missing(connection, ours)
        for migration in missing:
            _apply(connection, migration)
        if missing and min_compatible(ours) >= missing[0].number:
            connection.execute(_END_SESSIONS)  # their nodes are too old, and notice when they renew
        connection.execute(_KEEP, ["version", ours[-1].number])
        connection.execute(_KEEP, ["min_compatible", min_compatible(ours)])
    return missing


def _missing(
    connection: psycopg.Connection[tuple[Any, ...]], ours: list[Migration]
) -> list[Migration]:
    """The migrations to apply; raises Conflict."""
    have = applied(connection)
    newest = ours[-1].number
    if max(have, default=0) > newest and newest < _min_compatible(connection):
        raise too_new(max(have), newest)
    check_applied(have, ours)
    return [migration for migration in ours if migration.number not in have]


def _min_compatible(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
    row = connection.execute(
        f"SELECT value FROM {SCHEMA}.meta WHERE key = 'min_compatible'"  # noqa: S608
    ).fetchone()
    return int(row[0]) if row else 1


def _apply(connection: psycopg.Connection[tuple[Any, ...]], migration: Migration) -> None:
    for statement in migration.statements:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO migrations (number, name, checksum, applied_at) VALUES (%s, %s, %s, now())",
        [migration.number, migration.name, migration.checksum],
    )

"""What doctor needs to know about a database, as plain values; lengths of time are by the
database's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from datetime import datetime, timedelta

__all__ = ["ExpiredSession", "FileFacts", "OpenTransaction", "ServerFacts", "TableFacts"]


class ExpiredSession(NamedTuple):
    """A node whose lease has expired without another node declaring it dead."""

    node: str
    pid: int
    expired_at: datetime
    runs: int
    """the runs that it holds"""


class TableFacts(NamedTuple):
    """A table with frequent changes."""

    name: str
    live: int
    dead: int
    """rows that a vacuum has to remove"""
    size: int
    autovacuum: bool
    """whether it is enabled for this table"""
    vacuumed: timedelta | None
    """how long ago; None: never"""


class OpenTransaction(NamedTuple):
    """A transaction that keeps vacuum from removing rows that died since it started."""

    title: str
    """the process and its user, or the name of a prepared transaction"""
    age: timedelta


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A PostgreSQL database."""

    size: int
    autovacuum: bool
    """whether the server has it enabled at all"""
    tables: tuple[TableFacts, ...]
    oldest: OpenTransaction | None
    hidden: int
    """connections of others whose transactions this user may not see"""
    connections: int
    """to all databases of the server"""
    most_connections: int


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A SQLite file."""

    path: str
    """empty: it is in memory, and only the size counts"""
    size: int
    wal_size: int
    unused: int
    """unused bytes of the file"""
    disk_free: int
    disk_size: int
    created_at: datetime | None
    backed_up_at: datetime | None
    """by `duebook db backup`"""

"""The checks of doctor that are about the database itself: facts in, one line out; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.book.doctor.checks import listed
from duebook.errors import counted
from duebook.explain.words import length_text
from duebook.model.diagnosis import Checkup
from duebook.timetext import format_instant, relative

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.checkup import FileFacts, ServerFacts, TableFacts

__all__ = ["FREE_SPACE", "check_file", "check_server"]

FREE_SPACE: Final = "free space, or move the file to another disk"

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
LARGE_WAL: Final = 256 * MIB
MUCH_UNUSED: Final = 100 * MIB
LITTLE_LEFT: Final = 2 * GIB
"""Warn below this many free bytes on a disk, or below a twentieth of it if that is less."""
HARDLY_ANY: Final = 100 * MIB
BACKUP_AGE: Final = timedelta(days=7)
NEW: Final = timedelta(days=1)
"""A database younger than this needs no backup yet."""
MANY_DEAD: Final = 20_000
BLOATED: Final = 64 * MIB
WIDEST_ROW: Final = 4 * KIB
"""Bytes that a row of a narrow table may take, including all indexes."""
NARROW: Final = ("schedule_state", "due_keys", "node_sessions", "flow_wakes")
LONG: Final = timedelta(minutes=5)
VERY_LONG: Final = timedelta(hours=1)
MANY_CONNECTIONS: Final = 0.8
TOO_MANY_CONNECTIONS: Final = 0.95


def check_file(facts: FileFacts, now: datetime) -> list[Checkup]:
    """For a SQLite file, or SQLite in memory."""
    if not facts.path:
        about = f"SQLite in memory, {_size(facts.size)}; it is lost when this process ends"
        return [Checkup("database", "ok", about)]
    return [_file(facts), _disk(facts), _backups(facts, now)]


def _file(facts: FileFacts) -> Checkup:
    about = f"SQLite file {facts.path}, {_size(facts.size)}"
    if facts.wal_size > LARGE_WAL:
        message = f"{about}: its write-ahead log has grown to {_size(facts.wal_size)}"
        remedy = "end programs that keep a transaction open in the file, or restart the nodes"
        return Checkup("database", "warning", message, remedy)
    if facts.unused > max(MUCH_UNUSED, facts.size // 2):
        message = f"{about}; {_size(facts.unused)} of it is unused"
        remedy = f"stop the nodes and run: sqlite3 {facts.path} VACUUM"
        return Checkup("database", "warning", message, remedy)
    return Checkup("database", "ok", about)


def _disk(facts: FileFacts) -> Checkup:
    message = f"{_size(facts.disk_free)} of {_size(facts.disk_size)} are free where the file is"
    if facts.disk_free < HARDLY_ANY:
        return Checkup("disk", "problem", message, FREE_SPACE)
    if facts.disk_free < min(LITTLE_LEFT, facts.disk_size // 20):
        return Checkup("disk", "warning", message, FREE_SPACE)
    return Checkup("disk", "ok", message)


def _backups(facts: FileFacts, now: datetime) -> Checkup:
    at = facts.backed_up_at
    remedy = "run it regularly, such as by a schedule: duebook db backup FILE"
    if at is not None:
        message = f"the last duebook db backup was {relative(at - now)} ({format_instant(at)})"
        if now - at > BACKUP_AGE:
            return Checkup("backups", "warning", message, remedy)
        return Checkup("backups", "ok", message)
    if facts.created_at is not None and now - facts.created_at < NEW:
        return Checkup("backups", "ok", "the database is less than a day old")
    message = "duebook db backup has not been used, or not for 90 days"
    return Checkup("backups", "warning", message, remedy)


def check_server(facts: ServerFacts) -> list[Checkup]:
    """For a PostgreSQL database."""
    return [
        Checkup("database", "ok", f"PostgreSQL, {_size(facts.size)}"),
        _vacuum(facts),
        _transactions(facts),
        _connections(facts),
    ]


def _vacuum(facts: ServerFacts) -> Checkup:
    if not facts.autovacuum:
        remedy = "set autovacuum = on in postgresql.conf and reload the server"
        return Checkup("vacuum", "problem", "autovacuum is off on the server", remedy)
    off = [table.name for table in facts.tables if not table.autovacuum]
    if off:
        message = f"autovacuum is off for {listed(off)}"
        remedy = f"ALTER TABLE duebook.{off[0]} RESET (autovacuum_enabled)"
        return Checkup("vacuum", "problem", message, remedy, tuple(off))
    dead = [table for table in facts.tables if table.dead > max(MANY_DEAD, table.live)]
    if dead:
        named = listed([f"{table.name} ({table.dead:,} dead rows)" for table in dead])
        message = f"vacuum does not keep up with {named}"
        remedy = f"look for old transactions; then: VACUUM (ANALYZE) duebook.{dead[0].name}"
        return Checkup("vacuum", "warning", message, remedy, _names(dead))
    bloated = [table for table in facts.tables if _is_bloated(table)]
    if bloated:
        named = listed([_rows(one) for one in bloated])
        remedy = f"rebuild it when little is due: VACUUM FULL duebook.{bloated[0].name}"
        return Checkup("vacuum", "warning", f"bloated: {named}", remedy, _names(bloated))
    return Checkup("vacuum", "ok", "autovacuum keeps up with the hot tables")


def _is_bloated(table: TableFacts) -> bool:
    known = table.name in NARROW and table.vacuumed is not None
    return known and table.size > max(BLOATED, WIDEST_ROW * (table.live + table.dead))


def _rows(table: TableFacts) -> str:
    return f"{table.name} ({_size(table.size)}, {counted(table.live, 'row')})"


def _names(tables: list[TableFacts]) -> tuple[str, ...]:
    return tuple(table.name for table in tables)


def _transactions(facts: ServerFacts) -> Checkup:
    hidden = ""
    if facts.hidden:
        hidden = f"to see those of {facts.hidden:,} hidden connections: "
        hidden += "GRANT pg_read_all_stats TO the user of Duebook"
    if facts.oldest is None or facts.oldest.age < LONG:
        message = "no transaction has been open for more than 5 minutes"
        return Checkup("transactions", "ok", message, hidden)
    level = facts.oldest.age >= VERY_LONG
    message = (
        f"a transaction has been open for {length_text(facts.oldest.age)}: {facts.oldest.title}"
    )
    remedy = "end it: until then vacuum clears nothing away that died since it started"
    found = (facts.oldest.title,)
    return Checkup("transactions", "problem" if level else "warning", message, remedy, found)


def _connections(facts: ServerFacts) -> Checkup:
    used = facts.connections / max(facts.most_connections, 1)
    message = f"{facts.connections:,} of {facts.most_connections:,} connections are in use"
    remedy = "use fewer nodes or a pooler such as PgBouncer, or raise max_connections"
    if used >= TOO_MANY_CONNECTIONS:
        return Checkup("connections", "problem", message, remedy)
    if used >= MANY_CONNECTIONS:
        return Checkup("connections", "warning", message, remedy)
    return Checkup("connections", "ok", message)


def _size(number: int) -> str:
    for unit, size in (("GB", GIB), ("MB", MIB), ("kB", KIB)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:,} bytes"

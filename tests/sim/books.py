"""Reads a simulated database with plain SQL, for the judge; knows the tables and no code of
Duebook."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tests.chaos.books import Books

if TYPE_CHECKING:
    import sqlite3

    from tests.chaos.books import Row

__all__ = [
    "closed_days",
    "dead_letters",
    "ended_runs",
    "has_ended",
    "is_active",
    "read_books",
    "running_under",
    "waiting_events",
]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TIMES: Final = {"due_from", "due_to", "watermark", "valid_from", "at"}
FACTS: Final = "id, attempt, status, finished_at, reason, exit_code, session_id"
ENDED: Final = "('succeeded', 'partial', 'failed', 'cancelled')"
TABLES: Final = {
    "schedules": "SELECT s.id, s.name, s.version, s.created_at, s.deleted_at, r.spec,"
    " r.valid_from, st.status, st.watermark, st.next_due_at, st.problem FROM schedules AS s"
    " JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version"
    " LEFT JOIN schedule_state AS st ON st.schedule_id = s.id ORDER BY s.created_at, s.id",
    "revisions": "SELECT schedule_id, version, spec, valid_from FROM schedule_revisions"
    " ORDER BY schedule_id, version",
    "runs": "SELECT r.*, s.name AS schedule FROM runs AS r"
    " LEFT JOIN schedules AS s ON s.id = r.schedule_id ORDER BY r.rowid",
    "attempts": "SELECT * FROM run_attempts ORDER BY run_id, attempt",
    "ledger": "SELECT * FROM ledger ORDER BY id",
    "sessions": "SELECT * FROM node_sessions ORDER BY started_at, id",
    "events": "SELECT * FROM events ORDER BY aggregate, version, position",
}


def read_books(connection: sqlite3.Connection, now: datetime) -> Books:
    tables = {name: [_read(row) for row in _rows(connection, sql)] for name, sql in TABLES.items()}
    return Books(now=now, **tables)


def _rows(connection: sqlite3.Connection, sql: str, *values: object) -> list[Row]:
    cursor = connection.execute(sql, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _read(row: Row) -> Row:
    return {name: _value(name, value) for name, value in row.items()}


def _value(name: str, value: Any) -> Any:
    if value is not None and (name.endswith("_at") or name in TIMES):
        return EPOCH + timedelta(microseconds=value)
    return json.loads(value) if name == "spec" else value


def ended_runs(
    connection: sqlite3.Connection, since: datetime
) -> list[tuple[str, int, tuple[Any, ...]]]:
    """Run, attempt and what must not change, of all that have ended since then."""
    sql = f"SELECT {FACTS} FROM runs WHERE status IN {ENDED}"  # noqa: S608
    sql += " AND finished_at >= ? ORDER BY rowid"
    rows = _rows(connection, sql, (since - EPOCH) // timedelta(microseconds=1))
    return [(row["id"], row["attempt"], _facts(row)) for row in map(_read, rows)]


def _facts(row: Row) -> tuple[Any, ...]:
    return tuple(row[name.strip()] for name in FACTS.split(",")[2:])


def running_under(connection: sqlite3.Connection, session: str) -> list[str]:
    sql = "SELECT id FROM runs WHERE status = 'running' AND session_id = ?"
    return [row["id"] for row in _rows(connection, sql, session)]


def closed_days(connection: sqlite3.Connection) -> dict[tuple[str, int], set[date]]:
    """The closed dates of each version of each calendar."""
    rows = _rows(connection, "SELECT name, version, definition FROM calendars")
    return {
        (row["name"], row["version"]): {
            date.fromisoformat(day) for day in json.loads(row["definition"])["dates"]
        }
        for row in rows
    }


def is_active(connection: sqlite3.Connection) -> bool:
    """Whether anything is left to run, or to decide."""
    sql = (
        f"SELECT EXISTS (SELECT 1 FROM runs WHERE status NOT IN {ENDED}) OR EXISTS"  # noqa: S608
        " (SELECT 1 FROM schedule_state WHERE status <> 'completed')"
    )
    return bool(connection.execute(sql).fetchone()[0])


def has_ended(connection: sqlite3.Connection, run_id: str) -> bool:
    sql = f"SELECT status IN {ENDED} FROM runs WHERE id = ?"  # noqa: S608
    row = connection.execute(sql, (run_id,)).fetchone()
    return bool(row and row[0])


def dead_letters(connection: sqlite3.Connection) -> list[str]:
    """The events that somebody gave up."""
    return [row["event_id"] for row in _rows(connection, "SELECT event_id FROM dead_letters")]


def waiting_events(connection: sqlite3.Connection, topic: str, arrived: set[str]) -> bool:
    """Whether events of a topic have neither arrived nor been given up."""
    known = {row["id"] for row in _rows(connection, "SELECT id FROM events WHERE topic = ?", topic)}
    return bool(known - arrived - set(dead_letters(connection)))

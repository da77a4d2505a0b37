"""Reads the database with plain SQL, for the checker; knows the tables and no code of Duebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

if TYPE_CHECKING:
    from datetime import datetime

Row = dict[str, Any]
TABLES = {
    "schedules": "SELECT s.id, s.name, s.version, s.created_at, s.deleted_at, r.spec::json AS spec,"
    " r.valid_from, st.status, st.watermark, st.next_due_at, st.seen FROM schedules AS s"
    " JOIN schedule_revisions AS r ON r.schedule_id = s.id AND r.version = s.version"
    " LEFT JOIN schedule_state AS st ON st.schedule_id = s.id ORDER BY s.name",
    "revisions": "SELECT schedule_id, version, spec::json AS spec FROM schedule_revisions",
    "runs": "SELECT r.*, s.name AS schedule FROM runs AS r"
    " LEFT JOIN schedules AS s ON s.id = r.schedule_id ORDER BY r.place",
    "attempts": "SELECT * FROM run_attempts ORDER BY run_id, attempt",
    "ledger": "SELECT * FROM ledger ORDER BY id",
    "sessions": "SELECT * FROM node_sessions ORDER BY started_at",
    "events": "SELECT * FROM events ORDER BY aggregate, version",
}


@dataclass(frozen=True)
class Books:
    """The contents of the tables at one moment."""

    now: datetime
    schedules: list[Row]
    revisions: list[Row]
    runs: list[Row]
    attempts: list[Row]
    ledger: list[Row]
    sessions: list[Row]
    events: list[Row]


def read_books(url: str) -> Books:
    options = "-c search_path=duebook -c timezone=UTC"
    with psycopg.connect(url, options=options, row_factory=dict_row) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        (clock,) = connection.execute("SELECT now()").fetchall()
        tables = {name: connection.execute(sql.encode()).fetchall() for name, sql in TABLES.items()}
    return Books(now=clock["now"], **tables)

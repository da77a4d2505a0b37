"""What a SQLite file tells doctor about its clock, its disk and its backups."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.book import Book
from duebook.store.sql.rows import micros
from duebook.store.sqlite import SqliteStore
from tests.support.builders import BEGIN, begin

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.model.diagnosis import Checkup
    from tests.support.builders import VirtualClock

DAY = timedelta(days=1)


def examine(store: SqliteStore) -> dict[str, Checkup]:
    return {checkup.check: checkup for checkup in Book(store).doctor.examine().checkups}


def test_a_file_whose_clock_was_set_back_is_a_problem(tmp_path: Path, clock: VirtualClock) -> None:
    clock.advance(timedelta(hours=1))
    with closing(SqliteStore(tmp_path / "books.db", clock)) as store:
        begin(store)
    clock.advance(-timedelta(minutes=30))
    with closing(SqliteStore(tmp_path / "books.db", clock)) as store:
        found = examine(store)["clocks"]
    assert found.level == "problem"
    assert "is 30 min behind the latest time in the database" in found.message


def test_a_file_without_a_recent_backup_is_told(tmp_path: Path, clock: VirtualClock) -> None:
    path = tmp_path / "books.db"
    with closing(SqliteStore(path, clock)) as store:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE migrations SET applied_at = ?", (micros(BEGIN),))
        assert examine(store)["backups"].level == "ok"
        clock.advance(2 * DAY)
        assert examine(store)["backups"].level == "warning"
        Book(store, by="cli:ann").doctor.note_backup("/backups/duebook.db")
        assert examine(store)["backups"].level == "ok"
        clock.advance(8 * DAY)
        found = examine(store)["backups"]
    assert (found.level, "8 d ago" in found.message) == ("warning", True)


def test_a_file_tells_how_large_it_and_its_log_are(tmp_path: Path, clock: VirtualClock) -> None:
    path = tmp_path / "books.db"
    with closing(SqliteStore(path, clock)) as store:
        begin(store)
        facts = store.read(lambda tx: tx.checkups.database())
        assert facts.path == str(path)  # type: ignore[union-attr]
        assert facts.size == path.stat().st_size
        assert facts.wal_size == (tmp_path / "books.db-wal").stat().st_size > 0  # type: ignore[union-attr]
        assert 0 < facts.disk_free < facts.disk_size  # type: ignore[union-attr]

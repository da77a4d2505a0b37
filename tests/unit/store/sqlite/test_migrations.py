"""Migrations of a SQLite file: applied once, remembered, all or nothing; and the golden schema.

To regenerate the golden schema after a migration: python -m tests.unit.store.sqlite.test_migrations
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pytest

from duebook.errors import Conflict
from duebook.store.sqlite import SqliteStore, migrate
from duebook.store.sqlite.migrate import Migration, applied, available
from tests.support.builders import LEASE, begin

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("migrated_files")

GOLDEN: Final = Path(__file__).with_name("golden_schema.sql")
SCHEMA: Final = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type DESC, name"


def schema(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return "".join(f"{row[0]};\n\n" for row in connection.execute(SCHEMA))


def have(path: Path) -> dict[int, str]:
    with closing(sqlite3.connect(path)) as connection:
        return applied(connection)


def write(path: Path, sql: str, *parameters: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql, parameters)


def open_and_close(path: Path) -> None:
    SqliteStore(path).close()


def test_a_fresh_file_has_the_golden_schema(path: Path) -> None:
    open_and_close(path)
    assert schema(path) == GOLDEN.read_text("utf-8"), "regenerate it as this file's docstring says"


def test_migrations_are_numbered_without_gaps_and_named() -> None:
    ours = available()
    assert [migration.number for migration in ours] == list(range(1, len(ours) + 1))
    assert all(migration.name and migration.sql for migration in ours)


def test_every_table_is_strict(path: Path) -> None:
    open_and_close(path)
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' "
            "AND type = 'table' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
    assert [name for name, strict in tables if not strict] == []


def test_a_fresh_file_remembers_what_was_applied(path: Path) -> None:
    open_and_close(path)
    assert have(path) == {migration.number: migration.checksum for migration in available()}


def test_a_file_is_migrated_once(path: Path) -> None:
    open_and_close(path)
    before = have(path), schema(path)
    open_and_close(path)
    assert (have(path), schema(path)) == before


def test_a_file_opened_by_many_at_once_is_migrated_once(path: Path) -> None:
    ready, problems = threading.Barrier(4), list[BaseException]()

    def work() -> None:
        ready.wait()
        try:
            open_and_close(path)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert list(have(path)) == [migration.number for migration in available()]


def test_a_migration_that_was_changed_is_a_conflict_that_names_it(path: Path) -> None:
    open_and_close(path)
    write(path, "UPDATE migrations SET checksum = 'other' WHERE number = 1")
    with pytest.raises(Conflict, match="0001_init"):
        open_and_close(path)


def test_a_schema_from_the_future_is_a_conflict_that_names_both_versions(path: Path) -> None:
    open_and_close(path)
    newest = available()[-1].number
    write(path, "INSERT INTO migrations VALUES (9041, 'flying_cars', 'x', 0)")
    with pytest.raises(Conflict) as caught:
        open_and_close(path)
    assert "9041" in str(caught.value)
    assert f"only {newest};" in str(caught.value)


def test_a_file_that_is_refused_stays_as_it_is(path: Path) -> None:
    open_and_close(path)
    write(path, "INSERT INTO migrations VALUES (9041, 'flying_cars', 'x', 0)")
    before = have(path), schema(path)
    for _ in range(2):
        with pytest.raises(Conflict):
            open_and_close(path)
    assert (have(path), schema(path)) == before


@pytest.fixture
def with_second(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Adds a migration to those of the program."""
    ours = available()

    def add(sql: str) -> None:
        second = Migration(ours[-1].number + 1, "second", sql)
        monkeypatch.setattr(migrate, "available", lambda: [*ours, second])

    return add


def test_a_node_that_runs_is_told_to_stop_by_a_new_migration(
    path: Path, with_second: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = SqliteStore(path)
    begin(running)
    with_second("CREATE TABLE more (id INTEGER) STRICT;")
    open_and_close(path)
    monkeypatch.undo()
    assert not running.pulse("node-1", LEASE, ()).alive
    assert "upgrade Duebook" in (running.read(lambda tx: tx.status.unfit()) or "")
    with pytest.raises(Conflict, match="upgrade Duebook"):
        begin(running, "node-2")
    running.close()


@pytest.mark.parametrize("fresh", [True, False])
def test_a_migration_that_fails_half_way_leaves_nothing(
    path: Path, with_second: Callable[[str], None], fresh: bool
) -> None:
    if not fresh:
        open_and_close(path)
    else:
        sqlite3.connect(path).close()
    before = have(path), schema(path)
    with_second("CREATE TABLE half (id INTEGER) STRICT; INSERT INTO nowhere VALUES (1);")
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        open_and_close(path)
    assert (have(path), schema(path)) == before


def test_a_missing_migration_is_applied_and_what_is_there_stays(
    path: Path, with_second: Callable[[str], None]
) -> None:
    open_and_close(path)
    write(path, "INSERT INTO meta VALUES ('kept', 1)")
    first = have(path)
    with_second("-- a comment; with a semicolon\nCREATE TABLE more (id INTEGER) STRICT;")
    open_and_close(path)
    assert len(have(path)) == len(first) + 1
    assert first.items() <= have(path).items()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'kept'").fetchone() == (1,)
        assert connection.execute("SELECT * FROM more").fetchall() == []


@pytest.mark.parametrize(
    ("table", "values"),
    [
        ("schedule_state", {"schedule_id": "s", "version": 1, "status": "odd", "watermark": 0}),
        (
            "schedule_state",
            {"schedule_id": "s", "version": 1, "status": "paused", "watermark": 0},
        ),
        (
            "schedule_state",
            {
                "schedule_id": "s",
                "version": 1,
                "status": "completed",
                "watermark": 0,
                "wake_at": 1,
            },
        ),
        ("schedule_exceptions", {"schedule_id": "s", "due_at": 1, "kind": "moved_away"}),
        ("schedule_exceptions", {"schedule_id": "s", "due_at": 1, "kind": "skip", "moved_to": 2}),
        ("runs", {"status": "running"}),
        ("runs", {"status": "queued", "session_id": "n"}),
        ("runs", {"status": "succeeded"}),
        ("runs", {"status": "queued", "finished_at": 1}),
        ("runs", {"status": "queued", "due_at": 1}),
        ("runs", {"status": "queued", "origin": "schedule"}),
        ("runs", {"status": "queued", "schedule_id": "s"}),
        ("runs", {"status": "queued", "attempt": -1}),
        ("runs", {"status": "queued", "payload": "{no json"}),
        ("run_attempts", {"run_id": "none", "attempt": 1, "session_id": "n", "outcome": "lost"}),
        ("run_attempts", {"run_id": "r", "attempt": 0, "session_id": "n", "outcome": "lost"}),
    ],
)
def test_wrong_states_cannot_be_written(path: Path, table: str, values: dict[str, Any]) -> None:
    open_and_close(path)
    defaults: dict[str, dict[str, Any]] = {
        "runs": {
            "id": "r",
            "origin": "manual",
            "trigger": "",
            "queue": "q",
            "priority": 0,
            "exclusive": 1,
            "wakes": 0,
            "max_takeovers": 0,
            "created_at": 0,
            "ready_at": 0,
        },
        "run_attempts": {"claimed_at": 0, "finished_at": 0},
    }
    row = defaults.get(table, {}) | values
    sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"  # noqa: S608
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(
            "INSERT INTO schedules (id, namespace, name, version, created_at) "
            "VALUES ('s', 'd', 'n', 1, 0)"
        )
        connection.execute(
            "INSERT INTO node_sessions (id, node, pid, roles, version, tzdata, started_at, "
            "expires_at, seen_at) VALUES ('n', '', 1, '', '', '', 0, 0, 0)"
        )
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(sql, list(row.values()))


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        fresh_path = Path(folder) / "book.db"
        open_and_close(fresh_path)
        GOLDEN.write_text(schema(fresh_path), "utf-8")

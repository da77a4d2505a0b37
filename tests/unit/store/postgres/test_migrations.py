"""Migrations of a PostgreSQL database: applied once however many begin, all or nothing; an older
node works on a newer schema that allows it; and the golden schema.

To regenerate the golden schema after a migration:
python -m tests.unit.store.postgres.test_migrations
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg import errors

from duebook.book import Book
from duebook.engine.ticker import Ticker
from duebook.errors import Conflict
from duebook.store.migrations import Migration
from duebook.store.postgres import PostgresStore, migrate
from duebook.store.postgres.connection import SCHEMA
from duebook.store.postgres.migrate import applied, available
from duebook.store.values import SessionInfo
from tests.support.builders import LEASE, begin
from tests.support.postgres import Server
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.store.base import Tx

GOLDEN: Final = Path(__file__).with_name("golden_schema.txt")
TABLES: Final = """
SELECT c.relname, coalesce(array_to_string(c.reloptions, ', '), '') FROM pg_class AS c
WHERE c.relnamespace = 'duebook'::regnamespace AND c.relkind = 'r' ORDER BY c.relname COLLATE "C"
"""
FUNCTIONS: Final = """
SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'duebook'::regnamespace
ORDER BY proname COLLATE "C"
"""
PARTS: Final = """
SELECT line FROM (
    SELECT 1 AS kind, a.attnum AS place, concat_ws(' ', a.attname,
        format_type(a.atttypid, a.atttypmod), 'collate ' || nullif(l.collname, 'default'),
        CASE WHEN a.attnotnull THEN 'not null' END,
        CASE WHEN a.attidentity <> '' THEN 'identity' END,
        'default ' || pg_get_expr(d.adbin, d.adrelid)) AS line
    FROM pg_attribute AS a
    LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
    LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = %(table)s::regclass AND a.attnum > 0
    UNION ALL
    SELECT 2, 0, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = %(table)s::regclass AND contype <> 'n'
    UNION ALL
    SELECT 3, 0, pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = %(table)s::regclass
    UNION ALL
    SELECT 4, 0, pg_get_triggerdef(oid) FROM pg_trigger
    WHERE tgrelid = %(table)s::regclass AND NOT tgisinternal
) AS parts ORDER BY kind, place, line COLLATE "C"
"""


def schema(url: str) -> str:
    with psycopg.connect(url) as connection:
        text = ""
        for table, options in connection.execute(TABLES).fetchall():
            lines = connection.execute(PARTS, {"table": f"{SCHEMA}.{table}"}).fetchall()
            text += f"{table} ({options})\n" + "".join(f"    {line[0]}\n" for line in lines) + "\n"
        return text + "".join(f"{line[0]}\n" for line in connection.execute(FUNCTIONS))


def have(url: str) -> dict[int, str]:
    with psycopg.connect(url) as connection:
        return applied(connection)


def write(url: str, sql: str, *parameters: object) -> None:
    with psycopg.connect(url, options=f"-c search_path={SCHEMA}") as connection:
        connection.execute(sql.encode(), parameters)


def open_and_close(url: str) -> None:
    PostgresStore(url).close()


@pytest.fixture
def empty_url(postgres_server: Server) -> Iterator[str]:
    with postgres_server.database(template="template0") as url:
        yield url


def test_a_fresh_database_has_the_golden_schema(postgres_url: str) -> None:
    expected = GOLDEN.read_text("utf-8")
    assert schema(postgres_url) == expected, "regenerate it as this file's docstring says"


def test_migrations_are_numbered_without_gaps_and_named() -> None:
    ours = available()
    assert [migration.number for migration in ours] == list(range(1, len(ours) + 1))
    assert all(migration.name and migration.sql for migration in ours)


def test_a_database_that_ten_open_at_once_is_migrated_once(empty_url: str) -> None:
    ready, problems = threading.Barrier(10), list[BaseException]()

    def work() -> None:
        ready.wait()
        try:
            open_and_close(empty_url)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert have(empty_url) == {migration.number: migration.checksum for migration in available()}


def test_nothing_outside_the_schema_is_touched(empty_url: str) -> None:
    open_and_close(empty_url)
    with psycopg.connect(empty_url) as connection:
        outside = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        ).fetchall()
    assert outside == []


def test_a_migration_that_was_changed_is_a_conflict_that_names_it(postgres_url: str) -> None:
    write(postgres_url, "UPDATE migrations SET checksum = 'other' WHERE number = 1")
    with pytest.raises(Conflict, match="0001_init"):
        open_and_close(postgres_url)


def test_a_newer_schema_that_allows_it_is_used_as_it_is(postgres_url: str) -> None:
    write(postgres_url, "INSERT INTO migrations VALUES (9041, 'flying_cars', 'x', now())")
    write(postgres_url, "ALTER TABLE active_runs ADD COLUMN wings integer")
    before = have(postgres_url), schema(postgres_url)
    open_and_close(postgres_url)
    assert (have(postgres_url), schema(postgres_url)) == before


def test_a_newer_schema_that_names_this_node_too_old_is_a_conflict(postgres_url: str) -> None:
    write(postgres_url, "INSERT INTO migrations VALUES (9041, 'flying_cars', 'x', now())")
    write(postgres_url, "UPDATE meta SET value = 9000 WHERE key = 'min_compatible'")
    with pytest.raises(Conflict, match=r"9041.*upgrade"):
        open_and_close(postgres_url)


@pytest.fixture
def with_second(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Adds a migration to those of the program."""
    ours = available()

    def add(sql: str) -> None:
        second = Migration(ours[-1].number + 1, "second", sql)
        monkeypatch.setattr(migrate, "available", lambda: [*ours, second])

    return add


@pytest.mark.parametrize("fresh", [True, False])
def test_a_migration_that_fails_half_way_leaves_nothing(
    empty_url: str, with_second: Callable[[str], None], fresh: bool
) -> None:
    if not fresh:
        open_and_close(empty_url)
    before = have(empty_url)
    with_second("CREATE TABLE half (id integer); INSERT INTO nowhere VALUES (1);")
    with pytest.raises(errors.UndefinedTable, match="nowhere"):
        open_and_close(empty_url)
    assert have(empty_url) == before


def test_a_missing_migration_is_applied_and_what_is_there_stays(
    postgres_url: str, with_second: Callable[[str], None]
) -> None:
    first = have(postgres_url)
    with_second("-- a comment; with a semicolon\nCREATE TABLE more (id integer);")
    open_and_close(postgres_url)
    assert len(have(postgres_url)) == len(first) + 1
    assert first.items() <= have(postgres_url).items()


def upgrade(url: str, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first node of a newer Duebook does, which brings one more migration."""
    ours = available()
    newer = [*ours, Migration(ours[-1].number + 1, "newer", sql)]
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "available", lambda: newer)
        open_and_close(url)


def test_an_older_node_goes_on_beside_a_newer_schema_that_allows_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [datetime(2026, 1, 5, 12, tzinfo=UTC)]
    older = PostgresStore(postgres_url, lambda: now[0])
    Book(older).schedules.create("report", trigger={"every": "1m"}, target="report")
    begin(older)
    allowing = "-- min_compatible: 1\nALTER TABLE active_runs ADD COLUMN wings integer;"
    upgrade(postgres_url, allowing, monkeypatch)
    assert older.pulse("node-1", LEASE, ()).alive
    again = PostgresStore(postgres_url, lambda: now[0])
    for store in (older, again):
        now[0] += timedelta(minutes=1)
        ticker = Ticker(store)
        ticker.step()
        assert ticker.queued == 1
        for run in Book(store).runs.list(status="queued"):
            Book(store).runs.cancel(run.id)
        store.close()


@pytest.mark.parametrize("said", ["-- min_compatible: 2\n", ""])
def test_an_older_node_is_told_to_stop_by_a_migration_that_does_not_allow_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    running = PostgresStore(postgres_url)
    begin(running)
    upgrade(postgres_url, f"{said}ALTER TABLE active_runs ADD COLUMN wings integer;", monkeypatch)
    with pytest.raises(Conflict, match=r"schema 2.*supports only 1; upgrade Duebook"):
        open_and_close(postgres_url)
    assert not running.pulse("node-1", LEASE, ()).alive
    unfit = running.read(lambda tx: tx.status.unfit())
    assert unfit is not None
    assert "upgrade Duebook" in unfit
    with pytest.raises(Conflict, match="upgrade Duebook"):
        begin(running, "node-2")
    running.close()


def test_a_session_that_begins_beside_a_migration_is_ended_by_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = PostgresStore(postgres_url)
    sql = "CREATE TABLE more (id integer);"
    migration = threading.Thread(target=upgrade, args=(postgres_url, sql, monkeypatch))

    session = SessionInfo("node-1", "host", 1, "worker", "0", "2026a")

    def begin_beside(tx: Tx) -> None:
        tx.nodes.begin_session(session, LEASE)
        migration.start()
        eventually(lambda: waits_for_lock(postgres_url))

    running.transact(begin_beside)
    migration.join(PATIENCE)
    assert not running.pulse(session.id, LEASE, ()).alive
    running.close()


def waits_for_lock(url: str) -> bool:
    sql = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with psycopg.connect(url) as connection:
        return bool(connection.execute(sql).fetchall())


RUN: Final = {
    "id": "'r'",
    "namespace": "'default'",
    "origin": "'manual'",
    "trigger": "''",
    "queue": "'q'",
    "priority": "0",
    "exclusive": "true",
    "wakes": "false",
    "max_takeovers": "0",
    "created_at": "now()",
    "ready_at": "now()",
}


@pytest.mark.parametrize(
    "values",
    [
        {"status": "'odd'"},
        {"status": "'running'"},
        {"status": "'queued'", "session_id": "'n'"},
        {"status": "'succeeded'"},
        {"status": "'queued'", "finished_at": "now()"},
        {"status": "'queued'", "due_at": "now()"},
        {"status": "'queued'", "origin": "'schedule'"},
        {"status": "'queued'", "schedule_id": "'s'"},
        {"status": "'queued'", "attempt": "-1"},
        {"status": "'queued'", "payload": "'{no json'"},
    ],
)
def test_wrong_states_cannot_be_written(postgres_url: str, values: dict[str, Any]) -> None:
    row = RUN | values
    sql = f"INSERT INTO active_runs ({', '.join(row)}) VALUES ({', '.join(row.values())})"  # noqa: S608
    with pytest.raises((errors.CheckViolation, errors.InvalidTextRepresentation)):
        write(postgres_url, sql)


if __name__ == "__main__":
    server = Server()
    with server.database(template="template0") as fresh_url:
        open_and_close(fresh_url)
        GOLDEN.write_text(schema(fresh_url), "utf-8")
    server.close()

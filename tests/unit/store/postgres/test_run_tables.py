"""A run is in one of two tables, and its keys in others: nothing is lost or left between them."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from duebook.book import Book
from duebook.model.run import LogLine, Outcome, Token
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.connection import SCHEMA
from duebook.store.sql.dialects import RUN_COLUMNS
from tests.support.builders import (
    BEGIN,
    LEASE,
    MINUTE,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claimed_run,
    get_run,
    settle,
    tick,
)
from tests.support.retention import purge_all
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = ("active_runs", "ended_runs")
OF_A_RUN = ("due_keys", "run_keys", "run_logs", "run_attempts", "run_outputs", "flow_runs")
LARGE = "x" * 1_000_000


@pytest.fixture
def store(postgres_url: str, clock: VirtualClock) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_url, clock)
    yield store
    store.close()


def query(url: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, options=f"-c search_path={SCHEMA}") as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


def end(store: PostgresStore, token: Token, outcome: Outcome) -> None:
    assert store.transact(lambda tx: tx.attempts.settle(token, outcome))


def counts(url: str, *tables: str) -> list[int]:
    return [query(url, f"SELECT count(*) FROM {table}")[0][0] for table in tables]  # noqa: S608


def test_both_tables_and_the_view_have_the_columns_that_are_moved(postgres_url: str) -> None:
    columns = (
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
    )
    for table in (*TABLES, "runs"):
        found = tuple(name for (name,) in query(postgres_url, columns, SCHEMA, table))
        assert found == RUN_COLUMNS, table


def test_a_run_moves_when_it_ends_and_back_when_it_is_retried(
    postgres_url: str, store: PostgresStore, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    assert counts(postgres_url, *TABLES) == [1, 0]
    end(store, claimed.token, Outcome("failed", error="it broke"))
    assert counts(postgres_url, *TABLES) == [0, 1]
    Book(store).runs.retry(claimed.run.id)
    assert counts(postgres_url, *TABLES) == [1, 0]
    again = get_run(store, claimed.run.id)
    assert (again.status, again.attempt, again.error) == ("queued", 1, None)
    assert again.due_at == claimed.run.due_at


def test_every_column_survives_the_move(
    postgres_url: str, store: PostgresStore, clock: VirtualClock
) -> None:
    """But for those that an end changes."""
    claimed = claimed_run(store, clock)
    changes = {"status", "finished_at", "output", "started_at", "failures"}
    kept = ", ".join(name for name in RUN_COLUMNS if name not in changes)
    before = query(postgres_url, f"SELECT {kept} FROM active_runs")  # noqa: S608
    end(store, claimed.token, Outcome("succeeded", output="1"))
    assert query(postgres_url, f"SELECT {kept} FROM ended_runs") == before  # noqa: S608


def test_a_due_time_keeps_its_key_when_its_run_has_ended(
    postgres_url: str, store: PostgresStore, clock: VirtualClock
) -> None:
    """Whoever would plan it again is kept out by the key alone."""
    claimed = claimed_run(store, clock)
    settle(store, claimed.token)
    back = "UPDATE schedule_state SET watermark = watermark - interval '1 hour', wake_at = %s"
    query(postgres_url, back, clock.now)
    tick(store)
    due = "SELECT count(*), count(DISTINCT due_at) FROM runs WHERE due_at IS NOT NULL"
    ((runs, due_times),) = query(postgres_url, due)
    assert runs == due_times
    assert query(postgres_url, "SELECT id FROM runs WHERE due_at = %s", claimed.run.due_at) == [
        (claimed.run.id,)
    ]


def test_a_due_time_that_is_inserted_while_its_run_ends_has_one_run(
    postgres_url: str, store: PostgresStore, clock: VirtualClock
) -> None:
    """The row leaves one table and has not been seen in the other."""
    claimed = claimed_run(store, clock)
    insert = """
        WITH keys AS (
            INSERT INTO due_keys SELECT schedule_id, due_at, 'second' FROM runs WHERE id = %s
            ON CONFLICT DO NOTHING RETURNING run_id)
        SELECT count(*) FROM keys"""
    found: list[int] = []
    with psycopg.connect(postgres_url, options=f"-c search_path={SCHEMA}") as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert other.execute("SELECT count(*) FROM active_runs").fetchone() == (1,)
        settle(store, claimed.token)
        found += [row[0] for row in other.execute(insert, [claimed.run.id])]
    assert found == [0]


def test_two_batches_with_one_due_time_make_one_run(
    postgres_url: str, store: PostgresStore, clock: VirtualClock
) -> None:
    """The second waits for the first, and then has nothing to insert."""
    claimed = claimed_run(store, clock)
    settle(store, claimed.token)
    key = "INSERT INTO due_keys VALUES ('s', '2026-01-01', %s) ON CONFLICT DO NOTHING"
    done: list[int] = []

    def second() -> None:
        with psycopg.connect(postgres_url, options=f"-c search_path={SCHEMA}") as connection:
            done.append(connection.execute(key, ["b"]).rowcount)

    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    thread = threading.Thread(target=second)
    with psycopg.connect(postgres_url, options=f"-c search_path={SCHEMA}") as first:
        assert first.execute(key, ["a"]).rowcount == 1
        thread.start()
        eventually(lambda: query(postgres_url, waits))
    thread.join()
    assert done == [0]


def test_retention_leaves_nothing_of_a_run(
    postgres_url: str, store: PostgresStore, clock: VirtualClock
) -> None:
    book = Book(store)
    schedule_id = add_schedule(store, overlap="allow")
    clock.advance(MINUTE)
    assert tick(store) == 1
    kept = [add_run(store, schedule_id), book.enqueue("job", key="once").id]
    begin(store, lease=10 * LEASE)
    mine = store.transact(lambda tx: tx.claims.claim("node-1", "default", 9, ["job"]))
    line = LogLine(BEGIN, "stdout", "text")
    for claimed in mine:
        store.transact(lambda tx, token=claimed.token: tx.attempts.append_log(token, 1, [line]))  # type: ignore[misc]
        end(store, claimed.token, Outcome("succeeded", output=f'"{LARGE}"'))
    assert counts(postgres_url, *TABLES, *OF_A_RUN) == [0, 3, 1, 1, 3, 0, 3, 0]
    clock.advance(timedelta(days=1))
    assert store.transact(lambda tx: purge_all(tx, tx.now, 2)).number == 2
    assert counts(postgres_url, "ended_runs", "run_logs") == [1, 1]
    store.transact(lambda tx: purge_all(tx, tx.now, 100))
    assert counts(postgres_url, *TABLES, *OF_A_RUN) == [0] * 8
    assert book.enqueue("job", key="once").id not in kept

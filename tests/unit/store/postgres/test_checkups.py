"""What PostgreSQL's statistics tell doctor about tables, transactions and connections."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg

from duebook.book import Book
from duebook.book.doctor import database_checks
from duebook.book.doctor.database_checks import check_server
from duebook.model.checkup import ServerFacts
from tests.support.postgres_stores import query

if TYPE_CHECKING:
    import pytest

    from duebook.model.diagnosis import Checkup
    from duebook.store.postgres import PostgresStore

KEYS = "SELECT 'x', now() + n * interval '1 second', 'x' FROM generate_series(1, 21000) AS n"


def examine(store: PostgresStore) -> dict[str, Checkup]:
    return {checkup.check: checkup for checkup in Book(store).doctor.examine().checkups}


def change(url: str, sql: str) -> None:
    """Execute a statement, and wait until the statistics of the server count it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.encode())
        connection.execute("SELECT pg_stat_force_next_flush()")


def vacuum(store: PostgresStore) -> Checkup:
    """As if the server of the tests had autovacuum."""
    facts = store.read(lambda tx: tx.checkups.database())
    assert isinstance(facts, ServerFacts)
    return check_server(replace(facts, autovacuum=True))[1]


def test_a_server_without_autovacuum_is_a_problem(store: PostgresStore) -> None:
    found = examine(store)["vacuum"]
    assert (found.level, found.message) == ("problem", "autovacuum is off on the server")
    assert vacuum(store).level == "ok"


def test_tables_that_are_not_vacuumed_are_told(store: PostgresStore, url: str) -> None:
    query(url, "ALTER TABLE duebook.due_keys SET (autovacuum_enabled = false)")
    assert vacuum(store).message == "autovacuum is off for due_keys"
    query(url, "ALTER TABLE duebook.due_keys RESET (autovacuum_enabled)")
    change(url, f"INSERT INTO duebook.due_keys (schedule_id, due_at, run_id) {KEYS}")
    change(url, "DELETE FROM duebook.due_keys")
    found = vacuum(store)
    assert (found.level, found.subjects) == ("warning", ("due_keys",))


def test_a_transaction_that_stays_open_is_told(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_checks, "LONG", timedelta())
    with store.connect() as theirs:
        theirs.execute("SELECT 1")
        found = examine(store)["transactions"]
        assert found.level == "warning"
        assert "idle in transaction" in found.message
    assert examine(store)["connections"].level == "ok"


def test_a_table_of_which_most_is_empty_is_told(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a vacuum cleared away before the last rows stays with the table until it is rebuilt."""
    monkeypatch.setattr(database_checks, "BLOATED", database_checks.MIB)
    change(url, f"INSERT INTO duebook.due_keys (schedule_id, due_at, run_id) {KEYS}")
    change(
        url, "DELETE FROM duebook.due_keys WHERE ctid < (SELECT max(ctid) FROM duebook.due_keys)"
    )
    query(url, "VACUUM (ANALYZE) duebook.due_keys")
    found = vacuum(store)
    assert (found.subjects, found.message.endswith(", 1 row)")) == (("due_keys",), True)
    assert found.remedy.endswith("VACUUM FULL duebook.due_keys")
    query(url, "VACUUM (FULL, ANALYZE) duebook.due_keys")
    assert vacuum(store).level == "ok"


def test_many_connections_are_told(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = store.read(lambda tx: tx.checkups.database())
    assert isinstance(facts, ServerFacts)
    with store.connect(), store.connect(), store.connect():
        monkeypatch.setattr(database_checks, "MANY_CONNECTIONS", 3 / facts.most_connections)
        found = examine(store)["connections"]
        assert found.level == "warning"
        assert f" of {facts.most_connections} connections are in use" in found.message
        monkeypatch.setattr(database_checks, "TOO_MANY_CONNECTIONS", 3 / facts.most_connections)
        assert examine(store)["connections"].level == "problem"

"""Statements that a connection keeps, and what a failure or a pooler makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from psycopg import errors

from duebook.errors import NotFound
from duebook.store.postgres.connection import SCHEMA
from duebook.store.sql.statements import Ask
from tests.support.builders import VirtualClock, add_schedule, begin
from tests.support.postgres_stores import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.store.base import Tx
    from duebook.store.postgres import PostgresStore

ONE: Final = Ask("get_schedule_named", {"namespace": "default", "name": "job"})


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with opened(postgres_url, VirtualClock()) as made:
        yield made


def test_a_statement_is_prepared_once_on_a_connection(store: PostgresStore) -> None:
    add_schedule(store)
    for _ in range(3):
        store.read(lambda tx: tx.lists.show_schedule("default", "job"))
    connection = store._pool._idle[-1][0]
    assert connection.prepared
    rows = connection.execute(b"SELECT name, generic_plans FROM pg_prepared_statements").fetchall()
    assert {name for name, _ in rows} == connection.prepared
    assert dict(rows)["duebook_get_schedule_named"] == 3


def test_a_message_that_fails_while_it_prepares_leaves_the_connection_usable(
    store: PostgresStore,
) -> None:
    add_schedule(store)

    def fail(tx: Tx) -> None:
        db: Any = tx.db
        text = db._statement(db._grouping, ONE)
        db._grouping.together([text, text._replace(text="SELECT 1 / 0", prepared=None)])

    with pytest.raises(errors.DivisionByZero):
        store.transact(fail)
    connection = store._pool._idle[-1][0]
    assert connection.prepared is None, "nobody knows how far it came"
    found = store.read(lambda tx: tx.lists.show_schedule("default", "job"))
    assert found is not None
    assert found[0].name == "job"
    assert connection.prepared


def test_a_session_behind_a_pooler_keeps_no_statement(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler tells clients a process number that is not the server's."""
    monkeypatch.setattr("duebook.store.postgres.route.ABOUT", b"SELECT -1, 'off'")
    store._pool.drop_idle()
    add_schedule(store)
    begin(store)
    store.look_for_work(["default"], [])
    assert store.read(lambda tx: tx.lists.show_schedule("default", "job"))
    connection = store._pool._idle[-1][0]
    assert not connection.keeps_plans
    rows = connection.execute(b"SELECT count(*) FROM pg_prepared_statements").fetchall()
    assert rows == [(0,)]


def test_a_table_that_changes_is_planned_again(store: PostgresStore) -> None:
    add_schedule(store)
    store.read(lambda tx: tx.lists.show_schedule("default", "job"))
    connection = store._pool._idle[-1][0]
    connection.execute(f"ALTER TABLE {SCHEMA}.schedules ADD COLUMN more text".encode())
    assert store.read(lambda tx: tx.lists.show_schedule("default", "job"))
    with pytest.raises(NotFound):
        store.read(lambda tx: tx.schedules.find_schedule("default", "none"))

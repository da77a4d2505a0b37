"""Reads that begin, read and end in one message: with the settings, the snapshot and the care of
any other transaction."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import errors
from psycopg.pq import TransactionStatus

from duebook.book import Book
from duebook.errors import Invalid, Unavailable
from duebook.store.joined import JoinedStore
from duebook.store.postgres import PostgresStore, beginning, statements
from duebook.store.postgres import store as store_module
from duebook.store.postgres import transaction as transaction_module
from duebook.store.postgres.connection import SCHEMA, Connection
from duebook.store.postgres.transaction import ON_THE_WAY, Transaction
from duebook.store.sql.statements import Ask
from tests.support.builders import MINUTE, add_run, add_schedule, begin
from tests.support.postgres_stores import query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.store.base import Tx

SETTINGS = {
    "search_path": SCHEMA,
    "timezone": "UTC",
    "enable_seqscan": "off",
    "jit": "off",
    "idle_in_transaction_session_timeout": "5s",
    "statement_timeout": "10s",
    "transaction_isolation": "repeatable read",
    "transaction_read_only": "on",
}
SHOWN = "SELECT " + ", ".join(f"current_setting('{name}')" for name in SETTINGS)


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Gives a statement a name."""

    def make(name: str, sql: str) -> None:
        monkeypatch.setitem(statements.TEXTS, name, sql.encode())
        monkeypatch.setitem(statements._ARRAYS, name, {})

    return make


def together(tx: Tx, *names: str, last: bool = False) -> Any:
    return tx.db.together(*(Ask(name, {}) for name in names), last=last)


@contextmanager
def messages(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[None]]:
    """How often this thread waits for the database."""
    waited: list[None] = []
    wait, here = Connection.wait, threading.get_ident()

    def counted(self: Connection, *arguments: Any, **named: Any) -> Any:
        if threading.get_ident() == here:
            waited.append(None)
        return wait(self, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "wait", counted)
        yield waited


@pytest.mark.parametrize("awake", [0.0, 60.0])
@pytest.mark.parametrize("last", [False, True])
def test_statements_of_one_message_have_the_settings_of_a_transaction_and_leave_none(
    store: PostgresStore, add: Any, awake: float, last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "READ", beginning.READ)
    monkeypatch.setattr(transaction_module, "AWAKE", awake)
    add("shown", SHOWN)
    for _ in range(2):
        found = store.read(lambda tx: together(tx, "shown", "shown", last=last))
        assert found == [[tuple(SETTINGS.values())]] * 2
        connection = store._pool.take()
        assert connection.info.transaction_status == TransactionStatus.IDLE
        assert connection.execute("SHOW enable_seqscan").fetchone() == ("on",)
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
        store._pool.give(connection)


def test_a_schedule_is_one_message_and_a_page_two(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Book(store)
    for number in range(3):
        add_schedule(store, f"job-{number}")
    book.schedules.list()  # asks for the key of cursors, once
    with messages(monkeypatch) as waited:
        assert book.schedules.get("job-1").name == "job-1"
        assert len(waited) == 1
        waited.clear()
        assert len(book.schedules.list(limit=2)) == 2
        assert len(waited) == 2, "the ids, and what there is about them"


def test_creating_a_schedule_takes_four_messages(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Book(store)
    form: Any = {"trigger": {"cron": "0 9 * * *"}, "target": {"command": ["true"]}}
    book.schedules.create("first", **form)
    with messages(monkeypatch) as waited:
        book.schedules.create("second", **form)
    assert len(waited) == 4, "windows and quota; the schedule; its parts; the audit and the end"


def test_statements_before_and_in_a_message_have_one_snapshot(store: PostgresStore) -> None:
    schedule_id = add_schedule(store)

    def work(tx: Tx) -> tuple[str, Any]:
        status = tx.schedules.get_schedule(schedule_id).status
        Book(store).schedules.pause("job")
        return status, tx.lists.show_schedule("default", "job")

    status, found = store.read(work)
    assert (status, found[0].status) == ("active", "active")
    assert Book(store).schedules.get("job").status == "paused"


def test_nothing_is_read_after_the_last(store: PostgresStore, add: Any) -> None:
    add("shown", SHOWN)

    def work(tx: Tx, again: Any) -> None:
        together(tx, "shown", last=True)
        assert tx.now is not None
        with pytest.raises(RuntimeError, match="already made its last read"):
            again(tx)

    store.read(lambda tx: work(tx, lambda tx: together(tx, "shown")))
    store.read(lambda tx: work(tx, lambda tx: tx.schedules.find_schedule("default", "job")))


def test_the_last_reads_of_a_use_case_do_not_end_a_transaction_that_writes(
    store: PostgresStore, add: Any
) -> None:
    add("shown", "SELECT 7")

    def work(tx: Tx) -> str:
        assert together(tx, "shown", "shown", last=True) == [[(7,)], [(7,)]]
        return add_run(JoinedStore(tx), schedule_id)

    schedule_id = add_schedule(store)
    run_id = store.transact(work)
    assert Book(store).runs.get(run_id).status == "queued"


def test_a_read_that_reads_nothing_needs_no_connection(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._pool, "take", lambda **_: pytest.fail("it took one"))
    assert store.read(lambda _: 7) == 7


HOSTILE = ("a'; DROP TABLE runs; --", "%s", "%(0.name)s", "\\'", "a\\", "%", "$1", "é", "a;b", '"')


@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_in_a_message_is_a_value_whatever_it_says(store: PostgresStore, name: str) -> None:
    run = add_run(store, add_schedule(store))
    assert store.read(lambda tx: tx.lists.show_schedule("default", name)) is None
    assert store.read(lambda tx: tx.lists.show_schedule(name, "job")) is None
    book = Book(store)
    assert book.runs.get(run).id == run
    assert len(book.schedules.list(text=name)) == 0
    assert book.schedules.get("job").last_run is not None


def test_a_text_that_is_not_unicode_costs_no_connection(store: PostgresStore) -> None:
    add_schedule(store)
    connection = store._pool._idle[-1][0]
    with pytest.raises(Invalid, match="unpaired surrogates"):
        store.read(lambda tx: tx.lists.show_schedule("default", "\ud800"))
    assert store._pool._idle[-1][0] is connection
    assert not connection.closed


def test_a_message_to_a_connection_that_broke_while_idle_is_sent_again(
    store: PostgresStore, postgres_url: str
) -> None:
    add_schedule(store)
    query(
        postgres_url,
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'duebook'",
    )
    assert Book(store).schedules.get("job").name == "job"


def test_a_message_that_takes_too_long_is_not_sent_again(
    store: PostgresStore, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    add("dawdle", "SELECT pg_sleep(60)")
    mode = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
    quick = beginning.beginning(mode, statement_timeout="50ms")
    monkeypatch.setattr(store_module, "READ", quick)
    add_schedule(store)  # leaves an idle connection
    sent: list[Transaction] = []
    execute = Transaction._execute

    def counted(self: Transaction, *arguments: Any) -> Any:
        sent.append(self)
        return execute(self, *arguments)

    monkeypatch.setattr(Transaction, "_execute", counted)
    with pytest.raises(Unavailable) as caught:
        store.read(lambda tx: together(tx, "dawdle"))
    assert isinstance(caught.value.__cause__, errors.QueryCanceled)
    assert len(sent) == 1


def test_a_connection_that_was_idle_for_long_is_asked_before_it_gets_a_message(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_schedule(store)
    monkeypatch.setattr(transaction_module, "AWAKE", 0.0)
    with messages(monkeypatch) as waited:
        Book(store).schedules.get("job")
        assert len(waited) == 2


def test_the_patience_with_a_message_is_that_with_each_of_its_statements(
    store: PostgresStore, add: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    add("shown", SHOWN)
    monkeypatch.setattr(store_module, "READ", beginning.READ)
    seen: list[float | None] = []
    execute = Connection.execute

    def noted(self: Any, *arguments: Any, **named: Any) -> Any:
        seen.append(self.patience)
        return execute(self, *arguments, **named)

    monkeypatch.setattr(Connection, "execute", noted)
    store.read(lambda tx: (together(tx, "shown"), together(tx, "shown", "shown", "shown")))
    alone = beginning.READ.longest + ON_THE_WAY
    assert seen[:2] == [alone, 3 * alone]


def test_a_message_goes_by_the_clock_of_the_database(store: PostgresStore) -> None:
    begin(store, lease=MINUTE, tasks=["work"])
    found = store.read(lambda tx: tx.lists.show_schedule("default", "job"))
    assert found is None
    add_schedule(store, target="work")
    found = store.read(lambda tx: tx.lists.show_schedule("default", "job"))
    assert found is not None
    assert found[1].tasks_of("default") == {"work"}
    query_now = "SELECT count(*) FROM node_sessions WHERE expires_at > now()"
    assert store.read(lambda tx: tx.db.connection.execute(query_now).fetchone()) == (1,)  # type: ignore[attr-defined]

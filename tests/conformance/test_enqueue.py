"""Runs without a schedule, also inside transactions of callers; and settling inside those."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import contextmanager
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import AsyncMock

import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader
from sqlalchemy.orm import Session

from duebook import Retry
from duebook.balance import check_books
from duebook.book import Book
from duebook.engine.books_clock import BooksClock
from duebook.engine.reports import Desk, TaskReports
from duebook.errors import Conflict, Invalid, NotFound
from duebook.ids import new_id
from duebook.model.event import new_draft
from duebook.model.run import Outcome
from duebook.store.values import News
from duebook.targets.context import TaskStop
from duebook.targets.task import Tasks
from tests.support.backends import SqliteBackend
from tests.support.builders import SECOND, VirtualClock, begin, get_run, lose, settle
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.model.run import Claim
    from duebook.store.base import Store
    from tests.support.backends import Backend


def claim(store: Store, limit: int = 10) -> list[Claim]:
    return store.transact(lambda tx: tx.claims.claim("node-1", "default", limit, ["digest"]))


def digest(audience: str = "all") -> None: ...


@pytest.fixture
def program(store: Store) -> Book:
    """A book of a program that knows the task `digest`."""
    tasks = Tasks()
    tasks.add(digest, policies={"timeout": "5m", "retry": 3, "priority": 7, "overlap": "allow"})
    return Book(store, tasks=tasks)


# ------------------------------------------------------------ enqueueing


def test_an_enqueued_run_is_claimed_and_settled(book: Book, clock: VirtualClock) -> None:
    run = book.enqueue("digest", {"audience": "staff"})
    assert (run.origin, run.status, run.task, run.schedule_id) == (
        "enqueue", "queued", "digest", None,
    )  # fmt: skip
    assert run.payload == {"audience": "staff"}
    assert (run.created_at, run.ready_at) == (clock.now, clock.now)
    begin(book.store)
    (claimed,) = claim(book.store)
    assert claimed.run.id == run.id
    assert str(claimed.spec.target) == "task digest"
    assert settle(book.store, claimed.token, output="1")
    assert book.runs.get(run.id).output == 1
    assert [f for f in check_books(book.store, True).findings if f.problem] == []


def test_its_policies_go_with_it(book: Book, clock: VirtualClock) -> None:
    run = book.enqueue(
        "digest",
        delay="10s",
        queue="mail",
        priority=5,
        retry=Retry(attempts=2, delay="1s", on=["timeout"]),
        timeout="1m",
        expire_after="1h",
    )
    assert (run.queue, run.priority) == ("mail", 5)
    assert run.ready_at == clock.now + timedelta(seconds=10)
    assert run.expires_at == clock.now + timedelta(seconds=3_610)
    begin(book.store)
    wanted = ("node-1", "mail", 10, ["digest"])
    assert book.store.transact(lambda tx: tx.claims.claim(*wanted)) == []
    clock.advance(timedelta(seconds=10))
    (claimed,) = book.store.transact(lambda tx: tx.claims.claim(*wanted))
    assert claimed.spec.retry == Retry(attempts=2, delay="1s", on=["timeout"])
    assert claimed.spec.timeout == timedelta(minutes=1)


def test_policies_of_the_declaration_hold_unless_others_are_given(program: Book) -> None:
    program.enqueue(digest)
    program.enqueue("digest", priority=9, timeout="1m")
    begin(program.store)
    second, first = claim(program.store)
    assert (first.run.priority, first.spec.timeout) == (7, timedelta(minutes=5))
    assert first.spec.retry == Retry(attempts=3)
    assert (second.run.priority, second.spec.timeout) == (9, timedelta(minutes=1))


def test_what_a_task_does_not_take_is_refused(program: Book) -> None:
    with pytest.raises(Invalid, match='payload has "wrong"'):
        program.enqueue("digest", {"wrong": 1})
    with pytest.raises(Invalid, match="not a JSON object"):
        program.enqueue("unknown", ["staff"])  # type: ignore[arg-type]
    with pytest.raises(Invalid, match='"overlap" is not an option of enqueue; use one of delay'):
        program.enqueue("digest", overlap="skip")  # type: ignore[call-arg]
    with pytest.raises(Invalid, match="key"):
        program.enqueue("digest", key="")
    with pytest.raises(NotFound, match="is not declared as a task"):
        program.enqueue(claim)
    assert program.runs.list() == []


def test_of_runs_with_the_same_key_one_is_made(book: Book) -> None:
    first = book.enqueue("digest", {"audience": "staff"}, key="order-17")
    again = book.enqueue("digest", {"audience": "others"}, key="order-17")
    other = Book(book.store, "elsewhere").enqueue("digest", key="order-17")
    assert again == first
    assert other.id != first.id
    assert [run.id for run in book.runs.list()] == [first.id]


def test_a_key_asked_for_at_once_by_many_is_given_once(backend: Backend, book: Book) -> None:
    found: list[str] = []

    def enqueue() -> None:
        found.append(Book(backend.open()).enqueue("digest", key="order-17").id)

    threads = [threading.Thread(target=enqueue) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(found) == 4
    assert len(set(found)) == 1
    assert len(book.runs.list()) == 1


def test_an_enqueued_run_lives_as_others_do(book: Book, clock: VirtualClock) -> None:
    """It is retried automatically, taken over, cancelled and retried manually."""
    run = book.enqueue("digest", retry={"attempts": 2, "delay": "1s", "jitter": False})
    begin(book.store)
    (claimed,) = claim(book.store)
    book.store.transact(lambda tx: tx.attempts.settle(claimed.token, Outcome("failed"), SECOND))
    clock.advance(SECOND)
    (claimed,) = claim(book.store)
    assert claimed.run.attempt == 2
    assert lose(book.store, "node-1") == 1
    assert book.runs.cancel(run.id) == "cancelled"
    assert book.runs.retry(run.id).status == "queued"
    assert [f for f in check_books(book.store, True).findings if f.problem] == []


# ------------------------------------------------------------ inside a caller's transaction


class Caller:
    """A program with its own table in Duebook's database."""

    def __init__(self, backend: Backend, how: str) -> None:
        self.backend = backend
        self.how = how
        self.is_file = isinstance(backend, SqliteBackend)
        self._place = backend.path if isinstance(backend, SqliteBackend) else backend.url  # type: ignore[attr-defined]
        with self.transaction() as execute:
            execute("CREATE TABLE orders (id integer)")

    @contextmanager
    def transaction(self, commit: bool = True) -> Iterator[Any]:
        """Executes statements; its `.connection` is passed to Duebook."""
        with getattr(self, f"_{self.how}")(commit) as execute:
            yield execute

    @contextmanager
    def _driver(self, commit: bool) -> Iterator[Any]:
        connection: Any
        if self.is_file:
            connection = sqlite3.connect(self._place)
            connection.row_factory = sqlite3.Row
        else:
            connection = psycopg.connect(str(self._place), row_factory=dict_row)
            connection.adapters.register_loader("timestamptz", TextLoader)
        try:
            yield Execute(connection, connection.execute)
            connection.commit() if commit else connection.rollback()
        finally:
            connection.close()

    @contextmanager
    def _engine(self) -> Iterator[sqlalchemy.Engine]:
        url = str(self._place).replace("postgresql://", "postgresql+psycopg://", 1)
        engine = sqlalchemy.create_engine(f"sqlite:///{url}" if self.is_file else url)
        try:
            yield engine
        finally:
            engine.dispose()

    @contextmanager
    def _sqlalchemy(self, commit: bool) -> Iterator[Any]:
        with self._engine() as engine, engine.connect() as connection:
            yield Execute(connection, lambda sql: connection.execute(sqlalchemy.text(sql)))
            connection.commit() if commit else connection.rollback()

    @contextmanager
    def _session(self, commit: bool) -> Iterator[Any]:
        with self._engine() as engine, Session(engine) as session:
            yield Execute(session, lambda sql: session.execute(sqlalchemy.text(sql)))
            session.commit() if commit else session.rollback()

    def orders(self) -> int:
        table = "orders" if self.is_file else "public.orders"
        return int(self.backend.rows(f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608


class Execute:
    def __init__(self, connection: Any, execute: Any) -> None:
        self.connection = connection
        self._execute = execute

    def __call__(self, sql: str) -> Any:
        return self._execute(sql)


@pytest.fixture(params=["driver", "sqlalchemy", "session"])
def caller(request: pytest.FixtureRequest, backend: Backend, book: Book) -> Caller:
    book.schedules.list()  # Duebook's tables are created before the caller's
    return Caller(backend, request.param)


def test_a_run_exists_when_the_caller_s_transaction_commits(book: Book, caller: Caller) -> None:
    with caller.transaction() as execute:
        execute("INSERT INTO orders VALUES (1)")
        run = book.enqueue("digest", {"audience": "staff"}, connection=execute.connection)
        execute("INSERT INTO orders VALUES (2)")
        assert (run.status, run.payload) == ("queued", {"audience": "staff"})
        assert run.created_at.tzinfo is UTC
        assert book.runs.list() == [], "nobody else sees it yet"
    assert caller.orders() == 2
    assert [found.id for found in book.runs.list()] == [run.id]
    begin(book.store)
    assert [claimed.run.id for claimed in claim(book.store)] == [run.id]


def test_a_run_does_not_exist_when_the_caller_s_transaction_rolls_back(
    book: Book, caller: Caller
) -> None:
    with caller.transaction(commit=False) as execute:
        execute("INSERT INTO orders VALUES (1)")
        book.enqueue("digest", key="order-17", connection=execute.connection)
    assert caller.orders() == 0
    assert book.runs.list() == []
    assert book.enqueue("digest", key="order-17").status == "queued"


def test_a_key_that_is_taken_finds_its_run_in_the_caller_s_transaction_too(
    book: Book, caller: Caller
) -> None:
    first = book.enqueue("digest", key="order-17")
    with caller.transaction() as execute:
        execute("INSERT INTO orders VALUES (1)")
        again = book.enqueue("digest", key="order-17", connection=execute.connection)
    assert again.id == first.id
    assert caller.orders() == 1


def test_workers_hear_of_it_after_the_commit(book: Book, caller: Caller) -> None:
    book.store.news(0)
    with caller.transaction() as execute:
        execute("INSERT INTO orders VALUES (1)")
        book.enqueue("digest", connection=execute.connection)
    news = News(0)
    for _ in range(50):
        news |= book.store.news(0.1)
        if News.WORK in news:
            break
    assert News.WORK in news


def test_a_connection_that_cannot_be_joined_is_refused(
    book: Book, backend: Backend, tmp_path: Any
) -> None:
    if isinstance(backend, SqliteBackend):
        elsewhere: Any = sqlite3.connect(tmp_path / "other.db")
        alone: Any = sqlite3.connect(backend.path, isolation_level=None)
    else:
        url = backend.url  # type: ignore[attr-defined]
        elsewhere = psycopg.connect(make_conninfo(url, dbname="postgres"))
        alone = psycopg.connect(url, autocommit=True)
    for connection, told in (
        (elsewhere, "its database is|has no Duebook schema"),
        (alone, "it is not in a transaction"),
        (object(), "builtins.object is not one of"),
        (AsyncMock(spec_set=["run_sync"]), r"it is async; pass a sync connection, .*run_sync\("),
    ):
        with pytest.raises(Invalid, match=told):
            book.enqueue("digest", connection=connection)
    elsewhere.close()
    alone.close()
    assert book.runs.list() == []


def test_books_may_be_opened_first_while_the_caller_s_transaction_writes(
    backend: Backend, caller: Caller
) -> None:
    with caller.transaction() as execute:
        execute("INSERT INTO orders VALUES (1)")
        late = Book(backend.open())
        run = late.enqueue("digest", connection=execute.connection)
    assert [found.id for found in late.runs.list()] == [run.id]


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_sqlalchemy_must_lead_to_the_database_of_the_books(book: Book) -> None:
    with (
        sqlalchemy.create_engine("sqlite://").connect() as connection,
        pytest.raises(Invalid, match="it is a sqlite connection, but Duebook uses postgresql"),
    ):
        book.enqueue("digest", connection=connection)


# ------------------------------------------------------------ settling in the task's transaction


def reports(store: Store, claimed: Claim) -> TaskReports:
    return TaskReports(claimed, TaskStop(), Desk(store, 1_000, BooksClock()))


def under_way(book: Book) -> Claim:
    book.enqueue("digest")
    begin(book.store)
    (claimed,) = claim(book.store)
    return claimed


def test_a_success_is_part_of_the_task_s_own_transaction(book: Book, caller: Caller) -> None:
    claimed = under_way(book)
    told = reports(book.store, claimed)
    with caller.transaction() as execute:
        execute("INSERT INTO orders VALUES (1)")
        told.published.append(new_draft(new_id(), "default", "orders", None, "k", 1))
        told.settle_in(execute.connection, Outcome("succeeded", output='"done"'))
        assert get_run(book.store, claimed.run.id).status == "running"
        assert book.events.list() == []
    run = get_run(book.store, claimed.run.id)
    assert (run.status, run.output, caller.orders()) == ("succeeded", "done", 1)
    assert told.settled() == Outcome("succeeded")
    book.store.transact(lambda tx: tx.events.stamp_events(10))
    assert [event.aggregate for event in book.events.list()] == [f"run:{claimed.run.id}"]
    assert settle(book.store, claimed.token, output="null"), "the engine's own settle is harmless"
    assert get_run(book.store, claimed.run.id).output == "done"


def test_a_lost_token_rolls_the_task_s_transaction_back(book: Book, caller: Caller) -> None:
    claimed = under_way(book)
    lose(book.store, "node-1")

    def work() -> None:
        with caller.transaction() as execute:
            execute("INSERT INTO orders VALUES (1)")
            reports(book.store, claimed).settle_in(execute.connection, Outcome("succeeded"))

    with pytest.raises(Conflict, match="now belongs to another node"):
        work()
    assert caller.orders() == 0
    assert get_run(book.store, claimed.run.id).status == "queued"


def test_a_transaction_that_rolls_back_settles_nothing(book: Book, caller: Caller) -> None:
    claimed = under_way(book)
    told = reports(book.store, claimed)
    with caller.transaction(commit=False) as execute:
        execute("INSERT INTO orders VALUES (1)")
        told.settle_in(execute.connection, Outcome("succeeded"))
    assert get_run(book.store, claimed.run.id).status == "running"
    assert told.settles
    outcome = told.settled()
    assert (outcome.status, outcome.reason) == ("failed", "uncommitted")
    assert settle(book.store, claimed.token, "failed")


def test_the_runs_that_were_enqueued_for_a_task_are_listed_page_by_page(book: Book) -> None:
    runs = [book.enqueue("digest").id for _ in range(3)]
    book.enqueue("other")
    book.schedules.create("news", trigger={"every": "1h"}, target="digest")
    book.schedules.trigger("news")
    page = book.runs.list(task="digest", limit=2)
    assert [run.id for run in page] == [runs[2], runs[1]]
    (oldest,) = book.runs.list(task="digest", limit=2, cursor=page.next_cursor)
    assert oldest.id == runs[0]
    book.runs.cancel(runs[1])
    assert [run.id for run in book.runs.list(task="digest", status="cancelled")] == [runs[1]]
    assert book.runs.list(task="nobody") == []
    with pytest.raises(Invalid, match="task cannot be combined with schedule"):
        book.runs.list("news", task="digest")
    with pytest.raises(Invalid, match="task"):
        book.runs.list(task="")

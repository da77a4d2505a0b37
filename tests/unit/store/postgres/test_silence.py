"""A network that swallows everything: nobody waits longer than is said, and then goes on."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from duebook.errors import Unavailable
from duebook.store.postgres import PostgresStore, beginning, hints
from duebook.store.postgres import store as store_module
from duebook.store.postgres.connection import BRIEF, Connection
from duebook.store.postgres.route import Route
from duebook.store.postgres.transaction import ON_THE_WAY, Answer, Transaction
from duebook.store.values import News
from tests.support.builders import MINUTE, add_schedule, begin
from tests.support.postgres import PASSWORD, USER, Server
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from duebook.store.base import Tx
    from duebook.store.postgres.prepared import Statement

SHORT = 0.5
"""Seconds: deadlines in a silence, which nobody keeps. They are longer while somebody answers, for
on a busy machine that takes its time."""


@pytest.fixture
def proxy(postgres_server: Server) -> Iterator[Proxy]:
    with Proxy(postgres_server.port) as opened:
        yield opened


@pytest.fixture
def url(postgres_url: str, proxy: Proxy) -> str:
    """The database of the test, through the proxy."""
    database = postgres_url.partition("@/")[2].partition("?")[0]
    words = f"application_name={quote('through a proxy')}"
    return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{proxy.port}/{database}?{words}"


@contextmanager
def silence(store: PostgresStore, proxy: Proxy) -> Iterator[None]:
    """Within, the network swallows everything, and nobody waits long for new connections, for idle
    ones, and for that of the listener."""
    hosts = {
        address: make_conninfo(words, connect_timeout=2)
        for address, words in store._pool._route._hosts.items()
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store._pool._route, "_hosts", hosts)
        patched.setattr(Connection, "patience", SHORT)
        for idle, _ in store._pool._idle:
            shorten(idle, BRIEF)
        proxy.mode = "blackhole"
        yield
    proxy.mode = "pass"


def shorten(connection: Connection, patience: float) -> None:
    """It was as patient as it should be."""
    assert connection.patience == patience
    connection.patience = SHORT


def longest() -> float:
    """Seconds that a statement of a transaction may take, and its answer be on the way."""
    return float(vars(store_module)["WRITE"].longest + ON_THE_WAY)


def complaint(work: object) -> str:
    assert callable(work)
    began = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        work()
    assert time.monotonic() - began < PATIENCE, "without a deadline it would last for ever"
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


@pytest.mark.lengthy
def test_a_transaction_in_a_silent_network_is_given_up_and_the_next_one_works(
    store: PostgresStore, proxy: Proxy
) -> None:
    add_schedule(store)
    with silence(store, proxy):
        told = complaint(lambda: store.transact(lambda tx: tx.now))
        assert "connection timeout expired" in told, "the idle one was given up, a new one tried"
        complaint(lambda: store.read(lambda tx: tx.now))
    assert store.read(lambda tx: tx.schedules.find_schedule("default", "job"))


def test_silence_in_the_middle_of_a_transaction_ends_it(store: PostgresStore, proxy: Proxy) -> None:
    def work(tx: Tx) -> object:
        connection = tx.db.connection  # type: ignore[attr-defined]
        proxy.mode = "blackhole"
        shorten(connection, longest())
        return tx.plans.earliest_wake()

    assert "no response within" in complaint(lambda: store.transact(work))


def test_a_commit_that_nobody_answers_is_unknown(
    store: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = store._commit

    def commit_in_silence(transaction: Transaction, last: Sequence[Statement]) -> list[Answer]:
        proxy.mode = "blackhole"
        shorten(transaction.connection, longest())
        return commit(transaction, last)

    monkeypatch.setattr(store, "_commit", commit_in_silence)
    assert "it is unknown whether" in complaint(lambda: begin(store))


@pytest.mark.lengthy
def test_when_one_connection_is_silent_the_other_idle_ones_are_not_waited_for(
    store: PostgresStore, proxy: Proxy
) -> None:
    together = threading.Barrier(6)

    def at_once() -> None:
        store.read(lambda tx: (tx.now, together.wait(PATIENCE)))

    threads = [threading.Thread(target=at_once) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store._pool._idle) == 6
    with silence(store, proxy):
        complaint(lambda: store.read(lambda tx: tx.now))
        assert store._pool._idle == []


@pytest.mark.lengthy
def test_a_pulse_in_a_silent_network_is_given_up_well_before_its_lease_ends(
    store: PostgresStore, proxy: Proxy
) -> None:
    begin(store, lease=MINUTE)
    store.pulse("node-1", MINUTE, ())
    with silence(store, proxy):
        complaint(lambda: store.pulse("node-1", timedelta(seconds=6), ()))
    assert store.pulse("node-1", MINUTE, ()).alive


@pytest.mark.lengthy
def test_a_connection_that_a_firewall_forgot_is_replaced_without_a_word(
    store: PostgresStore, proxy: Proxy
) -> None:
    lease = timedelta(seconds=30)
    begin(store, lease=lease)
    store.pulse("node-1", lease, ())
    proxy.forget()
    assert store.pulse("node-1", lease, ()).alive
    proxy.forget()
    for idle, _ in store._pool._idle:
        shorten(idle, BRIEF)
    assert add_schedule(store)


def test_a_pulse_does_not_wait_while_all_connections_are_in_use(postgres_url: str) -> None:
    """Else it would be told so in the end."""
    store = PostgresStore(postgres_url, connections=2)
    lease = timedelta(seconds=30)
    begin(store, lease=lease)
    held, over = threading.Barrier(3), threading.Event()

    def hold(_tx: Tx) -> None:
        held.wait(PATIENCE)
        over.wait(PATIENCE)

    threads = [threading.Thread(target=store.read, args=(hold,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        held.wait(PATIENCE)
        assert store.pulse("node-1", lease, ()).alive
    finally:
        over.set()
        for thread in threads:
            thread.join()
        store.close()


def test_connections_that_nobody_uses_are_closed_by_and_by(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(postgres_url)
    begin(store)
    store.pulse("node-1", timedelta(seconds=30), ())
    assert len(store._pool._idle) == 1
    monkeypatch.setattr(store_module, "IDLE", 0.0)
    store.pulse("node-1", timedelta(seconds=30), ())
    assert store._pool._idle == []
    store.close()


def test_a_listener_that_hears_nothing_any_more_notices(
    store: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "QUIET", 0.2)
    monkeypatch.setattr(hints, "LOOK_UP", 0.1)
    eventually(lambda: store.news(0.1) == ~News(0))
    with silence(store, proxy):
        assert eventually(lambda: store.news(0.1)) == News.LOOK, "nobody tells it anything"
    eventually(lambda: store.news(0.1) == ~News(0))


def test_connections_that_are_reset_come_back(store: PostgresStore, proxy: Proxy) -> None:
    add_schedule(store)
    proxy.mode = "reset"
    complaint(lambda: store.read(lambda tx: tx.now))
    proxy.mode = "pass"
    assert store.read(lambda tx: tx.schedules.find_schedule("default", "job"))


def test_a_slow_answer_within_the_patience_is_an_answer(store: PostgresStore) -> None:
    with store._transaction(beginning.WRITE) as transaction:
        opened = transaction.connection
        opened.patience = PATIENCE
        assert opened.execute("SELECT 1 FROM pg_sleep(0.3)").fetchall() == [(1,)]
        opened.patience = 0.1
        with pytest.raises(errors.ConnectionTimeout, match="no response"):
            opened.execute("SELECT pg_sleep(30)")
        assert opened.closed


def test_a_process_that_stood_still_looks_for_its_answer_before_it_gives_up() -> None:
    def answer() -> Generator[int, int, str]:
        while not (yield 1):
            pass
        return "it is there"

    closed: list[bool] = []
    late: Any = SimpleNamespace(patience=-1.0, close=lambda: closed.append(True))
    waiting = Connection._limited(late, answer())
    assert next(waiting) == waiting.send(0) == 1
    with pytest.raises(StopIteration, match="it is there"):
        waiting.send(1)
    waiting = Connection._limited(late, answer())
    assert next(waiting) == waiting.send(0) == 1
    with pytest.raises(errors.ConnectionTimeout):
        waiting.send(0)
    assert closed == [True]


def test_a_host_that_did_not_answer_is_tried_last_once_another_was_right(
    postgres_server: Server,
) -> None:
    with Proxy(postgres_server.port, "reset") as broken:
        hosts = f"127.0.0.1:{broken.port},127.0.0.1:{postgres_server.port}"
        route = Route(f"postgresql://{USER}:{PASSWORD}@{hosts}/postgres?sslmode=disable")
        for _ in range(3):
            route.connect().close()
        assert broken.accepted == 1

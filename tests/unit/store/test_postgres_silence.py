"""A network that swallows everything: nobody waits longer than is said, and then goes on."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from psycopg import errors

from duebook.errors import Unavailable
from duebook.store.postgres import PostgresStore, beginning, connection, hints, pool
from duebook.store.postgres import store as store_module
from duebook.store.postgres.route import Route
from duebook.store.values import News
from tests.conformance.builders import add_schedule, begin
from tests.postgres import PASSWORD, USER, Server
from tests.proxy import Proxy
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.store.base import Tx

BOUND = 6.0
"""Seconds, generous for a busy machine: without a deadline everything here lasts for ever."""


@pytest.fixture
def proxy(postgres_server: Server) -> Iterator[Proxy]:
    with Proxy(postgres_server.port) as opened:
        yield opened


@pytest.fixture
def url(postgres_url: str, proxy: Proxy) -> str:
    """The database of the test, through the proxy; connecting is given up early."""
    database = postgres_url.partition("@/")[2].partition("?")[0]
    words = f"connect_timeout=2&application_name={quote('through a proxy')}"
    return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{proxy.port}/{database}?{words}"


@pytest.fixture
def store(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    """Its deadlines are a second, not many."""
    monkeypatch.setattr(pool, "BRIEF", 0.5)
    monkeypatch.setattr(connection.Connection, "patience", 0.5)
    monkeypatch.setattr(store_module, "ON_THE_WAY", 0.0)
    for name in ("READ", "WRITE"):
        quick = getattr(beginning, name)._replace(longest=1.0)
        monkeypatch.setattr(store_module, name, quick)
    opened = PostgresStore(url)
    yield opened
    opened.close()


def complaint(work: object) -> str:
    assert callable(work)
    began = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        work()
    assert time.monotonic() - began < BOUND
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def test_a_transaction_in_a_silent_network_is_given_up_and_the_next_one_works(
    store: PostgresStore, proxy: Proxy
) -> None:
    add_schedule(store)
    proxy.mode = "blackhole"
    told = complaint(lambda: store.transact(lambda tx: tx.now))
    assert "connection timeout expired" in told, "the idle one was given up, and a new one tried"
    complaint(lambda: store.read(lambda tx: tx.now))
    proxy.mode = "pass"
    assert store.read(lambda tx: tx.find_schedule("default", "job"))


def test_silence_in_the_middle_of_a_transaction_ends_it(store: PostgresStore, proxy: Proxy) -> None:
    def work(tx: Tx) -> object:
        proxy.mode = "blackhole"
        return tx.earliest_wake()

    assert "no answer within" in complaint(lambda: store.transact(work))


def test_a_commit_that_nobody_answers_is_unknown(store: PostgresStore, proxy: Proxy) -> None:
    def hook(name: str) -> None:
        if name == "before:COMMIT":
            proxy.mode = "blackhole"

    store._hook = hook
    assert "nobody knows" in complaint(lambda: begin(store))


def test_when_one_connection_is_silent_the_other_idle_ones_are_not_waited_for(
    store: PostgresStore, proxy: Proxy
) -> None:
    together = threading.Barrier(6)

    def at_once() -> None:
        store.read(lambda _: together.wait(10))

    threads = [threading.Thread(target=at_once) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store._pool._idle) == 6
    proxy.mode = "blackhole"
    complaint(lambda: store.read(lambda tx: tx.now))
    assert store._pool._idle == []


def test_a_pulse_in_a_silent_network_is_given_up_well_before_its_lease_ends(
    store: PostgresStore, proxy: Proxy
) -> None:
    lease = timedelta(seconds=6)
    begin(store, lease=lease)
    store.pulse("node-1", lease, ())
    proxy.mode = "blackhole"
    complaint(lambda: store.pulse("node-1", lease, ()))
    proxy.mode = "pass"
    assert store.pulse("node-1", lease, ()).alive


def test_a_connection_that_a_firewall_forgot_is_replaced_without_a_word(
    store: PostgresStore, proxy: Proxy
) -> None:
    lease = timedelta(seconds=6)
    begin(store, lease=lease)
    store.pulse("node-1", lease, ())
    proxy.forget()
    assert store.pulse("node-1", lease, ()).alive
    proxy.forget()
    assert add_schedule(store)


def test_a_pulse_does_not_wait_while_all_connections_are_in_use(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, connections=2)
    lease = timedelta(seconds=30)
    begin(store, lease=lease)
    held, over = threading.Barrier(3), threading.Event()

    def hold(_tx: Tx) -> None:
        held.wait(10)
        over.wait(10)

    threads = [threading.Thread(target=store.read, args=(hold,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        held.wait(10)
        began = time.monotonic()
        assert store.pulse("node-1", lease, ()).alive
        assert time.monotonic() - began < store_module.WAIT
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
    assert store.news(0) == ~News(0)
    proxy.mode = "blackhole"
    assert eventually(lambda: store.news(0.1)) == News.LOOK, "nobody tells it anything"
    proxy.mode = "pass"
    eventually(lambda: store.news(0.1) == ~News(0))


def test_connections_that_are_reset_come_back(store: PostgresStore, proxy: Proxy) -> None:
    add_schedule(store)
    proxy.mode = "reset"
    complaint(lambda: store.read(lambda tx: tx.now))
    proxy.mode = "pass"
    assert store.read(lambda tx: tx.find_schedule("default", "job"))


def test_a_slow_answer_within_the_patience_is_an_answer(store: PostgresStore) -> None:
    with store._transaction(beginning.WRITE) as (opened, _):
        opened.patience = BOUND
        assert opened.execute("SELECT 1 FROM pg_sleep(0.3)").fetchall() == [(1,)]
        opened.patience = 0.1
        with pytest.raises(errors.ConnectionTimeout, match="no answer"):
            opened.execute("SELECT pg_sleep(30)")
        assert opened.closed


def test_a_host_that_does_not_answer_is_tried_last_once_another_was_right(
    postgres_server: Server,
) -> None:
    with Proxy(postgres_server.port, "blackhole") as silent:
        hosts = f"127.0.0.1:{silent.port},127.0.0.1:{postgres_server.port}"
        route = Route(f"postgresql://{USER}:{PASSWORD}@{hosts}/postgres?connect_timeout=2")
        for _ in range(3):
            route.connect().close()
        assert silent.accepted == 1

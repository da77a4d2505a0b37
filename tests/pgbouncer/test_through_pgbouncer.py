"""Books and nodes behind PgBouncer in transaction mode: no session is relied on, and hints need a
way of their own."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from duebook.errors import Unavailable
from duebook.store.postgres import PostgresStore, hints
from duebook.store.values import News
from tests.support.bouncer import SERVER_CONNECTIONS, Bouncer
from tests.support.builders import add_schedule, begin
from tests.support.node_checks import add_seconds, check_books, said
from tests.support.nodes import QUICK, open_world
from tests.support.postgres import PASSWORD, Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.pgbouncer

DEAF = "notifications do not pass through a pooler"
LONG = 30.0
"""Seconds of a lease so long that its renewals alone would find work late."""


@contextmanager
def opened(url: str, **options: Any) -> Iterator[PostgresStore]:
    store = PostgresStore(url, **options)
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def through(bouncer: Bouncer, postgres_url: str) -> str:
    return bouncer.through(postgres_url)


@pytest.fixture
def own_bouncer() -> Iterator[tuple[Bouncer, Server]]:
    """One that a test may stop or lead elsewhere."""
    server = Server(durable=True)
    bouncer = Bouncer(server)
    yield bouncer, server
    bouncer.close()
    server.close()


def test_nothing_of_a_session_stays_on_the_servers_connections(through: str) -> None:
    with opened(through) as store:
        add_schedule(store)
        begin(store)
        for _ in range(2 * SERVER_CONNECTIONS):
            store.pulse("node-1", timedelta(seconds=LONG), ())
            store.read(lambda tx: tx.plans.earliest_wake())
        store.news(0)
    left = b"""
        SELECT (SELECT count(*) FROM pg_prepared_statements),
            (SELECT count(*) FROM pg_listening_channels()),
            (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'),
            current_setting('search_path'), current_setting('plan_cache_mode'),
            current_setting('statement_timeout'), pg_backend_pid()
    """
    clients = [psycopg.connect(through, prepare_threshold=None) for _ in range(SERVER_CONNECTIONS)]
    rows = [client.execute(left).fetchall()[0] for client in clients]  # each holds a transaction
    for client in clients:
        client.close()
    assert len({row[-1] for row in rows}) == SERVER_CONNECTIONS
    assert {row[:-1] for row in rows} == {(0, 0, 0, '"$user", public', "auto", "0")}


def test_a_store_that_cannot_listen_says_once_why_and_that_one_has_to_look(
    through: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "LOOK_UP", 0.01)
    monkeypatch.setattr(hints, "DEAF_FOR", 0.05)
    with opened(through) as store:
        for _ in range(20):
            assert eventually(lambda: store.news(0.1)) == News.LOOK
    (record,) = caplog.records
    assert DEAF in record.message
    assert "set listen_url (DUEBOOK_LISTEN_URL)" in record.message
    assert PASSWORD not in record.message


def test_with_a_way_of_their_own_hints_arrive(
    through: str, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(through, listen_url=postgres_url) as store, opened(through) as other:
        assert store.news(0) == ~News(0), "it has just begun to listen"
        add_schedule(other)
        assert eventually(lambda: store.news(0.1)) == News.WAKE
    assert caplog.records == []


def test_a_listen_url_to_another_database_is_found_out(
    through: str, postgres_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(through, listen_url=postgres_server.url("postgres")) as store:
        store.news(0)
        assert eventually(lambda: store.news(0.1)) == News.LOOK
    (record,) = caplog.records
    assert "listen_url is the database 'postgres'" in record.message
    assert "not the database in use" in record.message


def test_a_parameter_that_pgbouncer_refuses_is_named(through: str) -> None:
    with pytest.raises(Unavailable, match=r"unsupported startup parameter.*leave it out"):
        PostgresStore(f"{through}?options=-c%20jit%3Doff")


@pytest.mark.parametrize("listening", [False, True])
def test_a_node_finds_work_soon_whether_it_hears_of_it_or_looks(
    tmp_path: Path, through: str, postgres_url: str, listening: bool
) -> None:
    options = {"listen_url": postgres_url} if listening else {}
    with open_world(tmp_path, through) as world:
        world.add("job", QUICK)
        node = world.node(lease=LONG, **options)
        assert bool(
            eventually(lambda: said(node, DEAF)) if not listening else said(node, DEAF)
        ) == (not listening)
        for _ in range(3):
            run = world.trigger("job")
            began = time.monotonic()
            world.wait_for(run, "succeeded")
            assert time.monotonic() - began < LONG / 6
        assert len(said(node, DEAF)) == (not listening)


def test_several_nodes_behind_pgbouncer_keep_the_books_balanced(
    tmp_path: Path, own_bouncer: tuple[Bouncer, Server]
) -> None:
    """Also when PgBouncer loses all its connections to the server, and when that restarts."""
    bouncer, server = own_bouncer
    with open_world(tmp_path, bouncer.url("postgres")) as world:
        names = ["s0", "s1", "s2"]
        for name in names:
            add_seconds(world, name)
        nodes = [world.node(), world.node()]
        world.wait_for_more("s0", 3)
        bouncer.command("RECONNECT")
        world.wait_for_more("s1", 2)
        server.stop()
        server.start()
        world.wait_for_more("s2", 5)
        check_books(world, names)
        assert all(node.process.poll() is None for node in nodes)


def test_a_pooler_that_leads_to_a_standby_is_noticed_on_open_connections(
    own_bouncer: tuple[Bouncer, Server],
) -> None:
    """The connection to PgBouncer stays, and what is behind it becomes another server."""
    bouncer, primary = own_bouncer
    standby = Server(durable=True, primary=primary)
    try:
        with opened(bouncer.url("postgres")) as store:
            add_schedule(store, "before")
            begin(store)
            store.pulse("node-1", timedelta(seconds=LONG), ())
            bouncer.lead_to(standby)
            bouncer.command("RELOAD")
            bouncer.command("RECONNECT")
            for work in (
                lambda: store.read(lambda tx: tx.now),
                lambda: add_schedule(store, "meanwhile"),
                lambda: store.pulse("node-1", timedelta(seconds=LONG), ()),
            ):
                eventually(lambda work=work: "read-only" in complaint(work))  # type: ignore[misc]
            standby.promote()
            eventually(lambda: complaint(lambda: add_schedule(store, "after")) == "")
    finally:
        standby.close()


def complaint(work: object) -> str:
    assert callable(work)
    try:
        work()
    except Unavailable as error:
        return str(error)
    return ""


def test_more_callers_than_pgbouncer_has_connections_take_turns(through: str) -> None:
    with opened(through, connections=3 * SERVER_CONNECTIONS) as store:
        done: list[Any] = []

        def work() -> None:
            done.extend(store.read(lambda tx: tx.plans.earliest_wake()) for _ in range(5))

        threads = [threading.Thread(target=work) for _ in range(3 * SERVER_CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(done) == 5 * len(threads)

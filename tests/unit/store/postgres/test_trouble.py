"""What is said when a database is in trouble: one line, what is wrong, what helps, no password."""

from __future__ import annotations

import signal
from itertools import count
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors

from duebook.errors import Unavailable
from duebook.store.opening import open_store
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.trouble import trouble
from tests.support.builders import add_schedule
from tests.support.postgres import PASSWORD, USER, Server
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PLACE = "database 'books' at db:5432"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    opened = Server()
    opened.execute("CREATE ROLE guest LOGIN PASSWORD 'a-secret' CONNECTION LIMIT 0")
    opened.execute("CREATE ROLE reader LOGIN PASSWORD 'a-secret'")
    yield opened
    opened.close()


def complaint(url: str) -> str:
    with pytest.raises(Unavailable) as caught:
        open_store(url).close()
    text = str(caught.value)
    assert "\n" not in text
    assert PASSWORD not in text
    assert "database" in text
    return text


def refusal(act: Callable[[], object]) -> str:
    """What is said of it, or nothing while the server has not noticed that it should refuse."""
    try:
        act()
    except Unavailable as error:
        return str(error)
    return ""


def tcp(
    server: Server, user: str = USER, password: str = PASSWORD, database: str = "postgres"
) -> str:
    return f"postgresql://{user}:{password}@127.0.0.1:{server.port}/{database}"


def test_a_server_that_is_down() -> None:
    told = complaint(f"postgresql://{USER}:{PASSWORD}@127.0.0.1:1/books")
    assert told == (
        "cannot reach the database 'books' at 127.0.0.1:1: Connection refused; "
        "check that the server is running and that this is its address"
    )


def test_a_host_that_is_not_known() -> None:
    told = complaint(f"postgresql://{USER}:{PASSWORD}@no-such-host.invalid/books")
    assert "correct the host in the database URL" in told


def test_a_wrong_password(server: Server) -> None:
    told = complaint(tcp(server, password="a-mistake"))  # noqa: S106
    assert 'password authentication failed for user "somebody"' in told
    assert "correct the user or the password" in told
    assert "a-mistake" not in told


def test_no_such_database(server: Server) -> None:
    told = complaint(tcp(server, database="nowhere"))
    assert 'database "nowhere" does not exist; create it with createdb' in told


def test_too_many_connections(server: Server) -> None:
    told = complaint(tcp(server, user="guest"))
    assert 'too many connections for role "guest"; raise max_connections' in told


def test_no_permission_to_make_the_books_and_none_to_use_them(server: Server) -> None:
    told = complaint(tcp(server, user="reader"))
    assert told.startswith("not allowed in the database 'postgres'")
    assert "grant it to the role, as docs/postgresql.md shows" in told
    open_store(server.url("postgres")).close()
    assert "permission denied for schema duebook; grant it" in complaint(tcp(server, user="reader"))


def test_a_server_that_is_shutting_down() -> None:
    server = Server()
    try:
        with psycopg.connect(server.url("postgres")):  # for which it waits
            assert server._process is not None
            server._process.send_signal(signal.SIGTERM)
            told = eventually(lambda: refusal(lambda: open_store(tcp(server)).close()))
        assert told.endswith(
            "the database system is shutting down; it responds when it has finished"
        )
    finally:
        server.close()


def test_a_server_that_was_made_read_only_under_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connections are dropped, as others may lead to a primary."""
    server = Server()
    store = PostgresStore(tcp(server))
    monkeypatch.setattr(store._herald, "ring", lambda _: None)  # it has a connection now and then
    try:
        add_schedule(store, "before")
        with psycopg.connect(server.url("postgres"), autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            admin.execute("SELECT pg_reload_conf()")
            names = (f"after-{number}" for number in count())
            told = eventually(lambda: refusal(lambda: add_schedule(store, next(names))))
            assert "read-only" in told
            assert "a standby must be promoted, or the database URL must also name" in told
            assert store._pool._idle == []
            admin.execute("SET default_transaction_read_only = off")
            admin.execute("ALTER SYSTEM RESET ALL")
            admin.execute("SELECT pg_reload_conf()")
    finally:
        store.close()
        server.close()


@pytest.mark.parametrize(
    ("text", "helps"),
    [
        ("FATAL:  the database system is starting up", "it responds when it has finished"),
        ("FATAL:  the database system is in recovery mode", "it responds when it has finished"),
        ("FATAL:  sorry, too many clients already", "raise max_connections"),
        ("FATAL:  remaining connection slots are reserved for roles", "raise max_connections"),
        ("ERROR:  no more connections allowed (max_client_conn)", "raise max_connections"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1"', "pg_hba.conf must let"),
        ("ERROR:  no such database: nowhere", "createdb"),
        ("FATAL:  unsupported startup parameter: options", "remove it from the database URL"),
        ("server is in hot standby mode", "must be promoted"),
        ("timeout expired", "check that the server is running"),
    ],
)
def test_what_helps_is_known_from_the_text_when_there_is_no_code(text: str, helps: str) -> None:
    said = f'connection failed: connection to server at "db", port 5432 failed: {text}\n\tA hint.'
    told = trouble(PLACE, psycopg.OperationalError(said))
    bare = text.partition(":  ")[2] or text
    assert told.startswith(f"cannot reach the {PLACE}: {bare}; ")
    assert helps in told


def test_each_of_several_hosts_is_named_with_its_trouble(server: Server) -> None:
    standby = Server(primary=server)
    try:
        hosts = f"127.0.0.1:1,127.0.0.1:{standby.port}"
        assert complaint(f"postgresql://{USER}:{PASSWORD}@{hosts}/postgres") == (
            "cannot reach the database 'postgres': at 127.0.0.1:1 Connection refused, "
            f"at 127.0.0.1:{standby.port} the server is read-only; "
            "a standby must be promoted, or the database URL must also name the primary"
        )
        hosts = f"127.0.0.1:{standby.port},127.0.0.1:{server.port}"
        open_store(f"postgresql://{USER}:{PASSWORD}@{hosts}/postgres").close()
    finally:
        standby.close()


def test_of_several_addresses_of_a_host_the_last_counts() -> None:
    said = (
        'connection failed: connection to server at "b", port 2 failed: session is read-only\n'
        "Multiple connection attempts failed. All failures were:\n- host: 'a', port: '1'"
    )
    told = trouble("database 'books' at a:1", psycopg.OperationalError(said))
    assert told.startswith("cannot reach the database 'books' at a:1: session is read-only; ")


def test_a_trouble_without_words_is_named() -> None:
    assert trouble(PLACE, errors.AdminShutdown()) == f"cannot reach the {PLACE}: AdminShutdown"

"""The roles and grants that docs/postgresql.md shows are enough, and no more is needed."""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

from duebook.balance import check_books
from duebook.errors import Unavailable
from duebook.store.postgres import PostgresStore
from tests.support.builders import add_run, add_schedule, begin, claim, settle, tick
from tests.support.postgres import Server
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = Path(__file__).parents[4] / "docs" / "postgresql.md"
FIRST, SECOND = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    opened = Server()
    for statement in FIRST.split(";")[:-1]:
        opened.execute(statement)
    yield opened
    opened.close()


def url_of(server: Server, role: str, database: str = "duebook") -> str:
    password = re.findall(rf"ROLE {role} LOGIN PASSWORD '(.*?)'", PAGE.read_text("utf-8"))[0]
    return f"postgresql://{role}:{password}@127.0.0.1:{server.port}/{database}"


@contextmanager
def opened(server: Server, role: str, database: str = "duebook") -> Iterator[PostgresStore]:
    with opened_by(url_of(server, role, database)) as store:
        yield store


@pytest.fixture(scope="module")
def granted(server: Server) -> str:
    """The URL of a node that has what the page grants, in a database of its own."""
    server.execute("CREATE DATABASE granted OWNER duebook")
    with opened(server, "duebook", "granted"):
        pass
    create, *grants = SECOND.split(";")[:-1]
    with psycopg.connect(server.url("granted"), autocommit=True) as admin:
        if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = 'duebook_node'").fetchone():
            admin.execute(create.encode())
        for statement in grants:
            admin.execute(statement.encode())
    return url_of(server, "duebook_node", "granted")


@contextmanager
def opened_by(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    try:
        yield store
    finally:
        store.close()


def do_everything(store: PostgresStore) -> None:
    schedule = add_schedule(store, trigger={"cron": "0 0 29 2 *"})
    begin(store)
    add_run(store, schedule)
    assert tick(store) == 0
    (claimed,) = claim(store)
    assert settle(store, claimed.token)
    lease = timedelta(seconds=30)
    assert store.pulse("node-1", lease, ("default",)).alive
    store.transact(lambda tx: purge_all(tx, tx.now, 10))
    assert check_books(store, deep=True).balanced
    assert store.news(0)


def test_the_owner_of_a_database_needs_nothing_else(server: Server) -> None:
    with opened(server, "duebook") as store:
        do_everything(store)


def test_a_node_needs_not_own_the_tables(server: Server) -> None:
    with opened(server, "duebook"):
        pass
    with psycopg.connect(server.url("duebook"), autocommit=True) as admin:
        admin.execute(
            "TRUNCATE duebook.schedules, duebook.namespace_use, duebook.node_sessions CASCADE"
        )
        known = admin.execute("SELECT 1 FROM pg_roles WHERE rolname = 'duebook_node'").fetchone()
        for statement in SECOND.split(";")[1 if known else 0 : -1]:
            admin.execute(statement.encode())
    with opened(server, "duebook_node") as store:
        do_everything(store)


def test_in_a_database_of_others_the_right_to_create_is_enough(server: Server) -> None:
    server.execute("CREATE DATABASE app")
    with pytest.raises(Unavailable, match="permission denied"), opened(server, "duebook", "app"):
        pass
    server.execute("GRANT CREATE ON DATABASE app TO duebook")
    with opened(server, "duebook", "app") as store:
        do_everything(store)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE duebook.audit SET by = 'nobody'",
        "DELETE FROM duebook.audit",
        "DELETE FROM duebook.audit WHERE at < '2000-01-01'",
        "TRUNCATE duebook.audit",
        "DROP TABLE duebook.audit",
        "ALTER TABLE duebook.audit DISABLE TRIGGER ALL",
        "DROP TRIGGER audit_stays ON duebook.audit",
        "CREATE OR REPLACE FUNCTION duebook.keep_audit() RETURNS trigger LANGUAGE sql AS 'SELECT'",
        "SELECT setval('duebook.audit_id_seq', 1)",
        "SET session_replication_role = replica",
        "SET ROLE duebook",
        "MERGE INTO duebook.audit AS a USING (SELECT 1) AS x ON true WHEN MATCHED THEN DELETE",
    ],
)
def test_no_node_changes_or_deletes_the_audit(granted: str, statement: str) -> None:
    with (
        psycopg.connect(granted) as connection,
        pytest.raises(psycopg.Error, match=r"permission denied|must be owner"),
    ):
        connection.execute(statement.encode())


def test_a_node_forgets_of_the_audit_only_what_is_older_than_90_days(granted: str) -> None:
    add = (
        "INSERT INTO duebook.audit (at, by, namespace, action, kind, subject, subject_id) "
        "VALUES (now() - %s::interval, 'test', 'old', 'create', 'schedule', 's', '')"
    )
    left = "SELECT count(*) FROM duebook.audit WHERE namespace = 'old'"
    with psycopg.connect(granted) as connection:
        for age in ("1 second", "89 days", "91 days", "92 days"):
            connection.execute(add, [age])
        forget = "SELECT duebook.forget_audit(%s, 100)"
        assert connection.execute(forget, ["infinity"]).fetchone() == (2,)
        assert connection.execute(left).fetchone() == (2,)
    with opened_by(granted) as store:
        store.transact(lambda tx: purge_all(tx, tx.now, 10_000))
    with psycopg.connect(granted) as connection:
        assert connection.execute(left).fetchone() == (2,)


def test_not_even_the_owner_changes_the_audit_by_mistake(server: Server) -> None:
    with opened(server, "duebook") as store:
        add_schedule(store, name="audited")
    url = url_of(server, "duebook")
    for statement in (b"UPDATE duebook.audit SET by = 'nobody'", b"TRUNCATE duebook.audit"):
        with (
            psycopg.connect(url) as connection,
            pytest.raises(psycopg.Error, match="the audit cannot be changed"),
        ):
            connection.execute(statement)

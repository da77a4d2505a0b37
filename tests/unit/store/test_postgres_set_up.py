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
from tests.conformance.builders import add_run, add_schedule, begin, claim, settle, tick
from tests.postgres import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = Path(__file__).parents[3] / "docs" / "postgresql.md"
FIRST, SECOND = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    opened = Server()
    for statement in FIRST.split(";")[:-1]:
        opened.execute(statement)
    yield opened
    opened.close()


@contextmanager
def opened(server: Server, role: str, database: str = "duebook") -> Iterator[PostgresStore]:
    password = re.findall(rf"ROLE {role} LOGIN PASSWORD '(.*?)'", PAGE.read_text("utf-8"))[0]
    url = f"postgresql://{role}:{password}@127.0.0.1:{server.port}/{database}"
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
    store.transact(lambda tx: tx.purge(tx.now, 10))
    assert check_books(store, deep=True).balanced
    assert store.news(0)


def test_the_owner_of_a_database_needs_nothing_else(server: Server) -> None:
    with opened(server, "duebook") as store:
        do_everything(store)


def test_a_node_needs_not_own_the_tables(server: Server) -> None:
    with opened(server, "duebook"):
        pass
    with psycopg.connect(server.url("duebook"), autocommit=True) as admin:
        admin.execute("TRUNCATE duebook.schedules, duebook.node_sessions CASCADE")
        for statement in SECOND.split(";")[:-1]:
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

"""What all tests share: a machine under load makes no test fail by its clock; a server to use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bouncer import Bouncer
    from tests.postgres import Server

settings.register_profile("duebook", deadline=None)
settings.load_profile("duebook")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server for this test process, with a migrated template."""
    from duebook.store.postgres import PostgresStore
    from tests.postgres import Server

    server = Server()
    server.make_template(lambda url: PostgresStore(url).close())
    yield server
    server.close()


@pytest.fixture(scope="session")
def bouncer(postgres_server: Server) -> Iterator[Bouncer]:
    """A PgBouncer in transaction mode before that server, which `make test-pgbouncer` installs."""
    from tests.bouncer import Bouncer

    opened = Bouncer(postgres_server)
    yield opened
    opened.close()


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """A database with empty books for one test."""
    with postgres_server.database() as url:
        yield url

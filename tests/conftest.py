"""What all tests share: a machine under load makes no test fail by its clock; a server to use."""

from __future__ import annotations

import gc
import logging
import shutil
import tempfile
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from duebook.book import Book
from duebook.store.sqlite import SqliteStore, connection
from tests.support import new_files
from tests.support.builders import VirtualClock
from tests.support.examples import some_of
from tests.support.postgres import MEMORY, patient
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from duebook.store.base import Store
    from tests.support.bouncer import Bouncer
    from tests.support.postgres import Server
    from tests.support.reused import ReusedDatabase

settings.register_profile(
    "duebook",
    deadline=None,
    max_examples=some_of(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("duebook")

ROOM = 4_000_000_000
"""Bytes that the files of all tests may take, with some to spare."""
WAITING = {"browser", "celery_workers", "chaos", "examples", "integration"}
"""Folders of tests with processes of their own."""
_folder = pytest.StashKey[str]()


def pytest_runtest_teardown() -> None:
    """Commands that ran in this process leave no level of logging to the next test."""
    logging.getLogger("duebook").setLevel(logging.NOTSET)


def pytest_configure(config: pytest.Config) -> None:
    """Files of tests are in memory where there is room: thousands of books are flushed again and
    again, and a disk is what the tests would wait for."""
    is_worker = hasattr(config, "workerinput")
    if is_worker or config.option.basetemp is not None or not MEMORY.is_dir():
        return
    if shutil.disk_usage(MEMORY).free > ROOM:
        config.option.basetemp = tempfile.mkdtemp(prefix="duebook-tests-", dir=MEMORY)
        config.stash[_folder] = config.option.basetemp


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins early: whoever has it at the end keeps all others waiting. Files whose
    tests mostly wait are spread evenly among those that keep a core busy."""
    places: dict[Path, float] = {}
    for waits in (True, False):
        files = Counter(item.path for item in items if bool(WAITING & {*item.path.parts}) is waits)
        before = 0
        for path, number in files.items():
            places[path] = (before + number / 2) / files.total()
            before += number
    items.sort(key=lambda item: (item.get_closest_marker("lengthy") is None, places[item.path]))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that is collected is garbage yet: looking for it takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What was collected stays until the end: ten thousand tests are nothing to look at again
    whenever garbage is looked for."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    if (folder := config.stash.get(_folder, None)) is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def copied_files() -> Iterator[None]:
    """New SQLite files are copies; `migrated_files` is for tests of how they come to be."""
    with new_files.copied():
        yield


@pytest.fixture
def migrated_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_create_privately", new_files.MIGRATE)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server for this test process, with a migrated template."""
    from duebook.store.postgres import PostgresStore
    from tests.support.postgres import Server

    _allow_time()
    server = Server()
    server.make_template(lambda url: PostgresStore(url).close())
    yield server
    server.close()


@pytest.fixture(scope="session")
def bouncer(postgres_server: Server) -> Iterator[Bouncer]:
    """A PgBouncer in transaction mode before that server, which `make test-pgbouncer` installs."""
    from tests.support.bouncer import Bouncer

    opened = Bouncer(postgres_server)
    yield opened
    opened.close()


def _allow_time() -> None:
    """Whoever stands still in a transaction for five seconds holds up others, and so is cut off; in
    this process he has a minute, for on a busy machine anybody may stand still."""
    from duebook.store.postgres import beginning, store

    for name in ("READ", "WRITE"):
        message = patient(getattr(beginning, name).message)
        vars(store)[name] = beginning.Begin(message, PATIENCE)


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """A new database with empty books, which a test may change as it likes."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(scope="session")
def reused_database(postgres_server: Server) -> Iterator[ReusedDatabase]:
    from tests.support.reused import ReusedDatabase

    database = ReusedDatabase(postgres_server)
    yield database
    database.close()


@pytest.fixture
def emptied_url(reused_database: ReusedDatabase) -> Iterator[str]:
    """A database with empty books, which other tests had before: for tests that only use books."""
    with reused_database.books() as url:
        yield url


@pytest.fixture
def clock() -> VirtualClock:
    """The clock of stores that a test sets."""
    return VirtualClock()


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store on a file, on the machine's clock."""
    with closing(SqliteStore(tmp_path / "books.db")) as opened:
        yield opened


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    """A store on PostgreSQL, on the machine's clock; most rooms have others instead."""
    from duebook.store.postgres import PostgresStore

    with closing(PostgresStore(postgres_url)) as opened:
        yield opened


@pytest.fixture
def book(request: pytest.FixtureRequest, store: Store) -> Book:
    """The client on the store of the test, as whoever `book_as` names."""
    marker = request.node.get_closest_marker("book_as")
    return Book(store, **({"by": "a test"} | (marker.kwargs if marker else {})))

"""Fixtures of the contract tests: a store on each database, and the command line with its own
database, on a file and through a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

import pytest

import duebook.cli.terminal
from duebook.store.postgres import PostgresStore
from duebook.store.sqlite import SqliteStore
from tests.support.api import SharingClient
from tests.support.cli import Cli
from tests.support.postgres import be_patient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duebook.store.base import Store
    from tests.support.serving import Served


DATABASES: Final = ("sqlite", "postgres")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of an ANYWHERE module on a file and through a server, except those marked
    `on_file`.

    Pages and the API do not depend on the database, and tests/conformance shows that clients behave
    the same on both. So each of their tests runs on one, and on the other in `make test-long`;
    those that depend on the database, such as concurrent requests, are marked `both_databases`."""
    if "cli" in metafunc.fixturenames:
        on_file = metafunc.definition.get_closest_marker("on_file") is not None
        anywhere = getattr(metafunc.module, "ANYWHERE", False) and not on_file
        ways = ["file", "server"] if anywhere else ["file"]
        metafunc.parametrize("cli", ways, indirect=True)
    if "database" in metafunc.fixturenames and not _names_its_database(metafunc.definition):
        both = metafunc.definition.get_closest_marker("both_databases") is not None
        which = crc32(metafunc.function.__name__.encode()) % 2  # the same in every process
        other = DATABASES[1 - which]
        later = other if both else pytest.param(other, marks=pytest.mark.long)
        metafunc.parametrize("database", [DATABASES[which], later], indirect=True)


def _names_its_database(test: pytest.Item) -> bool:
    return any("database" in marker.args[0] for marker in test.iter_markers("parametrize"))


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lift the time limit of transactions, which no test here is about."""
    be_patient(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def event_loop_of_clients() -> Iterator[None]:
    with SharingClient.with_loop():
        yield


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from tests.support.serving import Served

    server = Served(tmp_path_factory.mktemp("served"))
    yield server
    server.close()


@pytest.fixture
def cli(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cli]:
    path = tmp_path / "books" / "duebook.db"
    if request.param == "file":
        SqliteStore(path).close()
        yield Cli(path)
        return
    server: Served = request.getfixturevalue("served")
    store = server.use(path)
    yield Cli(path, "--url", server.url, "--token", "admin")
    store.close()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A terminal without colours for commands to print to; a test may set its width."""

    def resize(columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))

    monkeypatch.setattr(duebook.cli.terminal, "at_terminal", lambda: True)
    resize(80)
    return resize


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """The database of the test's store."""
    name: str = request.param
    return name


@pytest.fixture
def store(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[Store]:
    opened: Store
    if database == "sqlite":
        opened = SqliteStore(tmp_path / "books.db")
    else:
        opened = PostgresStore(request.getfixturevalue("emptied_url"))
    yield opened
    opened.close()

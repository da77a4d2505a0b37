"""The stores that the conformance suite runs on; another database is one more Backend here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.backends import (
    BACKENDS,
    IN_MEMORY,
    Backend,
    MemoryBackend,
    PostgresBackend,
    SqliteBackend,
)
from tests.support.postgres import be_patient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook.store.base import Store
    from tests.support.bouncer import Bouncer
    from tests.support.builders import VirtualClock


ALSO_IN_MEMORY = {
    *("test_claims", "test_crash_points", "test_events", "test_explain", "test_flow_runs"),
    *("test_nodes", "test_numbered_cases", "test_pulse", "test_runs", "test_schedules"),
    *("test_sessions", "test_settle", "test_tick", "test_transactions", "test_waiting"),
}
"""Files that `make test` runs on a database in memory too; `make test-long` runs all of them."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        params = (
            item.callspec.params
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
            else {}
        )
        if _is_for_later(item, params.get("backend")):
            item.add_marker("long")


def _is_for_later(item: pytest.Item, backend: object) -> bool:
    if backend == "memory":
        return item.path.stem not in ALSO_IN_MEMORY
    return backend == "postgres" and item.get_closest_marker("mostly_on_a_file") is not None


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lift the time limit of transactions, which no test here is about."""
    be_patient(monkeypatch)


@pytest.fixture(params=[*BACKENDS, *IN_MEMORY])
def backend(
    request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock
) -> Iterator[Backend]:
    made: Backend
    if request.param == "sqlite":
        made = SqliteBackend(tmp_path / "book.db", clock)
    elif request.param == "memory":
        made = MemoryBackend(clock)
    elif request.param == "postgres":
        made = PostgresBackend(request.getfixturevalue("emptied_url"), clock)
    else:
        url: str = request.getfixturevalue("postgres_url")
        bouncer: Bouncer = request.getfixturevalue("bouncer")
        made = PostgresBackend(url, clock, bouncer.through(url))
    yield made
    made.close()


@pytest.fixture
def store(backend: Backend) -> Store:
    return backend.open()

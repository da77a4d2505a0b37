"""The stores that the conformance suite runs on; another database is one more Backend here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.backends import (
    BACKENDS,
    Backend,
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


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here is about how long a transaction may take."""
    be_patient(monkeypatch)


@pytest.fixture(params=BACKENDS)
def backend(
    request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock
) -> Iterator[Backend]:
    made: Backend
    if request.param == "sqlite":
        made = SqliteBackend(tmp_path / "book.db", clock)
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

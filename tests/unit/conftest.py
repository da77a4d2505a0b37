"""What unit tests begin with: a store on a file of its own, on the clock of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.builders import VirtualClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store of the test is."""
    return tmp_path / "book.db"


@pytest.fixture
def store(path: Path, clock: VirtualClock) -> Iterator[SqliteStore]:
    opened = SqliteStore(path, clock)
    yield opened
    opened.close()

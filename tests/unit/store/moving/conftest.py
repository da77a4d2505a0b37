"""A file with books, an empty PostgreSQL database, and a copy from the one to the other."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.store.moving import Copied, Progress, copy_books
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.arriving import Target
from duebook.store.sqlite import SqliteStore
from duebook.store.sqlite.moving import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from duebook.store.base import Store
    from tests.support.builders import VirtualClock


class Move:
    """The old books, the new place, and what a copy said."""

    def __init__(self, path: Path, url: str, clock: Callable[[], datetime]) -> None:
        self.path, self.url, self.clock = path, url, clock
        self.said: list[str] = []
        self.moment = 0.0
        self.while_waiting: Callable[[], object] = lambda: None
        self._stores: list[Store] = []

    def pause(self, seconds: float) -> None:
        self.moment += seconds
        self.while_waiting()

    def source(self) -> Source:
        return Source(self.path, self.clock)

    def target(self) -> Target:
        target = Target(self.url)
        vars(target)["now"] = self.clock
        return target

    def __call__(
        self, wait: timedelta = timedelta(seconds=2), with_tables: Sequence[str] = ()
    ) -> Copied:
        progress = Progress(self.said.append, self.pause, lambda: self.moment)
        with self.source() as source, self.target() as target:
            return copy_books(source, target, wait, progress, with_tables)

    def old(self) -> Store:
        """Raises when the old books are closed."""
        return self._kept(SqliteStore(self.path, self.clock))

    def new(self) -> Store:
        return self._kept(PostgresStore(self.url, self.clock))

    def _kept(self, store: Store) -> Store:
        self._stores.append(store)
        return store

    def close(self) -> None:
        for store in self._stores:
            store.close()


@pytest.fixture
def move(tmp_path: Path, postgres_url: str, clock: VirtualClock) -> Iterator[Move]:
    made = Move(tmp_path / "book.db", postgres_url, clock)
    yield made
    made.close()

"""SQLite in the memory of this process, as a store: its threads take turns on one connection.

It has no file, so no other process can see it, and it is gone when the process ends (ADR 56).
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from duebook.clock import utc_now
from duebook.errors import Invalid, Unavailable
from duebook.settings import MEMORY
from duebook.store.sqlite.connection import WAIT
from duebook.store.sqlite.store import LOOK_EVERY, SqliteStore
from duebook.store.sqlite.tx import SqliteTx
from duebook.store.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from duebook.store.base import Tx

__all__ = ["Memory", "MemoryStore"]

T = TypeVar("T")
_named: Final[dict[str, Memory]] = {}
_naming: Final = threading.Lock()


class Memory:
    """A database in memory, shared by the stores of this process that use it.

    Entering it gives exclusive use of the connection. It ends with the last store that closes.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.place = MEMORY + name
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA foreign_keys = ON")
        self._turn = threading.Lock()
        self._owner: int | None = None
        self._users = 0

    def __enter__(self) -> None:
        if self.is_mine:
            raise RuntimeError(f"a transaction on {self.place} started inside another one")
        if not self._turn.acquire(timeout=WAIT):
            raise Unavailable(f"{self.place} has been busy for more than {WAIT:.0f} s")
        self._owner = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._owner = None
        self._turn.release()

    @property
    def is_mine(self) -> bool:
        """Whether this thread has it now."""
        return self._owner == threading.get_ident()

    def use(self) -> Memory:
        self._users += 1
        return self

    def let_go(self) -> None:
        with _naming:
            self._users -= 1
            if self._users == 0:
                if _named.get(self.name) is self:
                    del _named[self.name]
                self.connection.close()


def _used(memory: Memory | str) -> Memory:
    """A given database, or the one of a name in this process; without a name, a new one."""
    with _naming:
        if isinstance(memory, Memory):
            return memory.use()
        if not memory:
            return Memory().use()
        return _named.setdefault(memory, _named.get(memory) or Memory(memory)).use()


class MemoryStore(SqliteStore):
    """Implements store.base.Store; several on one `memory`, or with one name, see the same."""

    def __init__(
        self,
        memory: Memory | str = "",
        clock: Callable[[], datetime] = utc_now,
        hook: Callable[[str], None] | None = None,
    ) -> None:
        self.memory = _used(memory)
        self._begin(self.memory.place, clock, hook)

    def another(self) -> MemoryStore:
        """A store on the same database, to wait for news independently."""
        self._refuse_closed()
        return MemoryStore(self.memory, self._clock.machine, self._hook)

    def _new_writer(self) -> Writer:
        memory = self.memory
        return Writer(memory.place, memory.connection, memory, memory.let_go, self._hook)

    def _identify(self) -> None:
        return None

    def _is_prepared(self) -> bool:
        with self.memory:
            return super()._is_prepared()

    def transact(self, work: Callable[[Tx], T]) -> T:
        self._refuse_closed()
        if self.memory.is_mine:
            raise RuntimeError(f"a transaction on {self._place} started inside another one")
        return super().transact(work)

    def read(self, work: Callable[[Tx], T], patient: bool = False) -> T:
        connection = self._reader()
        if self.memory.is_mine:  # inside a transaction, whose view this is
            return work(SqliteTx(self._statements(connection)))
        with self.memory:
            before = connection.total_changes
            try:
                return super().read(work, patient)
            finally:  # undone, as query_only would have every statement prepared again
                if connection.total_changes != before:
                    raise Unavailable(f"{self._place} cannot be written: this is a read")

    def _changed(self) -> bool:
        self._refuse_closed()
        seen, self._seen = self._seen, self.memory.connection.total_changes
        return self._seen != seen

    def wait_for_ends(self, seen: int, timeout: float) -> int:  # noqa: ARG002
        """By the changes of the one connection: data_version counts only those of others."""
        self._closing.wait(min(LOOK_EVERY, timeout))
        self._refuse_closed()
        return self.memory.connection.total_changes

    def _reader(self) -> sqlite3.Connection:
        self._refuse_closed()
        return self.memory.connection

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        yield self._reader()

    def _refuse_closed(self) -> None:
        if os.getpid() != self._pid:
            raise Unavailable(
                f"{self._place} is in the memory of the process that opened it, and a fork cannot "
                "use it; open a file or PostgreSQL to share a database among processes"
            )
        super()._refuse_closed()

    def join(self, connection: object) -> NoReturn:  # noqa: ARG002
        self._refuse_own_connections("connection=")

    def connect(self) -> NoReturn:
        self._refuse_own_connections("connect()")

    def _refuse_own_connections(self, what: str) -> NoReturn:
        raise Invalid(
            f"{what} does not work with {self._place}: the database is in memory, and no other "
            "connection can reach it; use a file or PostgreSQL for transactions of your own"
        )

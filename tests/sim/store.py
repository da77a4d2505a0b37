"""The SQLite store as simulated nodes use it: on one database in memory, without its own thread,
with a pause before and after each transaction, and a point at each statement and COMMIT."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from duebook.store.sqlite.memory import MemoryStore
from duebook.store.sqlite.writer import Writer
from tests.sim.turns import pause

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from datetime import datetime

    from duebook.store.base import Tx
    from duebook.store.sqlite.memory import Memory

T = TypeVar("T")


class TurnWriter(Writer):
    """Writes at once, in the turn of the calling actor."""

    def __init__(self, memory: Memory, hook: Callable[[str], None] | None) -> None:
        self._place, self._hook = memory.place, hook
        self._connection, self._lock, self._close = memory.connection, memory, memory.let_go
        self._closed = False

    def run(self, operation: Callable[[sqlite3.Connection], Any]) -> Any:
        future: Future[Any] = Future()
        self._write([(operation, future)])
        return future.result(0)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._close()


class TurnStore(MemoryStore):
    """`point` is called before and after every statement and COMMIT, and may raise; `committed` is
    called when something was written."""

    def __init__(
        self,
        memory: Memory,
        clock: Callable[[], datetime],
        point: Callable[[str], None],
        committed: Callable[[], None],
    ) -> None:
        self._committed = committed
        super().__init__(memory, clock, point)

    def _new_writer(self) -> Writer:
        return TurnWriter(self.memory, self._hook)

    def transact(self, work: Callable[[Tx], T]) -> T:
        pause()
        before = self.memory.connection.total_changes
        try:
            result = super().transact(work)
        finally:
            if self.memory.connection.total_changes != before:
                self._committed()
        pause()
        return result

    def read(self, work: Callable[[Tx], T], patient: bool = False) -> T:
        if self.memory.is_mine:
            return super().read(work, patient)
        pause()
        result = super().read(work, patient)
        pause()
        return result

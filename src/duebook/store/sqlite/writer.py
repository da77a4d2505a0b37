"""The only thread that writes: groups waiting operations into a transaction, a savepoint each.

A commit costs a flush of the disk, so operations that arrive meanwhile share the next one. Between
processes an flock on a side file keeps the order fair: SQLite's own busy handler starves some.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Unavailable
from duebook.store.base import refuse_fork
from duebook.store.sqlite.connection import WAIT, connect, translated

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

__all__ = ["FileLock", "Writer", "open_writer"]

MOST_IN_GROUP: Final = 100


class FileLock:
    """Keeps other processes from writing, by an flock on a side file."""

    def __init__(self, path: str) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"{path} cannot be opened: {error.strerror}") from error

    def __enter__(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)


class Writer:
    """Runs operations on its connection, each all or nothing, durable when its future is done.

    `lock` is held during each transaction; `close` is called once no more will follow.
    """

    def __init__(
        self,
        place: str,
        connection: sqlite3.Connection,
        lock: AbstractContextManager[None],
        close: Callable[[], None],
        hook: Callable[[str], None] | None,
    ) -> None:
        self._place = place
        self._hook = hook
        self._connection = connection
        self._lock = lock
        self._close = close
        self._waiting: deque[tuple[Callable[[sqlite3.Connection], Any], Future[Any]]] = deque()
        self._wakeup = threading.Condition()
        self._closed = False
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._loop, name="duebook-writer", daemon=True)
        self._thread.start()

    def run(self, operation: Callable[[sqlite3.Connection], Any]) -> Any:
        """The operation's result, once it is durable; raises its error, or Unavailable."""
        refuse_fork(self._pid)
        future: Future[Any] = Future()
        with self._wakeup:
            if self._closed:
                raise Unavailable(f"{self._place} is closed")
            self._waiting.append((operation, future))
            self._wakeup.notify()
        try:
            return future.result(WAIT)
        except TimeoutError:
            if future.cancel():  # it has not started, and now never will
                raise Unavailable(
                    f"{self._place} has been locked by another process for more than {WAIT:.0f} s"
                ) from None
            return future.result()

    def close(self) -> None:
        with self._wakeup:
            self._closed = True
            self._wakeup.notify()
        self._thread.join(WAIT)
        if not self._thread.is_alive():  # it may wait for a lock that is never released
            self._close()

    def _loop(self) -> None:
        while group := self._next_group():
            self._write(group)

    def _next_group(self) -> list[tuple[Callable[[sqlite3.Connection], Any], Future[Any]]]:
        with self._wakeup:
            while not self._waiting and not self._closed:
                self._wakeup.wait()
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_IN_GROUP))]

    def _write(self, group: list[tuple[Callable[[sqlite3.Connection], Any], Future[Any]]]) -> None:
        outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            with translated(self._place), self._lock:
                try:
                    self._connection.execute("BEGIN IMMEDIATE")
                    group = [one for one in group if one[1].set_running_or_notify_cancel()]
                    outcomes = [self._attempt(operation, future) for operation, future in group]
                    self._point("before:COMMIT")
                    self._connection.execute("COMMIT")
                    self._point("after:COMMIT")
                finally:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
        except BaseException as error:  # each caller gets it
            outcomes = [
                (future, None, error)
                for _, future in group
                if future.running() or future.set_running_or_notify_cancel()
            ]
        for future, result, failure in outcomes:
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    def _attempt(
        self, operation: Callable[[sqlite3.Connection], Any], future: Future[Any]
    ) -> tuple[Future[Any], Any, BaseException | None]:
        """One operation in a savepoint: if it fails, only its own changes are undone."""
        self._connection.execute("SAVEPOINT operation")
        try:
            result = operation(self._connection)
        except sqlite3.OperationalError:
            raise  # the file itself is in trouble, and so is the whole group
        except Exception as error:  # it belongs to this caller alone
            self._connection.execute("ROLLBACK TO operation")
            self._connection.execute("RELEASE operation")
            return future, None, error
        self._connection.execute("RELEASE operation")
        return future, result, None

    def _point(self, name: str) -> None:
        if self._hook is not None:
            self._hook(name)


def open_writer(path: Path, hook: Callable[[str], None] | None, durable: bool = True) -> Writer:
    """The writer of a file; raises like `connect`."""
    connection = connect(path, durable=durable)
    try:
        lock = FileLock(f"{path}-lock")
    except BaseException:
        connection.close()
        raise

    def close() -> None:
        connection.close()
        lock.close()

    return Writer(str(path), connection, lock, close, hook)

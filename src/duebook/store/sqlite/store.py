"""A SQLite file as a store: one writer thread, a reading connection per thread."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from duebook.clock import Ratchet, utc_now
from duebook.errors import Conflict, Invalid, Unavailable
from duebook.model.serving import ALL
from duebook.store.base import refuse_fork
from duebook.store.outside import outside
from duebook.store.sql.definitions import remember
from duebook.store.sql.rows import micros
from duebook.store.sqlite.connection import connect, translated
from duebook.store.sqlite.fence import refuse_moved
from duebook.store.sqlite.migrate import is_current, migrate
from duebook.store.sqlite.statements import SqliteStatements
from duebook.store.sqlite.tx import SqliteTx
from duebook.store.sqlite.writer import open_writer
from duebook.store.values import WHOLE_QUEUES, News

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    from duebook.model.serving import Serving
    from duebook.store.base import Tx
    from duebook.store.outside import Outside
    from duebook.store.sql.definitions import Definitions
    from duebook.store.sqlite.writer import Writer
    from duebook.store.values import Labels, Mark, Pulse, QueueParts, Work

__all__ = ["SqliteStore"]

T = TypeVar("T")
LOOK_EVERY: Final = 0.05
"""Seconds between two checks whether another process changed the file."""


class _OpenReader(NamedTuple):
    """The reading connection of a thread, and the lock that it holds while using it."""

    thread: threading.Thread
    connection: sqlite3.Connection
    use: AbstractContextManager[object]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class SqliteStore:
    """Implements store.base.Store.

    `clock` is the database's clock: SQLite has none of its own, so it is the machine's, kept from
    running backwards by the file. `hook` is called before and after every statement and COMMIT;
    tests crash there. Without `durable`, data survives a crash of this process, but not of the
    machine.
    """

    parallel = False  # one writer at a time
    tells_itself = False
    starts_runs = False
    sequences = False

    def __init__(
        self,
        path: Path,
        clock: Callable[[], datetime] = utc_now,
        hook: Callable[[str], None] | None = None,
        durable: bool = True,
    ) -> None:
        self._path, self._durable = path, durable
        self._begin(str(path), clock, hook)

    def _begin(
        self, place: str, clock: Callable[[], datetime], hook: Callable[[str], None] | None
    ) -> None:
        """Open the database and bring its schema up to date; `place` is its name in messages."""
        self._place = place
        self._clock = Ratchet(clock)
        self._hook = hook
        self._writer = self._new_writer()
        self._definitions: Definitions = {}
        self._nodes: dict[str, str] = {}
        """the names of nodes by their sessions"""
        self._cursor_key: bytes | None = None
        self._readers = threading.local()
        self._open: list[_OpenReader] = []
        self._opening = threading.Lock()
        self._identity = self._identify()
        self._watcher: sqlite3.Connection | None = None
        self._watching = threading.Lock()
        self._seen: int | None = None
        self._closed = False
        self._closing = threading.Event()
        self._pid = os.getpid()
        try:
            if not self._is_prepared():
                self._writer.run(lambda connection: self._prepare(connection, micros(clock())))
        except BaseException:
            self.close()
            raise

    def _new_writer(self) -> Writer:
        return open_writer(self._path, self._hook, self._durable)

    def _identify(self) -> tuple[int, int] | None:
        """Which file it is, whatever its name now stands for."""
        return _identity(self._path)

    def _is_prepared(self) -> bool:
        """If so, nothing is written: the caller may hold the file in its own transaction."""
        with self._reading() as connection, translated(self._place):
            if not is_current(connection):
                return False
            refuse_moved(connection, self._place)
            return True

    def _prepare(self, connection: sqlite3.Connection, now: int) -> None:
        migrate(connection, now)
        refuse_moved(connection, self._place)

    def transact(self, work: Callable[[Tx], T]) -> T:
        learned: Definitions = {}

        def operation(connection: sqlite3.Connection) -> T:
            refuse_moved(connection, self._place)
            db = self._statements(connection)
            tx = SqliteTx(db)
            result = work(tx)
            if db.used:
                tx.quotas.keep_use()
            db.keep_time()
            learned.update(db.learned)
            return result

        result: T = self._writer.run(operation)
        remember(self._definitions, learned)
        return result

    def read(self, work: Callable[[Tx], T], patient: bool = False) -> T:  # noqa: ARG002
        with self._reading() as connection, translated(self._place):
            connection.execute("BEGIN")
            try:
                refuse_moved(connection, self._place)
                return work(SqliteTx(self._statements(connection)))
            finally:
                connection.execute("ROLLBACK")

    def _statements(self, connection: sqlite3.Connection | Outside) -> SqliteStatements:
        known = self._definitions, self._nodes
        return SqliteStatements(connection, self._clock, self._hook, *known)

    def pulse(
        self,
        session_id: str,
        lease: timedelta,
        queues: Sequence[str],
        leads: bool = False,
        after: Mark | None = None,  # noqa: ARG002 - a look costs the same from anywhere
        namespaces: Serving = ALL,
    ) -> Pulse:
        return self.transact(
            lambda tx: tx.nodes.pulse(session_id, lease, queues, leads, namespaces)
        )

    @contextmanager
    def join(self, connection: object) -> Iterator[Tx]:
        """The caller's tables are in the same file; others notice its commit."""
        if self._closed:
            raise Unavailable(f"{self._place} is closed")
        theirs, driver = outside(connection, "sqlite", ("sqlite3",))
        files = [row[2] for row in theirs.execute("PRAGMA database_list").fetchall()]
        if not files or _identity(Path(files[0])) != _identity(self._path):
            raise Invalid(
                f"connection: its database is {files[0]!r}, but Duebook uses {self._path}"
            )
        if driver.isolation_level is None and not driver.in_transaction:
            raise Invalid(
                "connection: it is not in a transaction; begin one, or turn off autocommit"
            )
        db = self._statements(theirs)
        db.keep_time()  # from this write on the database cannot be moved
        refuse_moved(theirs, self._place)
        yield SqliteTx(db)

    def look_for_work(
        self,
        queues: Sequence[str],
        tasks: Sequence[str],
        labels: Labels = (),
        namespaces: Serving = ALL,
        parts: QueueParts = WHOLE_QUEUES,  # noqa: ARG002 - what was claimed is in no index here
    ) -> Work:
        return self.read(lambda tx: tx.claims.list_work(queues, tasks, labels, namespaces))

    def look_for_due(self, after: Mark | None = None) -> tuple[datetime | None, datetime]:
        return self.read(lambda tx: (tx.plans.earliest_wake(after), tx.now))

    def news(self, timeout: float) -> News:
        """By SQLite's data_version, which changes with every commit, without telling which news it
        was."""
        deadline = time.monotonic() + timeout
        while not (changed := self._changed()) and time.monotonic() < deadline:
            self._closing.wait(min(LOOK_EVERY, timeout))
        return ~News.LOOK if changed else News(0)

    def _changed(self) -> bool:
        if self._identity != _identity(self._path):
            raise Conflict(f"{self._path} was deleted or replaced while it was in use")
        self._refuse_closed()  # before the lock, which a fork may have left locked
        with self._watching, translated(self._place):
            version = int(self._watch().execute("PRAGMA data_version").fetchone()[0])
        seen, self._seen = self._seen, version
        if version == seen:
            return False
        with suppress(Unavailable), self._reading() as connection, translated(self._place):
            refuse_moved(connection, self._place)  # a copy may still be abandoned
        return True

    def _watch(self) -> sqlite3.Connection:
        """One for all threads, because the numbers of two connections are not comparable."""
        self._refuse_closed()
        if self._watcher is None:
            self._watcher = connect(self._path, readonly=True)
        return self._watcher

    def wait_for_log(self, seen: int, timeout: float) -> int:
        """A look at the end of the log costs next to nothing."""
        self._closing.wait(min(LOOK_EVERY, timeout))
        return seen + 1

    def wait_for_ends(self, seen: int, timeout: float) -> int:  # noqa: ARG002
        """By the data_version of the thread's own connection: any commit may have ended one."""
        self._closing.wait(min(LOOK_EVERY, timeout))
        with self._reading() as connection, translated(self._place):
            return int(connection.execute("PRAGMA data_version").fetchone()[0])

    def cursor_key(self) -> bytes:
        if self._cursor_key is None:
            self._cursor_key = self.read(lambda tx: tx.access.get_secret("cursors"))
        return self._cursor_key

    def connect(self) -> sqlite3.Connection:
        import sqlite3

        return sqlite3.connect(self._path)

    def close(self) -> None:
        """Harmless when it is closed already; afterwards everything raises Unavailable.

        Waits for reads of other threads: closing a connection under a statement crashes the
        process.
        """
        if self._closed:
            return
        self._closed = True
        self._closing.set()
        self._writer.close()
        for reader in self._open:
            with reader.use:
                reader.connection.close()
        with self._watching:
            if self._watcher is not None:
                self._watcher.close()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """This thread's own connection, kept from being closed meanwhile."""
        connection = self._reader()
        with self._readers.use:
            self._refuse_closed()
            yield connection

    def _reader(self) -> sqlite3.Connection:
        """This thread's own connection, which cannot write."""
        self._refuse_closed()
        connection: sqlite3.Connection | None = getattr(self._readers, "connection", None)
        if connection is None:
            connection = connect(self._path, readonly=True)
            self._readers.use = threading.RLock()
            self._keep(_OpenReader(threading.current_thread(), connection, self._readers.use))
            self._readers.connection = connection
        return connection

    def _refuse_closed(self) -> None:
        if self._closed:
            raise Unavailable(f"{self._place} is closed")
        refuse_fork(self._pid)

    def _keep(self, reader: _OpenReader) -> None:
        """Until the store or its thread ends: web servers start and end threads all the time."""
        with self._opening:
            kept = [reader]
            for other in self._open:
                if other.thread.is_alive():
                    kept.append(other)
                else:
                    other.connection.close()
            self._open = kept

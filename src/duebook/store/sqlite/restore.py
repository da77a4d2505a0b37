"""Replaces a SQLite file with a backup, and keeps the former file; it must not be in use."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Conflict, Invalid, Unavailable
from duebook.lazy_dataclasses import dataclass
from duebook.store.migrations import check_applied, too_new
from duebook.store.sql.rows import moment
from duebook.store.sqlite.connection import APPLICATION_ID, WAIT, translated
from duebook.store.sqlite.fence import refuse_moved
from duebook.store.sqlite.migrate import applied, available
from duebook.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from duebook.store.base import Tx

__all__ = ["Restored", "restore"]

POLL: Final = 0.05


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore."""

    aside: Path | None
    """where the former file is; None: there was none"""
    copied_at: datetime
    """the latest time that the restored database knows"""
    sessions: int
    """nodes that were running when it was copied, and that have ended now"""


def restore(path: Path, backup: Path, note: Callable[[Tx], None], now: datetime) -> Restored:
    """Replace `path` with a copy of `backup`; `note` writes an entry to its audit log.

    The former file keeps its name until the new one, complete and checked, replaces it at once.
    Raises Invalid for a backup that is damaged or not Duebook's, and Conflict for one of a newer
    Duebook, for a database that was moved, and while any process has the former file open.
    """
    _check(backup, path)
    part = path.with_name(f"{path.name}.restoring")
    try:
        _remove(part)
        copied_at, sessions = _prepare(backup, part, note)
        with _alone(path):
            aside = _put_aside(path, now)
            part.replace(path)
            _flush(path.parent)
        return Restored(aside, copied_at, sessions)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            _remove(part)


def _check(backup: Path, path: Path) -> None:
    if not backup.is_file():
        raise Invalid(f"{backup} is not a file; give the file that duebook db backup wrote")
    if path.exists() and backup.samefile(path):
        raise Invalid(f"{backup} is the database itself; choose another file")
    with translated(backup), closing(_open(backup)) as connection:
        if _one(connection, "PRAGMA application_id") != APPLICATION_ID:
            raise Invalid(f"{backup} is an SQLite database, but not a Duebook database")
        wrong = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if wrong != "ok":
            raise Invalid(f"{backup} is damaged: {wrong}; use another backup")
        have, ours = applied(connection), available()
        if max(have, default=0) > ours[-1].number:
            raise too_new(max(have), ours[-1].number)
        check_applied(have, ours)
        refuse_moved(connection, backup)


def _prepare(backup: Path, part: Path, note: Callable[[Tx], None]) -> tuple[datetime, int]:
    """A complete copy on disk, in which no node runs."""
    os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with translated(backup), closing(_open(backup)) as source, closing(_raw(part)) as copy:
        source.backup(copy)
        copied_at = moment(_one(source, "SELECT value FROM meta WHERE key = 'high_water_at'") or 0)
    store = SqliteStore(part)  # brings the schema up to date
    try:

        def end(tx: Tx) -> int:
            note(tx)
            return tx.nodes.end_all_sessions()

        sessions = store.transact(end)
    finally:
        store.close()
    with translated(part), closing(_raw(part)) as copy:
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, complete in itself
    with part.open("rb") as file:
        os.fsync(file.fileno())
    return copied_at, sessions


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Ensure that no process has the file open, and that none that starts now writes to it."""
    lock = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(lock, path)
        if path.exists():
            _refuse_use(path)
        yield
    finally:
        os.close(lock)


def _lock(lock: int, path: Path) -> None:
    deadline = time.monotonic() + WAIT
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Conflict(_in_use(path)) from None
            time.sleep(POLL)
        else:
            return


def _refuse_use(path: Path) -> None:
    """Only an exclusive user can leave the WAL mode, and then no log is left that could be taken
    for one of the new file."""
    with closing(_raw(path)) as connection:
        try:
            connection.execute("PRAGMA busy_timeout = 1000")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            mode = _one(connection, "PRAGMA journal_mode = DELETE")
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                return  # a damaged file is a reason to restore
            raise Conflict(_in_use(path)) from error
        if mode != "delete":
            raise Conflict(_in_use(path))


def _in_use(path: Path) -> str:
    return f"another process has {path} open; stop all nodes and programs that use it first"


def _put_aside(path: Path, now: datetime) -> Path | None:
    """A second name for the former file; with its side files, in case it is damaged."""
    if not path.exists():
        return None
    name = f"{path.name}.before-restore-{now:%Y%m%dT%H%M%SZ}"
    names = (name, *(f"{name}-{number}" for number in range(2, 100)))
    aside = next(path.with_name(one) for one in names if not path.with_name(one).exists())
    os.link(path, aside)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside


def _open(path: Path) -> sqlite3.Connection:
    """Open it read-only: nothing is written to a backup."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=WAIT)


def _raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=WAIT)


def _one(connection: sqlite3.Connection, sql: str) -> Any:
    row = connection.execute(sql).fetchone()
    return None if row is None else row[0]


def _remove(part: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-lock", "-journal"):
        part.with_name(f"{part.name}{suffix}").unlink(missing_ok=True)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

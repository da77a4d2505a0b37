"""Opens SQLite files as Duebook needs them, and translates the driver's errors."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from duebook.errors import DiskFull, Invalid, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["APPLICATION_ID", "WAIT", "connect", "translated"]

_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs"}
)
APPLICATION_ID: Final = 0x44756542
"""Marks a file as Duebook's ("DueB")."""
WAIT: Final = 30.0
"""Seconds after which a lock that somebody holds is given up."""
_BESIDE: Final = 64 * 1024
"""Bytes of the shared memory of a file and of the beginning of its log."""
_NOT_A_DATABASE: Final = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def connect(path: Path, readonly: bool = False, durable: bool = True) -> sqlite3.Connection:
    """A connection with WAL, full durability and foreign keys; transactions are explicit.

    Raises Invalid for a file that is not a database, or on a network file system (its locks lie);
    Unavailable for one that cannot be opened.
    """
    with translated(path):
        _prepare_folder(path)
        _create_privately(path)
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=WAIT
        )
        try:
            _refuse_foreign(connection, path)
            _use_wal(connection)
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
            connection.execute("PRAGMA foreign_keys = ON")
            # what a statement may have to undo is small, and slow to keep in a file
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(f"PRAGMA query_only = {'ON' if readonly else 'OFF'}")
        except BaseException:
            connection.close()
            raise
        return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """SQLite does not wait here for another process that is doing the same, so we do."""
    deadline = time.monotonic() + WAIT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _create_privately(path: Path) -> None:
    """Create a new file for its owner only: it will hold payloads, variables and logs.

    An existing file must not be opened here: closing it again would release every lock that this
    process holds on it, and another process would take the log of our writes for abandoned.
    """
    with suppress(OSError):  # SQLite reports what is wrong with it
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    """Leave the databases of other programs unchanged."""
    # in this order: another process may be making the file ours between the two
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    if tables and not ours:
        raise Invalid(f"{path} is an SQLite database, but not a Duebook database")


def _prepare_folder(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot create the folder {path.parent}: {error.strerror}") from error
    if (kind := _file_system(path.parent)) in _NETWORK_FILE_SYSTEMS:
        raise Invalid(
            f"{path} is on a network file system ({kind}), whose locks are unreliable; "
            "use a local disk, or PostgreSQL"
        )


def _file_system(folder: Path) -> str:
    """The kind of file system of a folder, as far as the machine shows."""
    best, kind = "", ""
    try:
        mounts = Path("/proc/self/mounts").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    real = os.path.realpath(folder)
    for _, mounted_at, name, *_ in (line.split() for line in mounts if line.count(" ") > 2):
        inside = real == mounted_at or real.startswith(mounted_at.rstrip("/") + "/")
        if inside and len(mounted_at) >= len(best):
            best, kind = mounted_at, name
    return kind


def _is_full(path: Path | str) -> bool:
    """Whether the disk has no space for what SQLite keeps beside the file while it is open."""
    with suppress(OSError):
        return shutil.disk_usage(Path(path).parent).free < _BESIDE
    return False


@contextmanager
def translated(path: Path | str) -> Iterator[None]:
    """Translate driver errors to ours, with the file's name and a remedy."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _NOT_A_DATABASE:
            raise Invalid(f"{path} is not an SQLite database, or it is damaged: {error}") from error
        if code == sqlite3.SQLITE_READONLY:
            raise Unavailable(f"{path} cannot be written: it is read-only") from error
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
            raise DiskFull(f"{path} cannot be written: the disk is full") from error
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM):
            raise Unavailable(f"{path} cannot be opened or written: {error}") from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise Unavailable(f"{path} is locked by another program") from error
        raise

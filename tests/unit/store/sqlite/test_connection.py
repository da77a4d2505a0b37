"""Files that cannot be opened or written: each a clear error of ours, and nothing lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from duebook.errors import DiskFull, Invalid, Unavailable
from duebook.ids import new_id
from duebook.store.sqlite import SqliteStore, connection
from duebook.store.sqlite.connection import connect, translated
from tests.support.builders import add_schedule, list_all

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY: Final = 65_534


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that a user without rights can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def without_rights() -> Iterator[None]:
    """Permissions do not bind root, so root becomes nobody for a while."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


def open_store(path: Path) -> None:
    SqliteStore(path).close()


# -- what is no database


@pytest.mark.parametrize("content", [b"hello\n" * 1_000, b"SQLite format 4\0" + b"x" * 5_000])
def test_a_file_that_is_no_database_is_invalid_and_stays_as_it_is(
    path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    with pytest.raises(Invalid, match=r"book\.db is not an SQLite database"):
        open_store(path)
    assert path.read_bytes() == content


def test_a_damaged_database_is_invalid(path: Path) -> None:
    open_store(path)
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    with pytest.raises(Invalid, match="damaged"):
        open_store(path)


def test_an_empty_file_is_a_new_database(path: Path) -> None:
    path.touch()
    open_store(path)
    assert path.stat().st_size > 0


def test_a_folder_is_made_for_a_new_database(tmp_path: Path) -> None:
    open_store(tmp_path / "a" / "b" / "book.db")
    assert (tmp_path / "a" / "b" / "book.db").is_file()


# -- what cannot be opened


def test_a_folder_in_the_place_of_the_file_is_unavailable(path: Path) -> None:
    path.mkdir()
    with pytest.raises(Unavailable, match=r"book\.db cannot be opened"):
        open_store(path)


def test_a_path_inside_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "book.db", tmp_path / "file" / "deeper" / "book.db"):
        with pytest.raises(Unavailable, match="cannot create the folder"):
            open_store(path)


def test_a_lock_file_that_cannot_be_opened_is_unavailable(path: Path) -> None:
    Path(f"{path}-lock").mkdir()
    with pytest.raises(Unavailable, match="lock"):
        open_store(path)


def test_a_read_only_folder_is_unavailable(public_folder: Path) -> None:
    with without_rights(), pytest.raises(Unavailable):
        open_store(public_folder / "book.db")
    with without_rights(), pytest.raises(Unavailable):
        open_store(public_folder / "deeper" / "book.db")
    assert list(public_folder.iterdir()) == []


def test_a_database_in_a_read_only_folder_is_unavailable_and_stays(public_folder: Path) -> None:
    path = public_folder / "book.db"
    open_store(path)
    before = path.read_bytes()
    path.chmod(0o666)
    with without_rights(), pytest.raises(Unavailable):
        open_store(path)
    assert path.read_bytes() == before


def test_a_read_only_file_is_unavailable_and_stays(public_folder: Path) -> None:
    path = public_folder / "book.db"
    open_store(path)
    before = path.read_bytes()
    path.chmod(0o444)
    public_folder.chmod(0o777)
    with without_rights(), pytest.raises(Unavailable):
        open_store(path)
    assert path.read_bytes() == before


def test_a_file_that_may_not_be_read_is_unavailable(public_folder: Path) -> None:
    path = public_folder / "book.db"
    open_store(path)
    path.chmod(0o600)
    with without_rights(), pytest.raises(Unavailable):
        open_store(path)


def test_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_file_system", lambda _: "nfs4")
    with pytest.raises(Invalid, match=r"network file system.*PostgreSQL"):
        open_store(path)
    assert not path.exists()


def test_the_file_system_of_a_folder_is_that_of_its_innermost_mount() -> None:
    assert connection._file_system(Path("/proc/self")) == "proc"
    assert connection._file_system(Path("/proc-not-really")) != "proc"


# -- a full disk


def test_a_full_disk_is_unavailable_loses_nothing_and_heals(path: Path) -> None:
    store = SqliteStore(path)
    kept = add_schedule(store, "kept")
    writing = store._writer._connection
    pages = int(writing.execute("PRAGMA page_count").fetchone()[0])
    writing.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Unavailable, match="disk is full"):
        add_schedule(store, "big", payload={"big": "x" * 100_000})
    assert [s.id for s in store.read(list_all)] == [kept]
    writing.execute("PRAGMA max_page_count = 1000000")
    add_schedule(store, "big", payload={"big": "x" * 100_000})
    store.close()


# -- the driver's errors


def driver_error(code: int) -> sqlite3.DatabaseError:
    error = sqlite3.OperationalError("what the driver says")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (sqlite3.SQLITE_NOTADB, Invalid, "not an SQLite database"),
        (sqlite3.SQLITE_CORRUPT, Invalid, "damaged"),
        (sqlite3.SQLITE_READONLY, Unavailable, "read-only"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, Unavailable, "read-only"),
        (sqlite3.SQLITE_FULL, Unavailable, "disk is full"),
        (sqlite3.SQLITE_CANTOPEN, Unavailable, "cannot be opened"),
        (sqlite3.SQLITE_IOERR_WRITE, Unavailable, "cannot be opened or written"),
        (sqlite3.SQLITE_PERM, Unavailable, "cannot be opened"),
        (sqlite3.SQLITE_BUSY, Unavailable, "locked"),
        (sqlite3.SQLITE_LOCKED, Unavailable, "locked"),
    ],
)
def test_driver_errors_become_ours_and_name_the_file(
    code: int, kind: type[Exception], words: str
) -> None:
    cause = driver_error(code)
    with pytest.raises(kind, match=words) as caught, translated(Path("/some/book.db")):
        raise cause
    assert "/some/book.db" in str(caught.value)
    assert caught.value.__cause__ is cause


def test_a_mistake_of_ours_stays_the_drivers_error() -> None:
    with pytest.raises(sqlite3.OperationalError), translated(Path("book.db")):
        raise driver_error(sqlite3.SQLITE_ERROR)


# -- how it is opened


def test_a_connection_is_durable_and_keeps_references(path: Path) -> None:
    with closing(connect(path)) as opened:
        pragmas = {
            name: opened.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "foreign_keys", "query_only")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "query_only": 0}


def test_a_reading_connection_cannot_write(path: Path) -> None:
    open_store(path)
    with (
        closing(connect(path, readonly=True)) as opened,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        opened.execute("INSERT INTO meta VALUES ('a', 1)")


def test_a_reference_to_nothing_is_refused(path: Path) -> None:
    store = SqliteStore(path)
    with pytest.raises(sqlite3.IntegrityError):
        store._writer.run(
            lambda c: c.execute(
                "INSERT INTO schedule_state (schedule_id, version, status, watermark) "
                "VALUES (?, 1, 'active', 0)",
                (new_id(),),
            )
        )
    store.close()


def test_a_thread_that_ends_leaves_no_connection_open(path: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with closing(SqliteStore(path)) as store:
        store.read(lambda tx: tx.now)
        before = count()
        for _ in range(20):
            thread = threading.Thread(target=lambda: store.read(lambda tx: tx.now))
            thread.start()
            thread.join()
        assert count() <= before + 4


def test_what_sqlite_cannot_write_on_a_full_disk_is_called_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raised() -> Exception:
        with pytest.raises(Unavailable) as caught, translated(tmp_path / "books.db"):
            raise driver_error(sqlite3.SQLITE_IOERR_WRITE)
        return caught.value

    assert type(raised()) is Unavailable
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4096))
    assert isinstance(raised(), DiskFull)

"""Creates new SQLite files in this process by copying a migrated one, which takes a third of the
work. Random values in the file are the same in each copy."""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from duebook.store.sqlite import SqliteStore, connection

if TYPE_CHECKING:
    from collections.abc import Iterator

MIGRATE: Final = connection._create_privately
"""Creates an empty file, as users have it: for tests of migrations."""


@contextmanager
def copied() -> Iterator[None]:
    vars(connection)["_create_privately"] = _create_copy
    yield
    vars(connection)["_create_privately"] = MIGRATE


def _create_copy(path: Path) -> None:
    """It appears at once and as a whole, because another thread may be about to open it. It is
    never opened again here, which would drop the locks of this process."""
    if path.exists():
        return
    contents, secret = _template()
    made = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    with suppress(OSError):  # as when its folder is read-only, which SQLite will report
        with open(made, "xb", opener=_open_privately) as file:
            file.write(contents.replace(secret, secrets.token_hex(32).encode()))
        with suppress(FileExistsError):
            path.hardlink_to(made)
        made.unlink()


def _open_privately(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


@cache
def _template() -> tuple[bytes, bytes]:
    """An empty database file, and its secret values."""
    with TemporaryDirectory(prefix="duebook-template-") as folder:
        path = Path(folder) / "books.db"
        MIGRATE(path)
        SqliteStore(path).close()
        with closing(sqlite3.connect(path)) as opened:
            ((secret,),) = opened.execute("SELECT value FROM secrets").fetchall()
        return path.read_bytes(), secret.encode()

"""Copies a SQLite file in its state at one moment, while nodes use it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from duebook.errors import Invalid, Unavailable
from duebook.store.sqlite.connection import connect, translated

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["back_up"]


def back_up(path: Path, target: Path) -> int:
    """Copy the file to `target`, which only its owner may read and which is replaced once the copy
    is complete; returns its size.

    Raises Invalid for a target that is the file itself, and Unavailable if it cannot be written.
    """
    if target.exists() and target.samefile(path):
        raise Invalid(f"{target} is the database itself; choose another file")
    part = target.with_name(f"{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with translated(path), closing(connect(path, readonly=True)) as source:
            _copy(source, part)
        part.replace(target)
        return target.stat().st_size
    except OSError as error:
        raise Unavailable(f"{target} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _copy(source: sqlite3.Connection, part: Path) -> None:
    with closing(sqlite3.connect(part)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, complete in itself

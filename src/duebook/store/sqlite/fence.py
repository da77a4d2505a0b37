"""Whether the database of a file was moved elsewhere; every transaction checks it first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.errors import Conflict, Unavailable
from duebook.store.sql.rows import moment

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from duebook.store.outside import Outside

__all__ = ["refuse_moved"]

_CLOSED: Final = "SELECT state, place, at FROM moves WHERE state = 'copying' OR state = 'moved'"


def refuse_moved(connection: sqlite3.Connection | Outside, path: Path | str) -> None:
    """Raises Conflict if it was moved elsewhere, Unavailable while it is being copied."""
    rows = connection.execute(_CLOSED).fetchall()
    if not rows:
        return
    state, place, at = rows[0]
    if state == "moved":
        raise Conflict(
            f"{path} was moved to the {place} on {moment(at):%Y-%m-%d at %H:%M:%S} "
            "UTC; choose that with --database or DUEBOOK_DATABASE_URL"
        )
    raise Unavailable(
        f"{path} has been locked since {moment(at):%H:%M:%S} UTC, to be copied to the {place}; "
        "if that copy is no longer running, run duebook db copy again, or duebook db reopen"
    )

"""Whether the books of a file were moved elsewhere; every transaction asks that first."""

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


def refuse_moved(connection: sqlite3.Connection | Outside, path: Path) -> None:
    """Raises Conflict when the books are elsewhere, Unavailable while they are being copied."""
    rows = connection.execute(_CLOSED).fetchall()
    if not rows:
        return
    state, place, at = rows[0]
    if state == "moved":
        raise Conflict(
            f"the books of {path} were moved to the {place} on {moment(at):%Y-%m-%d at %H:%M:%S} "
            "UTC; name those with --database or DUEBOOK_DATABASE_URL"
        )
    raise Unavailable(
        f"the books of {path} are being copied to the {place}, since {moment(at):%H:%M:%S} UTC; "
        "should that copy be gone, call duebook db copy again, or duebook db reopen"
    )

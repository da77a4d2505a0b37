"""Whether this version of Duebook may use the schema of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.errors import Conflict
from duebook.store.migrations import too_new

if TYPE_CHECKING:
    from duebook.store.sql.statements import Statements

__all__ = ["refuse_unfit", "unfit"]


def unfit(db: Statements) -> str | None:
    """Why this version should not use the schema; None: it may."""
    # a schema without a minimum version suits none older than itself
    have, least = db.all("get_schema")[0]
    ours = db.newest_schema
    fits = have <= ours or (least is not None and least <= ours)
    return None if fits else str(too_new(have, ours))


def refuse_unfit(db: Statements) -> None:
    """Wait for a migration in progress, and prevent others until the transaction ends.

    Raises Conflict if the schema has become too new.
    """
    db.hold_schema()
    if (why := unfit(db)) is not None:
        raise Conflict(why)

"""The error for operations that a server does not offer."""

from __future__ import annotations

from duebook.errors import Invalid

__all__ = ["NeedsDatabase", "needs_database"]


class NeedsDatabase(Invalid):
    """An operation works on the database itself, not through a server."""

    code = "needs_database"


def needs_database(what: str) -> NeedsDatabase:
    return NeedsDatabase(
        f"{what} needs direct access to the database: remove --url and DUEBOOK_URL, and "
        "give --database"
    )

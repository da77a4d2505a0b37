"""What no server does for somebody far away, and the words for it."""

from __future__ import annotations

from duebook.errors import Invalid

__all__ = ["NeedsDatabase", "needs_database"]


class NeedsDatabase(Invalid):
    """Something that works on the database itself, not through a server."""

    code = "needs_database"


def needs_database(what: str) -> NeedsDatabase:
    return NeedsDatabase(
        f"{what} needs direct access to the database: remove --url and DUEBOOK_URL, and "
        "give --database"
    )

"""One transaction on a SQLite file: all verbs of the store together."""

from __future__ import annotations

from duebook.store.sqlite.people import People
from duebook.store.sqlite.upkeep import Upkeep

__all__ = ["SqliteTx"]


class SqliteTx(People, Upkeep):
    """Implements store.base.Tx on a connection whose transaction the caller opens and ends."""

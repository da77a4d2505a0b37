"""The store on one SQLite file, shared by the processes of one machine."""

from __future__ import annotations

from duebook.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

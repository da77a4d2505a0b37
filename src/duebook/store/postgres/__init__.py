"""The store on a PostgreSQL database, shared by any number of machines."""

from __future__ import annotations

from duebook.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

"""One transaction on a SQLite file."""

from __future__ import annotations

from duebook.store.sql.tx import Tx
from duebook.store.sqlite.checkups import SqliteCheckups
from duebook.store.sqlite.parts import (
    SqliteAttempts,
    SqliteChecks,
    SqliteClaims,
    SqliteFlowRuns,
    SqliteNewRuns,
)

__all__ = ["SqliteTx"]


class SqliteTx(Tx):
    """On a connection whose transaction the caller starts and ends."""

    new_runs_type = SqliteNewRuns
    attempts_type = SqliteAttempts
    claims_type = SqliteClaims
    flow_runs_type = SqliteFlowRuns
    checks_type = SqliteChecks
    checkups_type = SqliteCheckups

"""One transaction in PostgreSQL."""

from __future__ import annotations

from duebook.store.postgres.checkups import PostgresCheckups
from duebook.store.postgres.parts import (
    PostgresAttempts,
    PostgresChecks,
    PostgresClaims,
    PostgresEvents,
    PostgresFlowRuns,
    PostgresLedger,
    PostgresNewRuns,
    PostgresPlans,
    PostgresWakes,
)
from duebook.store.sql.tx import Tx

__all__ = ["PostgresTx"]


class PostgresTx(Tx):
    """On a connection whose transaction the caller starts and ends."""

    wakes_type = PostgresWakes
    events_type = PostgresEvents
    ledger_type = PostgresLedger
    new_runs_type = PostgresNewRuns
    plans_type = PostgresPlans
    attempts_type = PostgresAttempts
    claims_type = PostgresClaims
    flow_runs_type = PostgresFlowRuns
    checks_type = PostgresChecks
    checkups_type = PostgresCheckups

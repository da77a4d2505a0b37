"""PostgreSQL's own statistics for doctor: tables, open transactions, connections.

Every user may read these views. What they hide from this user is counted.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from duebook.model.checkup import OpenTransaction, ServerFacts, TableFacts
from duebook.store.sql.checkups import Checkups

__all__ = ["PostgresCheckups"]

HOT: Final = (
    *("active_runs", "ended_runs", "schedule_state", "due_keys", "node_sessions"),
    *("run_attempts", "ledger", "flow_runs", "flow_wakes", "run_logs", "events"),
)
"""Tables with frequent changes."""


class PostgresCheckups(Checkups):
    """Executes three statements."""

    def database(self) -> ServerFacts:
        size, autovacuum, connections, most, hidden = self._db.all("get_server")[0]
        oldest = self._db.one("get_oldest_transaction")
        return ServerFacts(
            size,
            autovacuum,
            tuple(
                TableFacts(name, live, dead, size, on, None if ago is None else _length(ago))
                for name, live, dead, size, on, ago in self._db.all(
                    "list_hot_tables", names=list(HOT)
                )
            ),
            None if oldest is None else OpenTransaction(oldest[0], _length(oldest[1])),
            hidden,
            int(connections),
            most,
        )


def _length(seconds: object) -> timedelta:
    return timedelta(seconds=float(str(seconds)))

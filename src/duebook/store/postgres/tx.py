"""One transaction in PostgreSQL: all verbs of the store together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.store.postgres.statements import PostgresStatements
from duebook.store.sql.people import People
from duebook.store.sql.upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.store.sql.statements import Values

__all__ = ["PostgresTx"]


class PostgresTx(PostgresStatements, People, Upkeep):
    """Implements store.base.Tx on a connection whose transaction the caller opens and ends."""

    def _claim_runs(
        self, session_id: str, queue: str, limit: int, tasks: Sequence[str]
    ) -> list[str]:
        """Runs of limited schedules are counted again under a lock of their schedule."""
        found = self._claimable("take_claimable", queue, limit, tasks)
        exclusive = {schedule_id for _, schedule_id, alone, _ in found if alone}
        limited = {schedule_id for _, schedule_id, _, limited in found if limited} - exclusive
        free = self._locked("lock_exclusive", exclusive) | self._locked("lock_limited", limited)
        ids = [id_ for id_, schedule_id, *limits in found if not any(limits) or schedule_id in free]
        if not ids:
            return []
        given = self._all("claim_runs", ids=ids, session_id=session_id, now=self.now)
        mine = {row[0] for row in given}
        return [id_ for id_ in ids if id_ in mine]

    def _extend_ledger(self, rows: list[Values]) -> list[Values]:
        """One statement for the first of each schedule, which is mostly the only one."""
        firsts: dict[str, Values] = {}
        for row in rows:
            if row["follows"] is not None:
                firsts.setdefault(row["schedule_id"], row)
        extended = self._extended(list(firsts.values()))
        new = []
        for row in rows:
            if row is firsts.get(row["schedule_id"]):
                goes_on = row["schedule_id"] in extended
            else:
                goes_on = row["follows"] is not None and bool(self._extended([row]))
            if not goes_on:
                new.append(row)
        return new

    def _extended(self, rows: list[Values]) -> set[str]:
        if not rows:
            return set()
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        return {row[0] for row in self._all("extend_ledger", **columns)}

    def _locked(self, query: str, schedule_ids: set[str]) -> set[str]:
        if not schedule_ids:
            return set()
        return {row[0] for row in self._all(query, ids=list(schedule_ids))}

    def _damage(self) -> list[str]:
        return []

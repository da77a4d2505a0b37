"""One transaction in PostgreSQL: all verbs of the store together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.store.base import News
from duebook.store.postgres.statements import PostgresStatements
from duebook.store.sql.people import People
from duebook.store.sql.rows import clean
from duebook.store.sql.upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.run import Outcome, Token
    from duebook.store.sql.statements import Values

__all__ = ["PostgresTx"]


class PostgresTx(PostgresStatements, People, Upkeep):
    """Implements store.base.Tx on a connection whose transaction the caller opens and ends."""

    def _claim_runs(
        self, session_id: str, queue: str, namespace: str, limit: int, tasks: Sequence[str]
    ) -> list[str]:
        """Runs of limited schedules are counted again under a lock of their schedule."""
        found = self._claimable("take_claimable", queue, namespace, limit, tasks)
        exclusive = {schedule_id for _, schedule_id, alone, _ in found if alone}
        limited = {schedule_id for _, schedule_id, _, limited in found if limited} - exclusive
        free = self._locked("lock_exclusive", exclusive) | self._locked("lock_limited", limited)
        ids = [id_ for id_, schedule_id, *limits in found if not any(limits) or schedule_id in free]
        if not ids:
            return []
        given = self._all("claim_runs", ids=ids, session_id=session_id, now=self.now)
        mine = {row[0] for row in given}
        return [id_ for id_ in ids if id_ in mine]

    def settle_all(self, ended: Sequence[tuple[Token, Outcome]]) -> set[Token]:
        """One statement for all; only what it did not find is looked at alone."""
        tokens = {token.run_id: token for token, _ in ended}
        self._hold(list(tokens))
        columns: Values = {
            "run_id": [token.run_id for token, _ in ended],
            "attempt": [token.attempt for token, _ in ended],
            "session_id": [token.session_id for token, _ in ended],
            "status": [outcome.status for _, outcome in ended],
            "reason": [clean(outcome.reason) for _, outcome in ended],
            "error": [clean(outcome.error) for _, outcome in ended],
            "exit_code": [outcome.exit_code for _, outcome in ended],
        }
        rows = self._all("settle_runs", now=self.now, **columns) if ended else []
        settled = {tokens.pop(row[0]) for row in rows}
        if any(others_wait for *_, others_wait in rows):
            self._tell(News.WORK)
        if woken := [schedule_id for _, wakes, schedule_id, *_ in rows if wakes]:
            self._run("wake_schedules", ids=woken, now=self.now)
            self._tell(News.WAKE)
        if self._anybody_depends:
            self._wake_dependents({row[2] for row in rows if row[3]})
        return settled | {token for token in tokens.values() if self._settled_before(token)}

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

"""The parts of a transaction that SQLite does in its own way: one writes at a time."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from duebook.model.finding import Finding
from duebook.model.serving import serving_of
from duebook.store.sql.checks import Checks
from duebook.store.sql.claims import Claims, Taken, Wanted
from duebook.store.sql.flow_runs import FlowRuns
from duebook.store.sql.new_runs import NewRuns
from duebook.store.sql.rows import NewRun, clean, inline, read_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.flow_run import FlowMove
    from duebook.store.sql.statements import Row
    from duebook.store.sqlite.statements import SqliteStatements

__all__ = ["SqliteChecks", "SqliteClaims", "SqliteFlowRuns", "SqliteNewRuns"]


class SqliteNewRuns(NewRuns):
    """Lowers priorities before runs are inserted."""

    def _capped(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Here, because a statement that looked it up could not insert many rows at once."""
        most: dict[str, int] = dict(self._db.all("list_ceilings"))
        if not most:
            return rows
        runs = map(NewRun._make, rows)
        return [
            run._replace(priority=min(run.priority, most.get(run.namespace, run.priority)))
            for run in runs
        ]


class SqliteClaims(Claims):
    """Nothing is claimed in books that are about to be copied."""

    def _rests_until(self) -> datetime | None:
        until: datetime | None = self._db.time(self._db.value("get_drain", now=self._db.now))
        return until

    def _claim_runs(self, wanted: Wanted, limit: int, ahead: int) -> Taken:
        session = {"id": wanted.session_id, "queue": wanted.queue, "now": self._db.now}
        alive = self._db.one("get_session_alive", **session)
        if alive is None:
            return Taken([], is_limited=False)
        served, limited = alive
        if wanted.namespace not in serving_of(json.loads(served)):
            return Taken([], is_limited=False)
        if not limited:
            return self._take(wanted, limit, ahead, self._db.now)
        return self._within_queue(
            wanted.queue, limit, ahead, lambda *most: self._take(wanted, *most)
        )

    def _take(self, wanted: Wanted, limit: int, ahead: int, at: datetime) -> Taken:
        """In portions, because a claim may use up the limit of a schedule with more work."""
        claimed: list[str] = []
        now = self._db.stamp(at)
        mine = {"session_id": wanted.session_id, "now": now}
        is_limited = False
        while len(claimed) < limit + ahead and not is_limited:
            straight = max(limit - len(claimed), 0)
            found, is_limited = _before_limited(
                self._claimable(wanted, limit + ahead - len(claimed)), straight
            )
            ids = _within_limits(found)
            self._db.many(
                "claim_run",
                (
                    {"id": id_, "begun_at": now if place < straight else None, **mine}
                    for place, id_ in enumerate(ids)
                ),
            )
            claimed += ids
            if len(ids) == len(found):
                break
        rows = self._db.all("list_runs_by_id", ids=claimed) if claimed else []
        return Taken([read_run(row, self._db.time) for row in rows], is_limited)


class SqliteFlowRuns(FlowRuns):
    """One statement for each flow that ends."""

    def _end_flows(self, ended: Sequence[FlowMove]) -> list[Row]:
        return [
            row
            for move in ended
            if move.end is not None
            for row in self._db.all(
                "end_flow_run",
                id=move.parent.run_id,
                now=self._db.now,
                status=move.end.status,
                reason=move.end.reason,
                error=clean(move.error),
                output=inline(move.output),
            )
        ]


class SqliteChecks(Checks):
    """Also checks the file itself."""

    _db: SqliteStatements

    def _damage(self, deep: bool) -> list[Finding]:
        """These two read the whole file."""
        if not deep:
            return []
        found = [
            Finding("I6", f"the file is damaged: {row[0]}")
            for row in self._db.connection.execute("PRAGMA quick_check").fetchall()
            if row[0] != "ok"
        ]
        return found + [
            Finding("I6", f"a row of {row[0]} refers to a row of {row[2]} that does not exist")
            for row in self._db.connection.execute("PRAGMA foreign_key_check").fetchall()
        ]


def _before_limited(found: list[Row], limit: int) -> tuple[list[Row], bool]:
    """What may be claimed when only `limit` begin at once: none is buffered that must not be, and
    none overtakes it. The last column says whether a run may be."""
    for place, row in enumerate(found[limit:], limit):
        if not row[-1]:
            return found[:place], True
    return found, False


def _within_limits(found: list[Row]) -> list[str]:
    """The runs that may begin together: (id, schedule, most at once, under way, …) of each."""
    begun: Counter[str] = Counter()
    ids = []
    for id_, schedule_id, most, busy, _ in found:
        if most is None or busy + begun[schedule_id] < most:
            begun[schedule_id] += 1
            ids.append(id_)
    return ids

"""One transaction on a SQLite file: all verbs of the store together."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from duebook.model.finding import Finding
from duebook.model.serving import ALL
from duebook.store.sql.access import Access
from duebook.store.sql.advancing import Advancing
from duebook.store.sql.auditing import Auditing
from duebook.store.sql.checking import Checking
from duebook.store.sql.delivering import Delivering
from duebook.store.sql.flow_files import FlowFiles
from duebook.store.sql.insights import Insights
from duebook.store.sql.rows import NewRun, clean, inline, read_run
from duebook.store.sql.watching import Watching
from duebook.store.sqlite.migrate import available
from duebook.store.sqlite.statements import SqliteStatements
from duebook.store.values import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.flow_run import FlowMove
    from duebook.model.run import Claim, Run
    from duebook.model.serving import Serving
    from duebook.store.sql.statements import Row
    from duebook.store.sql.working import Claimer
    from duebook.store.values import Labels

__all__ = ["SqliteTx"]


def within_limits(found: list[Row]) -> list[str]:
    """The runs that may begin together: (id, schedule, most at once, under way) of each."""
    begun: Counter[str] = Counter()
    ids = []
    for id_, schedule_id, most, busy in found:
        if most is None or busy + begun[schedule_id] < most:
            begun[schedule_id] += 1
            ids.append(id_)
    return ids


class SqliteTx(
    SqliteStatements,
    Access,
    Auditing,
    Delivering,
    Advancing,
    FlowFiles,
    Checking,
    Watching,
    Insights,
):
    """Implements store.base.Tx on a connection whose transaction the caller opens and ends."""

    @property
    def _newest_schema(self) -> int:
        return available()[-1].number

    def list_work(
        self,
        queues: Sequence[str],
        tasks: Sequence[str] = (),
        labels: Labels = (),
        namespaces: Serving = ALL,
    ) -> Work:
        drains_until = self._value("get_drain", now=self.now)
        if drains_until is not None:
            return Work((), self._time(drains_until), self.now)
        return super().list_work(queues, tasks, labels, namespaces)

    def claim(
        self,
        session_id: str,
        queue: str,
        limit: int,
        tasks: Sequence[str] = (),
        namespace: str = "default",
        labels: Labels = (),
    ) -> list[Claim]:
        """Nothing begins in books that are about to be copied."""
        if self._one("get_drain", now=self.now):
            return []
        return super().claim(session_id, queue, limit, tasks, namespace, labels)

    def _claim_runs(
        self,
        claimer: Claimer,
        queue: str,
        namespace: str,
        limit: int,
        tasks: Sequence[str],
        labels: Labels,
    ) -> list[Run]:
        """In portions, because a claim may use up the limit of a schedule with more work."""
        claimed: list[str] = []
        mine = {"session_id": claimer.session_id, "now": self._stamp(claimer.at)}
        while len(claimed) < limit:
            wanted = limit - len(claimed)
            found = self._claimable("list_claimable", queue, namespace, wanted, tasks, labels)
            ids = within_limits(found)
            self._many("claim_run", ({"id": id_, **mine} for id_ in ids))
            claimed += ids
            if len(ids) == len(found):
                break
        rows = self._all("list_runs_by_id", ids=claimed) if claimed else []
        return [read_run(row, self._time) for row in rows]

    def _capped(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Here, because a statement that looked it up could not insert many rows at once."""
        most: dict[str, int] = dict(self._all("list_ceilings"))
        if not most:
            return rows
        runs = map(NewRun._make, rows)
        return [
            run._replace(priority=min(run.priority, most.get(run.namespace, run.priority)))
            for run in runs
        ]

    def _end_flows(self, ended: Sequence[FlowMove]) -> list[Row]:
        return [
            row
            for move in ended
            if move.end is not None
            for row in self._all(
                "end_flow_run",
                id=move.parent.run_id,
                now=self.now,
                status=move.end.status,
                reason=move.end.reason,
                error=clean(move.error),
                output=inline(move.output),
            )
        ]

    def _damage(self, deep: bool) -> list[Finding]:
        """These two read the whole file."""
        if not deep:
            return []
        found = [
            Finding("I6", f"the file is damaged: {row[0]}")
            for row in self._connection.execute("PRAGMA quick_check").fetchall()
            if row[0] != "ok"
        ]
        return found + [
            Finding("I6", f"a row of {row[0]} refers to a row of {row[2]} that does not exist")
            for row in self._connection.execute("PRAGMA foreign_key_check").fetchall()
        ]

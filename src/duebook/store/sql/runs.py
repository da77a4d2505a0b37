"""Runs in a transaction, as people request and read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.ids import SHORT_ID, new_id
from duebook.model.flow_target import FlowTarget
from duebook.model.plan import Fire, Lane, Snapshot
from duebook.model.run import Attempt, LogLine, Run
from duebook.store.sql.new_runs import NewRuns, new_run
from duebook.store.sql.rows import NewRun, clean, read_run
from duebook.store.sql.statements import Part, Statements, Values
from duebook.store.values import IN_TURN, Filling, LogSize, News, Page

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from duebook.store.sql.definitions import DefinitionReader
    from duebook.store.sql.run_ends import RunEnds
    from duebook.store.sql.wakes import Wakes

__all__ = ["Runs"]


class Runs(Part):
    """Runs that people create, retry and cancel; and the details of one."""

    def __init__(
        self,
        db: Statements,
        definitions: DefinitionReader,
        wakes: Wakes,
        ends: RunEnds,
        new_runs: NewRuns,
    ) -> None:
        super().__init__(db)
        self._definitions = definitions
        self._wakes = wakes
        self._ends = ends
        self._new_runs = new_runs

    def create_run(
        self,
        snapshot: Snapshot,
        run_id: str,
        payload: dict[str, Any] | None,
        requested_by: str | None = None,
    ) -> None:
        """A manual run of a schedule, ready now."""
        row = self._new_run(run_id, snapshot, Fire(self._db.now, "manual", wakes=True))
        text = None if payload is None else json.dumps(payload)
        row = row._replace(due_at=None, trigger="manual", payload=text)
        self._new_runs.insert([row._replace(requested_by=clean(requested_by))])
        self._follow([run_id], snapshot, payload)
        self._db.notify(News.WORK)

    def create_ended(
        self,
        snapshot: Snapshot,
        fires: Sequence[Fire],
        payload: dict[str, Any] | None = None,
        requested_by: str | None = None,
    ) -> list[str]:
        """Runs that have ended, with their events; returns the ids of those whose due time had no
        run yet."""
        text = None if payload is None else json.dumps(payload)
        firing = [(fire.ended.run_id, snapshot, fire) for fire in fires if fire.ended is not None]
        doubled = self._new_runs.insert_ended(firing, None, text, requested_by=clean(requested_by))
        had = {skip.due_from for _, skip in doubled}
        return [id_ for id_, _, fire in firing if fire.due_at not in had]

    def create_backfill(
        self, snapshot: Snapshot, fires: Sequence[Fire], how: Filling = IN_TURN
    ) -> list[str]:
        """Runs for due times without one, which give way to all others; returns their ids."""
        rows = [
            self._new_run(new_id(), snapshot, fire)._replace(
                lane=int(Lane.BACKFILL), wakes=True, requested_by=clean(how.requested_by)
            )
            for fire in fires
        ]
        if how.beside:
            begins = self._beginning(snapshot, how)
            rows = [row._replace(wakes=False, **begins) for row in rows]
        ids = [row.id for row in rows]
        self._db.notify(News.WORK)
        made = self._new_runs.insert(rows)
        self._follow(ids, snapshot, None)
        if made == len(rows):
            return ids
        missing = {row[0] for row in self._db.all("list_missing_runs", ids=ids)}
        return [id_ for id_ in ids if id_ not in missing]

    def reopen_backfill(self, snapshot: Snapshot, run_ids: Sequence[str], how: Filling) -> None:
        """Queue ended runs again, as `create_backfill` queues new ones."""
        for run_id in run_ids:
            self.reopen(run_id, Lane.BACKFILL)
        if run_ids:
            begins = self._beginning(snapshot, how)
            limit = begins.pop("backfill_limit")
            self._db.run("fill_again", ids=list(run_ids), limit=limit, **begins)

    def _beginning(self, snapshot: Snapshot, how: Filling) -> Values:
        """What decides when a run of a backfill may start."""
        limits = self._definitions.of(snapshot).copied
        most = None if limits.exclusive and how.beside else limits.max_concurrent
        return {
            "lane": int(Lane.BESIDE if how.beside else Lane.BACKFILL),
            "exclusive": limits.exclusive and not how.beside,
            "max_concurrent": most,
            "backfill_limit": how.limit,
        }

    def _follow(
        self, run_ids: Sequence[str], snapshot: Snapshot, payload: dict[str, Any] | None
    ) -> None:
        """A payload given for a run of a flow becomes its params."""
        target = snapshot.spec.target
        if isinstance(target, FlowTarget):
            params = dict(target.params) if payload is None else payload
            self._wakes.follow_flows((id_, target.name, params) for id_ in run_ids)

    def _new_run(self, run_id: str, snapshot: Snapshot, fire: Fire) -> NewRun:
        definition, stamp = self._definitions.of(snapshot), self._db.stamp
        # manual requests are never dropped, so they do not expire
        times = stamp(fire.due_at), stamp(self._db.now), None
        return NewRun._make(new_run(run_id, definition, snapshot, fire, times, stamp, None))

    def reopen(self, run_id: str, lane: Lane = Lane.EXTRA) -> None:
        """Queue an ended run again, as another attempt; raises NotFound and Conflict.

        In the lane of backfills it gives way to due times that wait.
        """
        run = self.get_run(run_id)
        if run.is_active:
            raise Conflict(f"run {run_id} has not finished: it is {run.status}")
        if run.schedule_id is not None and lane == Lane.EXTRA:
            self._db.lock_state(
                run.schedule_id
            )  # a decision about due times sees it, or comes first
        self._ends.end_attempt(run_id, run.status, run.error, run.exit_code)
        if not self._db.run("reopen_run", id=run_id, now=self._db.now, lane=int(lane)):
            raise Conflict(f"run {run_id} has already been started again")
        self._db.run("drop_output", run_id=run_id)
        self._db.notify(News.WORK)

    def cancel(self, run_id: str, reason: str) -> str:
        """Cancel a run; returns `cancelled`, or `requested` when it is running.

        Raises NotFound, and Conflict when it has ended.
        """
        self._wakes.hold([run_id])
        if self._ends.cancel_queued([run_id], reason):
            return "cancelled"
        run = self.get_run(run_id)
        if run.status != "running":
            raise Conflict(f"run {run_id} has already finished: it is {run.status}")
        self._ends.ask_to_end(run_id, clean(reason) or "")
        return "requested"

    def withdraw(self, run_ids: Sequence[str], reason: str) -> list[str]:
        """Cancel those of these runs that were not started; returns their ids."""
        self._wakes.hold(run_ids)
        return self._ends.cancel_queued(run_ids, reason)

    def get_run(self, run_id: str) -> Run:
        """Raises NotFound."""
        row = self._db.one("get_run", id=run_id)
        if row is None:
            raise NotFound(f'run "{shorten(run_id)}" does not exist')
        return read_run(row, self._db.time)

    def get_runs(self, ids: list[str]) -> list[Run]:
        """In the order of the ids; omits those that do not exist."""
        if not ids:
            return []
        rows = self._db.all("list_runs_by_id", ids=ids)
        runs = {row[0]: read_run(row, self._db.time) for row in rows}
        return [runs[id_] for id_ in ids if id_ in runs]

    def list_active_of(self, ids: Sequence[str]) -> set[str]:
        """Those of these runs that have not ended."""
        return {row[0] for row in self._db.all("list_active_of", ids=list(ids))}

    def find_run(self, namespace: str, text: str) -> str:
        """The id of a run by its id or the beginning of it.

        Raises NotFound, and Invalid if it matches several.
        """
        rows = self._db.all("find_runs", namespace=namespace, prefix=text) if text else []
        if len(rows) > 1:
            raise Invalid(f'run "{shorten(text)}" matches several runs; give more of the id')
        if not rows:
            raise NotFound(f'run "{shorten(text)}" does not exist')
        return str(rows[0][0])

    def short_id(self, run_id: str) -> str:
        """The shortest unique beginning of a run's id."""
        others = self._db.one("get_neighbours", id=run_id) or ()
        length = SHORT_ID
        while any(other and other[:length] == run_id[:length] for other in others):
            length += 1
        return run_id[:length]

    def list_attempts(self, run_id: str) -> list[Attempt]:
        """Ended attempts that did not end the run; the oldest first."""
        time = self._db.time
        return [
            Attempt(
                number, node, time(claimed_at), time(finished_at), outcome, error, code, time(until)
            )
            for number, node, claimed_at, finished_at, outcome, error, code, until in self._db.all(
                "list_attempts", id=run_id
            )
        ]

    def list_runs_due(
        self, schedule_id: str, since: datetime, until: datetime, limit: int
    ) -> list[Run]:
        """The runs of due times from `since` to `until`, the first one first."""
        rows = self._db.all(
            "list_runs_due",
            schedule_id=schedule_id,
            since=since,
            until=until,
            limit=limit,
        )
        return [read_run(row, self._db.time) for row in rows]

    def count_backfill(
        self, schedule_id: str, since: datetime, until: datetime, queued_at: datetime
    ) -> dict[str, int]:
        """The runs that the backfill of that instant created or queued again, by status."""
        rows = self._db.all(
            "count_backfill", schedule_id=schedule_id, since=since, until=until, at=queued_at
        )
        return dict(rows)

    def list_log(self, run_id: str, after: Page, limit: int) -> list[tuple[Page, LogLine]]:
        rows = self._db.all(
            "list_log", run_id=run_id, attempt=after.attempt, seq=after.seq, limit=limit
        )
        return self._log_lines(rows)

    def list_log_end(self, run_id: str, limit: int) -> list[tuple[Page, LogLine]]:
        """The last lines of its log, the oldest of them first."""
        return self._log_lines(self._db.all("list_log_end", run_id=run_id, limit=limit))[::-1]

    def measure_log(self, run_id: str) -> list[LogSize]:
        """How long the log of each attempt was, and how much of it is kept."""
        return [LogSize(*row) for row in self._db.all("measure_log", run_id=run_id)]

    def _log_lines(self, rows: Iterable[Sequence[Any]]) -> list[tuple[Page, LogLine]]:
        return [
            (Page(attempt, seq), LogLine(self._db.time(at), stream, text))
            for attempt, seq, at, stream, text in rows
        ]

    def get_output(self, run_id: str) -> Any:
        """A large output; None when the run no longer has one."""
        text = self._db.value("get_output", run_id=run_id)
        return None if text is None else json.loads(text)

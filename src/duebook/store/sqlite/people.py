"""The people's part of a SQLite transaction: schedules, runs, ledger and logs."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.ids import looks_like_id
from duebook.model.plan import DueException, Plan, Reason, Skip, Snapshot
from duebook.model.run import Attempt, LogLine, Run
from duebook.store.base import LedgerEntry, Page
from duebook.store.sqlite.planning import Planning, ledger_row, state_row
from duebook.store.sqlite.rows import NewRun, moment, read_run, read_schedule, to_micros

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.schedule import Schedule, ScheduleSpec

__all__ = ["People"]


class People(Planning):
    """What the client's use cases need."""

    def create_schedule(
        self,
        schedule_id: str,
        namespace: str,
        name: str,
        spec: ScheduleSpec,
        next_due_at: datetime | None,
        by: str,
    ) -> None:
        now = to_micros(self.now)
        labels = json.dumps(dict(spec.labels))
        try:
            self._run(
                "insert_schedule",
                id=schedule_id,
                namespace=namespace,
                name=name,
                labels=labels,
                now=now,
                by=by,
            )
        except sqlite3.IntegrityError as error:
            raise Conflict(f'schedule "{name}" exists already; choose another name') from error
        text = json.dumps(spec.to_json())
        self._run("insert_revision", id=schedule_id, version=1, spec=text, now=now, by=by)
        due = to_micros(next_due_at)
        self._run("insert_state", id=schedule_id, now=now, next_due_at=due, wake_at=due)

    def find_schedule(self, namespace: str, name: str) -> str:
        row = self._one("find_schedule", namespace=namespace, name=name)
        if row is None and looks_like_id(name):
            schedule = self._one("get_schedule", id=name)
            row = schedule if schedule and schedule[1] == namespace else None
        if row is None:
            raise NotFound(f'schedule "{shorten(name)}" does not exist')
        return str(row[0])

    def get_schedule(self, schedule_id: str) -> Schedule:
        row = self._one("get_schedule", id=schedule_id)
        if row is None:
            raise NotFound(f'schedule "{shorten(schedule_id)}" does not exist')
        return read_schedule(row)

    def list_schedules(self, namespace: str, after: str, limit: int) -> list[Schedule]:
        rows = self._all("list_schedules", namespace=namespace, after=after, limit=limit)
        return [read_schedule(row) for row in rows]

    def list_upcoming(self, namespace: str, limit: int) -> list[Schedule]:
        rows = self._all("list_upcoming", namespace=namespace, limit=limit)
        return [read_schedule(row) for row in rows]

    def list_exceptions(self, schedule_id: str) -> list[DueException]:
        said = self._exceptions(json.dumps([schedule_id])).get(schedule_id, [])
        return sorted(said, key=lambda exception: exception.due_at)

    def pause(self, plan: Plan, reason: str | None) -> None:
        self._run(
            "commit_state",
            **state_row(plan)
            | {
                "status": "paused",
                "wake_at": None,
                "paused_at": to_micros(self.now),
                "pause_reason": reason,
            },
        )

    def delete_schedule(self, snapshot: Snapshot, skips: Sequence[Skip]) -> None:
        id_, now = snapshot.schedule_id, to_micros(self.now)
        common = {"session_id": None, "now": now}
        entries = (ledger_row(id_, snapshot.version, skip) | common for skip in skips)
        self._many("insert_ledger", entries)
        self._run("cancel_queued_runs", id=id_, now=now, reason=Reason.DELETED)
        self._run("delete_exceptions", id=id_)
        self._run("delete_state", id=id_)
        self._run("delete_schedule", id=id_, now=now)

    def add_exception(self, schedule_id: str, exception: DueException) -> None:
        self._run(
            "insert_exception",
            schedule_id=schedule_id,
            due_at=to_micros(exception.due_at),
            kind=exception.kind,
            moved_to=to_micros(exception.moved_to),
        )

    def remove_exception(self, schedule_id: str, exception: DueException) -> None:
        self._run(
            "delete_exception",
            schedule_id=schedule_id,
            due_at=to_micros(exception.due_at),
            kind=exception.kind,
        )

    def create_run(self, snapshot: Snapshot, run_id: str, payload: dict[str, Any] | None) -> None:
        spec, now = snapshot.spec, to_micros(self.now)
        pair = snapshot.schedule_id, snapshot.version
        row = NewRun(
            run_id,
            self._definitions([pair])[pair].namespace,
            *pair,
            due_at=None,
            origin="manual",
            trigger="manual",
            queue=spec.queue,
            priority=spec.priority,
            exclusive=spec.overlap != "allow",
            wakes=True,
            max_takeovers=spec.max_takeovers,
            payload=None if payload is None else json.dumps(payload),
            created_at=now,
            ready_at=now,
        )
        self._insert("insert_run", [row])

    def cancel(self, run_id: str, reason: str) -> str:
        now = to_micros(self.now)
        row = self._one("cancel_queued_run", id=run_id, now=now, reason=reason)
        if row:
            self._wake(*row)
            return "cancelled"
        run = self.get_run(run_id)
        if run.status != "running":
            raise Conflict(f"run {run_id} has ended already: {run.status}")
        self._run("request_cancel", id=run_id, now=now)
        return "requested"

    def find_run(self, namespace: str, text: str) -> str:
        rows = self._all("find_runs", namespace=namespace, prefix=text) if text else []
        if len(rows) > 1:
            raise Invalid(f'run "{shorten(text)}" may be one of several; write more of its id')
        if not rows:
            raise NotFound(f'run "{shorten(text)}" does not exist')
        return str(rows[0][0])

    def list_attempts(self, run_id: str) -> list[Attempt]:
        return [
            Attempt(number, node, moment(claimed_at), moment(finished_at), outcome, error, code)
            for number, node, claimed_at, finished_at, outcome, error, code in self._all(
                "list_attempts", id=run_id
            )
        ]

    def list_runs(self, namespace: str, schedule_id: str | None, limit: int) -> list[Run]:
        if schedule_id is None:
            rows = self._all("list_runs", namespace=namespace, limit=limit)
        else:
            rows = self._all("list_runs_of", schedule_id=schedule_id, limit=limit)
        return [read_run(row) for row in rows]

    def list_ledger(self, schedule_id: str, limit: int) -> list[LedgerEntry]:
        return [
            LedgerEntry(
                moment(first),
                moment(last),
                count,
                bool(exact),
                reason,
                json.loads(facts),
                moment(at),
            )
            for first, last, count, exact, reason, facts, at in self._all(
                "list_ledger", id=schedule_id, limit=limit
            )
        ]

    def list_log(self, run_id: str, after: Page, limit: int) -> list[tuple[Page, LogLine]]:
        rows = self._all(
            "list_log", run_id=run_id, attempt=after.attempt, seq=after.seq, limit=limit
        )
        return [
            (Page(attempt, seq), LogLine(moment(at), stream, text))
            for attempt, seq, at, stream, text in rows
        ]

"""The client: every use case of schedules and runs, one transaction each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.ids import check_name, looks_like_prefix, new_id
from duebook.model.plan import DueException
from duebook.model.schedule import InvalidSchedule, check_payload, load_spec
from duebook.model.target import payload_variables
from duebook.planner import plan, plan_end, plan_resume
from duebook.store.base import START, Page
from duebook.timetext import format_instant, parse_instant
from duebook.triggers.at import At

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Plan, Snapshot
    from duebook.model.run import Attempt, LogLine, Run
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.store.base import LedgerEntry, Store, Tx

    Attempts = list[Attempt]
    Entries = list[LedgerEntry]
    Listed = list[Schedule]
    Said = list[DueException]
    Lines = list[tuple[Page, LogLine]]

__all__ = ["Book", "Runs", "Schedules"]


class Book:
    """A namespace of the books; safe to use from several threads."""

    def __init__(self, store: Store, namespace: str = "default") -> None:
        self.store = store
        self.namespace = check_name(namespace, "namespace")
        self.schedules = Schedules(self)
        self.runs = Runs(self)

    def close(self) -> None:
        self.store.close()


class Schedules:
    """What people do with schedules. Every method takes a name or an id; raises NotFound."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def create(self, name: str, by: str = "", **definition: Any) -> Schedule:
        """A new schedule from `trigger`, `target`, `payload` and policies.

        Raises InvalidSchedule with every wrong field, and Conflict when the name is taken.
        """
        check_name(name)
        spec = load_spec(definition, name)

        def work(tx: Tx) -> Schedule:
            anchored = replace(spec, triggers=tuple(t.anchored(tx.now) for t in spec.triggers))
            _refuse_past(anchored, tx.now)
            schedule_id = new_id()
            due = [t.next_after(tx.now) for t in anchored.triggers]
            next_due_at = min((at for at in due if at is not None), default=None)
            if next_due_at is None:
                raise InvalidSchedule({"trigger": "trigger has no due time from now on"})
            tx.create_schedule(schedule_id, self._book.namespace, name, anchored, next_due_at, by)
            return tx.get_schedule(schedule_id)

        return self._book.store.transact(work)

    def get(self, name: str) -> Schedule:
        return self._book.store.read(lambda tx: tx.get_schedule(self._find(tx, name)))

    def list(self, after: str = "", limit: int = 100) -> list[Schedule]:
        """By name, from the one after `after` on."""
        namespace = self._book.namespace
        return self._book.store.read(lambda tx: tx.list_schedules(namespace, after, limit))

    def upcoming(self, limit: int = 3) -> Listed:
        """The active schedules that are due first."""
        namespace = self._book.namespace
        return self._book.store.read(lambda tx: tx.list_upcoming(namespace, limit))

    def exceptions(self, name: str) -> Said:
        """What was said about due times to come: skipped ones and moved ones."""
        return self._book.store.read(lambda tx: tx.list_exceptions(self._find(tx, name)))

    def delete(self, name: str) -> None:
        """Queued runs are cancelled, running ones finish, the name is free again."""

        def work(tx: Tx) -> None:
            snapshot = tx.snapshot(self._find(tx, name))
            tx.delete_schedule(snapshot, plan_end(snapshot, tx.now))

        self._book.store.transact(work)

    def pause(self, name: str, reason: str | None = None) -> Schedule:
        """No due time fires until `resume`; what is due up to now is decided first."""

        def work(tx: Tx) -> Schedule:
            snapshot = tx.snapshot(self._find(tx, name))
            if snapshot.status != "active":
                raise Conflict(f'schedule "{name}" is {snapshot.status}, not active')
            planned = plan(snapshot, tx.now)
            tx.commit([planned], None)
            tx.pause(planned, reason)
            return tx.get_schedule(snapshot.schedule_id)

        return self._book.store.transact(work)

    def resume(self, name: str) -> Schedule:
        """Go on; due times that fell meanwhile follow `on_resume`."""

        def work(tx: Tx) -> Schedule:
            snapshot = tx.snapshot(self._find(tx, name))
            if snapshot.status != "paused":
                raise Conflict(f'schedule "{name}" is {snapshot.status}, not paused')
            tx.commit([plan_resume(snapshot, tx.now)], None)
            return tx.get_schedule(snapshot.schedule_id)

        return self._book.store.transact(work)

    def trigger(self, name: str, payload: dict[str, Any] | None = None) -> Run:
        """A run now; uses up no due time, and is accepted also while paused.

        Raises Invalid for a payload that is no JSON object.
        """
        if payload is not None:
            payload_variables(check_payload("payload", payload))

        def work(tx: Tx) -> Run:
            snapshot, run_id = tx.snapshot(self._find(tx, name)), new_id()
            tx.create_run(snapshot, run_id, payload)
            return tx.get_run(run_id)

        return self._book.store.transact(work)

    def reschedule(self, name: str, at: str | datetime) -> Schedule:
        """Move only the next due time; an `at` that is not in the future fires at once."""
        moment = parse_instant(at)

        def work(tx: Tx) -> Schedule:
            snapshot, next_due_at = self._next(tx, name)
            origin = _where_from(snapshot, next_due_at)
            if origin != next_due_at:
                tx.remove_exception(snapshot.schedule_id, DueException(next_due_at, "moved_here"))
            away = DueException(origin, "moved_away", moment)
            here = DueException(moment, "moved_here")
            return self._say(tx, snapshot, away, here)

        return self._book.store.transact(work)

    def skip_next(self, name: str) -> tuple[Schedule, datetime]:
        """Leave the next due time out; returns which one that was."""

        def work(tx: Tx) -> tuple[Schedule, datetime]:
            snapshot, next_due_at = self._next(tx, name)
            return self._say(tx, snapshot, DueException(next_due_at, "skip")), next_due_at

        return self._book.store.transact(work)

    def ledger(self, name: str, limit: int = 20) -> Entries:
        """The newest due times that did not become runs, and why."""
        return self._book.store.read(lambda tx: tx.list_ledger(self._find(tx, name), limit))

    def _find(self, tx: Tx, name: str) -> str:
        return tx.find_schedule(self._book.namespace, name)

    def _next(self, tx: Tx, name: str) -> tuple[Snapshot, datetime]:
        """The schedule with everything due decided, and its next due time."""
        schedule_id = self._find(tx, name)
        snapshot = tx.snapshot(schedule_id)
        if snapshot.status != "active":
            raise Conflict(f'schedule "{name}" is {snapshot.status}, not active')
        tx.commit([plan(snapshot, tx.now)], None)
        next_due_at = tx.get_schedule(schedule_id).next_due_at
        if next_due_at is None:
            raise Conflict(f'schedule "{name}" has no next due time')
        return tx.snapshot(schedule_id), next_due_at

    def _say(self, tx: Tx, snapshot: Snapshot, *exceptions: DueException) -> Schedule:
        """Record what a person said about due times, and plan anew with it."""
        for exception in exceptions:
            tx.add_exception(snapshot.schedule_id, exception)
        planned: Plan = plan(tx.snapshot(snapshot.schedule_id), tx.now)
        tx.commit([planned], None)
        return tx.get_schedule(snapshot.schedule_id)


def _where_from(snapshot: Snapshot, due_at: datetime) -> datetime:
    """The trigger's own due time that was moved to `due_at`; itself when it was not moved."""
    moved = (e.due_at for e in snapshot.exceptions if e.moved_to == due_at)
    return next(moved, due_at)


def _refuse_past(spec: ScheduleSpec, now: datetime) -> None:
    for trigger in spec.triggers:
        if isinstance(trigger, At) and trigger.instant <= now:
            raise InvalidSchedule(
                {"trigger": f"at {format_instant(trigger.instant)} is in the past"}
            )


class Runs:
    """What people do with runs. Every method takes an id or the beginning of one."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def get(self, run_id: str) -> Run:
        """Raises NotFound, also for the runs of other namespaces."""
        return self._book.store.read(lambda tx: self._find(tx, run_id))

    def list(self, schedule: str | None = None, limit: int = 20) -> list[Run]:
        """The newest first."""
        namespace = self._book.namespace

        def work(tx: Tx) -> list[Run]:
            schedule_id = None if schedule is None else tx.find_schedule(namespace, schedule)
            return tx.list_runs(namespace, schedule_id, limit)

        return self._book.store.read(work)

    def cancel(self, run_id: str) -> str:
        """`cancelled`, or `requested` when it runs; raises Conflict when it has ended."""

        def work(tx: Tx) -> str:
            return tx.cancel(self._find(tx, run_id).id, "cancelled")

        return self._book.store.transact(work)

    def attempts(self, run_id: str) -> Attempts:
        """The attempts that ended while the run went on; the oldest first."""
        return self._book.store.read(lambda tx: tx.list_attempts(self._find(tx, run_id).id))

    def log(self, run_id: str, after: Page = START, limit: int = 1_000) -> Lines:
        """Lines from a place on, with the place of each."""
        if limit < 1:
            raise Invalid(f"limit {limit} is no number from 1 on")

        def work(tx: Tx) -> Lines:
            return tx.list_log(self._find(tx, run_id).id, after, limit)

        return self._book.store.read(work)

    def _find(self, tx: Tx, run_id: str) -> Run:
        if not looks_like_prefix(run_id):
            raise NotFound(f'run "{shorten(run_id)}" does not exist; an id looks like {new_id()}')
        return tx.get_run(tx.find_run(self._book.namespace, run_id))

"""Use cases of schedules: define, change, pause, move, backfill."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from duebook.book.actions import delete_all, refuse_past_end
from duebook.book.backfill import fill, find_missing, find_queued, read_filling
from duebook.book.bulk import (
    act_on,
    act_on_named,
)
from duebook.book.defining import ScheduleDefiner, refuse_state
from duebook.book.due_times import reschedule, restore, skip_next
from duebook.book.manual_runs import begin
from duebook.book.quotas import refuse_large_payload
from duebook.book.schedule_reader import read_range, with_latest
from duebook.errors import Invalid, NotFound, shorten
from duebook.model.acted import ACTIONS, BackfillProgress, Pause, Withdrawn
from duebook.model.fields import check_payload, read_text
from duebook.model.filters import load_schedule_filter
from duebook.model.target import CommandTarget, payload_variables
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.book.schedule_reader import Moments
    from duebook.model.acted import Acted, Action
    from duebook.model.plan import Snapshot
    from duebook.model.run import Run
    from duebook.model.schedule import Schedule
    from duebook.store.base import Tx

    # inside the class below `list` is a method
    NameList = list[str]
    RunList = list[Run]

__all__ = ["Schedules"]

WITHDRAWN_AT_ONCE: Final = 500
"""Runs that one transaction withdraws."""


class Schedules(ScheduleDefiner):
    """Create, change and run schedules. Every method takes a name or an id; raises NotFound."""

    def act(
        self,
        action: Action,
        filter: Mapping[str, Any],  # noqa: A002 - that is what it is called everywhere
        dry_run: bool = False,
        reason: str | None = None,
        until: str | datetime | None = None,
    ) -> Acted:
        """`pause`, `resume`, `delete`, `trigger` or `skip_next` all schedules that match a filter.

        The filter is that of `list`; {"text": "*"} matches all. Schedules in another state are left
        unchanged. With `dry_run` they are only counted. The work is done in batches, each in a
        transaction: after a failure, call it again to do the rest. `reason` and `until` are for a
        pause. Raises InvalidFilter, and Invalid for an empty filter or an `until` in the past.
        """
        pause = _read_action(action, reason, until)
        if not any(value is not None for value in filter.values()):
            raise Invalid('the filter is empty; to select all schedules, use text "*"')
        wanted = load_schedule_filter(dict(filter))
        return act_on(self._store, self._audit, action, wanted, dry_run, pause)

    def act_on(
        self,
        action: Action,
        names: Sequence[str],
        reason: str | None = None,
        until: str | datetime | None = None,
    ) -> NameList:
        """Like `act`, for schedules by name, in one transaction; returns the names that changed.

        Meant for a small selection.
        """
        pause = _read_action(action, reason, until)
        return act_on_named(self._store, self._audit, action, names, pause)

    def delete(self, name: str, version: int | None = None) -> None:
        """Delete a schedule: queued runs are cancelled, running ones finish, its name is free.

        Raises Conflict if `version` is not the latest.
        """

        def work(tx: Tx) -> None:
            schedule = self._of_version(tx, name, version)
            if not delete_all(tx, self._audit, [schedule.id]):
                raise NotFound(f'schedule "{schedule.name}" has been deleted')

        self._store.transact(work)

    def pause(
        self, name: str, reason: str | None = None, until: str | datetime | None = None
    ) -> Schedule:
        """Pause a schedule: due times wait until `resume`, or until `until`.

        Raises Conflict if it is not active, and Invalid for an `until` in the past.
        """
        pause = _read_action("pause", reason, until)

        def work(tx: Tx) -> Schedule:
            schedule = tx.schedules.get_schedule(self._find(tx, name))
            refuse_state(name, schedule.status, "active")
            refuse_past_end(tx, pause)
            return with_latest(tx, self._do(tx, "pause", schedule, pause))

        return self._store.transact(work)

    def resume(self, name: str) -> Schedule:
        """Resume a schedule; due times that fell during the pause follow `on_resume`."""

        def work(tx: Tx) -> Schedule:
            schedule = tx.schedules.get_schedule(self._find(tx, name))
            refuse_state(name, schedule.status, "paused")
            return with_latest(tx, self._do(tx, "resume", schedule))

        return self._store.transact(work)

    def trigger(self, name: str, payload: dict[str, Any] | None = None) -> Run:
        """Queue a run now, in addition to the due times; also works while the schedule is paused.

        Raises Invalid for a payload that is not a JSON object or does not match the task.
        """
        if payload is not None:
            check_payload("payload", payload)

        def work(tx: Tx) -> Run:
            snapshot = tx.plans.snapshot(self._find(tx, name))
            self._tasks.refuse_fenced(snapshot.spec.target, self._namespace)
            if payload is not None:
                if isinstance(snapshot.spec.target, CommandTarget):
                    payload_variables(payload)
                self._tasks.check(snapshot.spec.target, payload)
                refuse_large_payload(tx, self._namespace, payload)
            run_id = begin(tx, snapshot, payload, self._audit.by)
            self._audit.told(tx, "trigger", snapshot, run_id=run_id)
            return tx.runs.get_run(run_id)

        return self._store.transact(work)

    def reschedule(
        self, name: str, at: str | datetime, due_at: str | datetime | None = None
    ) -> Schedule:
        """Move only the next due time; if `at` is not in the future, it runs immediately.

        Raises Conflict for a due time that has already been decided, and if `due_at` is given but
        is not the next due time.
        """
        moment, meant = parse_instant(at), None if due_at is None else parse_instant(due_at)

        def work(tx: Tx) -> Schedule:
            moved = reschedule(tx, self._audit, self._active(tx, name), moment, meant)
            return with_latest(tx, moved)

        return self._store.transact(work)

    def skip_next(
        self, name: str, due_at: str | datetime | None = None
    ) -> tuple[Schedule, datetime]:
        """Skip the next due time, and return it.

        Raises Conflict if `due_at` is given but is not the next due time.
        """
        meant = None if due_at is None else parse_instant(due_at)

        def work(tx: Tx) -> tuple[Schedule, datetime]:
            left, due = skip_next(tx, self._audit, self._active(tx, name), meant)
            return with_latest(tx, left), due

        return self._store.transact(work)

    def restore(self, name: str, at: str | datetime) -> Schedule:
        """Undo a skip or a move of a future due time.

        Raises Conflict if it was not skipped or moved, or has already been decided.
        """
        moment = parse_instant(at)

        def work(tx: Tx) -> Schedule:
            restored = restore(tx, self._audit, self._active(tx, name), moment)
            return with_latest(tx, restored)

        return self._store.transact(work)

    def backfill(
        self,
        name: str,
        start: str | datetime,
        end: str | datetime,
        reprocess: str | None = None,
        dry_run: bool = False,
        concurrency: int | None = None,
        beside: bool = False,
    ) -> RunList | Moments:
        """Queue runs for past due times from `start` to `end` that have no run.

        `reprocess="failed"` or `"all"` also starts existing runs again, as new attempts. With
        `dry_run` nothing is queued, and the due times that would run are returned.

        At most `concurrency` of them run at once; more than one needs `overlap="allow"`, or
        `beside=True`, which lets them run beside each other and beside the schedule's other runs.

        Raises Invalid for a range that ends in the future, starts before the retention period, or
        has too many due times, and for a `concurrency` that the schedule does not allow.
        """
        since, until = read_range(start, end)
        if reprocess not in (None, "failed", "all"):
            raise Invalid(f'reprocess "{shorten(reprocess)}" is not one of failed, all')

        def work(tx: Tx) -> RunList | Moments:
            snapshot = tx.plans.snapshot(self._find(tx, name))
            how = read_filling(snapshot.spec, concurrency, beside, self._audit.by)
            missing, again = find_missing(tx, snapshot, since, until, reprocess)
            if dry_run:
                return sorted([*missing, *(run.due_at for run in again if run.due_at)])
            if queued := fill(tx, snapshot, missing, again, how):
                told: dict[str, Any] = {"start": since, "end": until, "reprocess": reprocess}
                told |= {"concurrency": concurrency, "beside": beside or None}
                self._audit.told(tx, "backfill", snapshot, **told, runs=len(queued))
            return [tx.runs.get_run(run_id) for run_id in queued]

        return self._store.read(work) if dry_run else self._store.transact(work)

    def undo_backfill(
        self,
        name: str,
        start: str | datetime,
        end: str | datetime,
        queued_at: str | datetime,
    ) -> Withdrawn:
        """Cancel the runs of a backfill from `start` to `end` that have not started.

        `queued_at` identifies the backfill: it is the `ready_at` of the runs that it returned.
        """
        since, until = read_range(start, end)
        moment = parse_instant(queued_at)
        idle, begun = self._store.read(
            lambda tx: find_queued(tx, self._find(tx, name), since, until, moment)
        )
        cancelled = 0
        while idle:
            some, idle = idle[:WITHDRAWN_AT_ONCE], idle[WITHDRAWN_AT_ONCE:]
            taken = self._store.transact(partial(self._withdraw, name=name, run_ids=some))
            cancelled, begun = cancelled + taken, begun + len(some) - taken
        return Withdrawn(cancelled, begun)

    def backfill_progress(
        self,
        name: str,
        start: str | datetime,
        end: str | datetime,
        queued_at: str | datetime,
    ) -> BackfillProgress:
        """Count the runs of a backfill from `start` to `end` by their status.

        `queued_at` identifies the backfill, as in `undo_backfill`.
        """
        (since, until), moment = read_range(start, end), parse_instant(queued_at)
        return self._store.read(
            lambda tx: BackfillProgress(
                **tx.runs.count_backfill(self._find(tx, name), since, until, moment)
            )
        )

    def _withdraw(self, tx: Tx, name: str, run_ids: Sequence[str]) -> int:
        snapshot = tx.plans.snapshot(self._find(tx, name))
        taken = len(tx.runs.withdraw(run_ids, "cancelled"))
        if taken:
            self._audit.told(tx, "undo_backfill", snapshot, runs=taken)
        return taken

    def _active(self, tx: Tx, name: str) -> Snapshot:
        snapshot = tx.plans.snapshot(self._find(tx, name))
        refuse_state(name, snapshot.status, "active")
        return snapshot


def _read_action(action: str, reason: str | None, until: str | datetime | None) -> Pause:
    """The options of an action, if it is a pause; raises Invalid."""
    if action not in ACTIONS:
        raise Invalid(f'action "{shorten(action)}" is not one of {", ".join(ACTIONS)}')
    if until is not None and action != "pause":
        raise Invalid(f"until can be used only with pause, not with {action}")
    if reason is not None:
        read_text("reason", reason)
    return Pause(reason, None if until is None else parse_instant(until))

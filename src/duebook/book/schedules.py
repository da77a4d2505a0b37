"""What people do with schedules: define, change, pause, move, fill."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from duebook.book.actions import STATES, act, delete_all, refuse_past_end
from duebook.book.audit import ScheduleAudit
from duebook.book.backfill import fill, find_missing, find_queued
from duebook.book.bulk import (
    Wanted,
    act_on,
    act_on_named,
    as_made,
    create_all,
    first_state,
    read_all,
)
from duebook.book.calendar_use import look_up
from duebook.book.checks import (
    check_definition,
    named_spec,
    refuse_circle,
    refuse_payload,
)
from duebook.book.due_times import reschedule, restore, skip_next
from duebook.book.editing import current_spec, form_after, put_in_force
from duebook.book.manual_runs import begin
from duebook.book.quotas import admit, refuse_large_payload
from duebook.book.rights import UNLIMITED, Rights
from duebook.book.schedule_reader import LAST, ScheduleReader, read_edit, read_range, with_latest
from duebook.book.templates import find_template, target_of
from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.model.acted import ACTIONS, Pause, Withdrawn
from duebook.model.aliases import read_enabled
from duebook.model.definition import load_changes
from duebook.model.edited import Drafted
from duebook.model.fields import check_payload, read_text
from duebook.model.filters import load_schedule_filter
from duebook.model.listing import Listing
from duebook.model.target import CommandTarget, payload_variables
from duebook.planner import (
    DueTimes,
)
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Unpack

    from duebook.book.schedule_reader import Listed, Moments
    from duebook.budget import Budget
    from duebook.model.acted import Acted, Action
    from duebook.model.plan import Snapshot
    from duebook.model.policies import Definition
    from duebook.model.run import Run
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.template import ScheduleTemplate
    from duebook.store.base import Store, Tx
    from duebook.targets.task import Tasks

    # inside the class below `list` is a method
    NameList = list[str]
    RunList = list[Run]

__all__ = ["Declared", "Schedules"]

Declared = Literal["created", "changed", "unchanged"]
NO_PAUSE: Final = Pause()
WITHDRAWN_AT_ONCE: Final = 500
"""Runs that one transaction takes back."""


class Schedules(ScheduleReader):
    """Create, change and run schedules. Every method takes a name or an id; raises NotFound."""

    def __init__(
        self,
        store: Store,
        namespace: str,
        tasks: Tasks | None = None,
        by: str = "",
        budget: Budget | None = None,
        rights: Rights = UNLIMITED,
    ) -> None:
        super().__init__(store, namespace, tasks, budget, rights)
        self._audit = ScheduleAudit(namespace, by)

    @overload
    def create(self, name: str, by: str = "", **definition: Unpack[Definition]) -> Schedule: ...

    @overload
    def create(
        self, name: str, by: str = "", *, template: str | None, **definition: Any
    ) -> Schedule: ...

    def create(
        self, name: str, by: str = "", template: str | None = None, **definition: Any
    ) -> Schedule:
        """Create a schedule from `trigger`, `target`, `payload` and policies.

        A `template` supplies the fields that are not given here; a field that is None gets
        Duebook's own default. With `enabled=False` (or `active=False`) it is created paused.

        Raises InvalidSchedule with every wrong field, NotFound for the template, Conflict if the
        name is taken, QuotaReached if a quota of the namespace is used up, and Forbidden for a
        target that only admins may define, unless it comes from the template.
        """
        given = None
        if template is not None:
            found = self._store.read(lambda tx: find_template(tx, self._namespace, template))
            definition, given = load_changes(found.defaults, definition), target_of(found)
        definition, enabled, wrong = read_enabled(definition)
        spec = check_definition(name, definition, self._tasks, wrong, self._namespace)
        wanted = Wanted(name, spec, enabled is not False, given)
        return self._store.transact(lambda tx: self._create(tx, wanted, by))

    def _create(self, tx: Tx, wanted: Wanted, by: str) -> Schedule:
        self._rights.refuse(tx, wanted.spec.target, wanted.template_target)
        wanted = replace(wanted, spec=look_up(tx, self._namespace, wanted.spec))
        new = first_state(wanted, self._namespace, tx.now)
        refuse_circle(tx, self._namespace, new.name, new.spec)
        maker = by or self._audit.by
        tx.schedules.create_schedules([new], maker, tx.now)
        admit(tx, self._namespace, [(new.name, new.spec)], None)
        self._audit.created(tx, [new], maker)
        return as_made(new, tx.now, maker)

    def preview_create(self, name: str, count: int = 10, **definition: Any) -> Drafted:
        """Show what `create` would create, and its next due times, without creating it.

        Raises InvalidSchedule and Forbidden as `create` does, and Conflict if the name is taken.
        """
        spec = check_definition(name, definition, self._tasks, {}, self._namespace)

        def work(tx: Tx) -> Drafted:
            self._rights.refuse(tx, spec.target)
            found = look_up(tx, self._namespace, spec)
            new = first_state(Wanted(name, found, enabled=True), self._namespace, tx.now)
            if tx.schedules.list_taken(self._namespace, [name]):
                raise Conflict(f'schedule "{name}" already exists; choose another name')
            due = DueTimes(new.spec, (), tx.now, name, self._budget).among(tx.now, LAST)
            most = count if spec.max_runs is None else min(count, spec.max_runs)
            return Drafted(new.spec, list(islice(due, most)))

        return self._store.read(work)

    def create_many(self, definitions: Iterable[Mapping[str, Any]], by: str = "") -> Listed:
        """Create up to 10,000 schedules, all or none, from objects with a `name` and the arguments
        of `create`.

        Raises InvalidSchedule with every wrong field, such as `schedules[17].trigger`, including
        names that are taken; QuotaReached; and Forbidden.
        """

        @cache
        def template(name: str) -> ScheduleTemplate:
            return self._store.read(lambda tx: find_template(tx, self._namespace, name))

        wanted = read_all(definitions, template, self._tasks, self._namespace)
        return Listing(create_all(self._store, wanted, self._audit, self._rights, by))

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

    def declare(self, name: str, by: str, **definition: Any) -> tuple[Schedule, Declared]:
        """Like `create` if the name is new; otherwise change the schedule to this definition.

        An unchanged schedule stays as it is. Raises Conflict for a schedule that was not created
        by `by`.
        """
        spec = named_spec(name, definition)
        refuse_payload(self._tasks, spec, self._namespace)

        def work(tx: Tx) -> tuple[Schedule, Declared]:
            try:
                schedule = tx.schedules.get_schedule(
                    tx.schedules.find_schedule(self._namespace, name)
                )
            except NotFound:
                return self._create(tx, Wanted(name, spec, enabled=True), by), "created"
            if schedule.created_by != by:
                maker = f'by "{schedule.created_by}"' if schedule.created_by else "manually"
                raise Conflict(
                    f'schedule "{name}" was created {maker}, so code does not change it; delete it '
                    "first, or rename the task"
                )
            edited = self._edit(tx, schedule, spec, by)
            return edited, "unchanged" if edited.version == schedule.version else "changed"

        try:
            return self._store.transact(work)
        except Conflict:  # perhaps another node of the same program made it just now
            return self._store.transact(work)

    def _edit(self, tx: Tx, schedule: Schedule, spec: ScheduleSpec, by: str) -> Schedule:
        maker = ScheduleAudit(self._namespace, by) if by else self._audit
        return put_in_force(tx, schedule, spec, self._tasks, self._rights, maker)

    def update(
        self, name: str, by: str = "", version: int | None = None, **changes: Any
    ) -> Schedule:
        """Change some fields of the definition; None resets a policy to its default.

        `enabled` (or `active`) pauses or resumes it.

        Pending due times follow the new definition; due times that only the old definition had are
        recorded as `edited`. A hidden value (`***`) in a target stays unchanged. If the stored
        definition cannot be read, readable fields are kept and the others must be given. If the
        change widens catch-up, `notes` contains the backfill command for due times that were
        recorded as missed. Raises InvalidSchedule, Conflict if `version` is not the latest, and
        Forbidden for a new target that only admins may define.
        """

        def work(tx: Tx) -> Schedule:
            schedule = self._of_version(tx, name, version)
            current, form = form_after(tx, schedule, changes)
            return self._put(tx, schedule, current, form, by)

        return self._store.transact(work)

    def replace(
        self, name: str, by: str = "", version: int | None = None, **definition: Any
    ) -> Schedule:
        """Replace the whole definition: fields that are not given get their defaults.

        Otherwise like `update`.
        """

        def work(tx: Tx) -> Schedule:
            schedule = self._of_version(tx, name, version)
            return self._put(tx, schedule, current_spec(tx, schedule), definition, by)

        return self._store.transact(work)

    def _put(
        self,
        tx: Tx,
        schedule: Schedule,
        current: ScheduleSpec,
        form: dict[str, Any],
        by: str,
    ) -> Schedule:
        """Put a form in force, and switch the schedule on or off if it says so."""
        spec, enabled = read_edit(form, current, schedule.name)
        edited = self._edit(tx, schedule, spec, by)
        switched = edited if enabled is None else self._switch(tx, edited, enabled)
        return with_latest(tx, replace(switched, notes=edited.notes))

    def _switch(self, tx: Tx, schedule: Schedule, enabled: bool) -> Schedule:
        """Pause or resume, unless it is so already."""
        if enabled == (schedule.status != "paused"):
            return schedule
        if enabled:
            return self._do(tx, "resume", schedule)
        return self._do(tx, "pause", schedule) if schedule.status == "active" else schedule

    def _do(self, tx: Tx, action: Action, schedule: Schedule, pause: Pause = NO_PAUSE) -> Schedule:
        """Raises Conflict when it is not in the state for it."""
        if not act(tx, self._audit, action, [schedule.id], pause):
            status = tx.schedules.get_schedule(schedule.id).status
            _refuse_state(schedule.name, status, STATES[action])
        return tx.schedules.get_schedule(schedule.id)

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
            _refuse_state(name, schedule.status, "active")
            refuse_past_end(tx, pause)
            return with_latest(tx, self._do(tx, "pause", schedule, pause))

        return self._store.transact(work)

    def resume(self, name: str) -> Schedule:
        """Resume a schedule; due times that fell during the pause follow `on_resume`."""

        def work(tx: Tx) -> Schedule:
            schedule = tx.schedules.get_schedule(self._find(tx, name))
            _refuse_state(name, schedule.status, "paused")
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
            run_id = begin(tx, snapshot, payload)
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
    ) -> RunList | Moments:
        """Queue runs for past due times from `start` to `end` that have no run.

        `reprocess="failed"` or `"all"` also starts existing runs again, as new attempts. With
        `dry_run` nothing is queued, and the due times that would run are returned. Raises Invalid
        for a range that ends in the future, starts before the retention period, or has too many due
        times.
        """
        since, until = read_range(start, end)
        if reprocess not in (None, "failed", "all"):
            raise Invalid(f'reprocess "{shorten(reprocess)}" is not one of failed, all')

        def work(tx: Tx) -> RunList | Moments:
            snapshot = tx.plans.snapshot(self._find(tx, name))
            missing, again = find_missing(tx, snapshot, since, until, reprocess)
            if dry_run:
                return sorted([*missing, *(run.due_at for run in again if run.due_at)])
            if queued := fill(tx, snapshot, missing, again):
                times = {"start": since, "end": until}
                how = {"reprocess": reprocess, "runs": len(queued)}
                self._audit.told(tx, "backfill", snapshot, **times, **how)
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

    def _withdraw(self, tx: Tx, name: str, run_ids: Sequence[str]) -> int:
        snapshot = tx.plans.snapshot(self._find(tx, name))
        taken = len(tx.runs.withdraw(run_ids, "cancelled"))
        if taken:
            self._audit.told(tx, "undo_backfill", snapshot, runs=taken)
        return taken

    def _of_version(self, tx: Tx, name: str, version: int | None) -> Schedule:
        schedule = tx.schedules.get_schedule(self._find(tx, name))
        if version is not None and version != schedule.version:
            raise Conflict(
                f'schedule "{schedule.name}" has version {schedule.version}, not {version}; '
                "read it again"
            )
        return schedule

    def _active(self, tx: Tx, name: str) -> Snapshot:
        snapshot = tx.plans.snapshot(self._find(tx, name))
        _refuse_state(name, snapshot.status, "active")
        return snapshot


def _refuse_state(name: str, status: str, needed: str) -> None:
    if status != needed:
        raise Conflict(f'schedule "{name}" is {status}, not {needed}')


def _read_action(action: str, reason: str | None, until: str | datetime | None) -> Pause:
    """What an action has besides, if it is a pause; raises Invalid."""
    if action not in ACTIONS:
        raise Invalid(f'action "{shorten(action)}" is not one of {", ".join(ACTIONS)}')
    if until is not None and action != "pause":
        raise Invalid(f"until can be used only with pause, not with {action}")
    if reason is not None:
        read_text("reason", reason)
    return Pause(reason, None if until is None else parse_instant(until))

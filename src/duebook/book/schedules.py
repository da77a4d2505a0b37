"""What people do with schedules: define, change, pause, move, fill."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from duebook.book.audit import ScheduleAudit
from duebook.book.backfill import fill, find_missing, find_queued
from duebook.book.bulk import (
    Wanted,
    act_on,
    act_on_named,
    create_all,
    first_state,
    read_all,
    refuse_past_end,
)
from duebook.book.checks import (
    check_definition,
    named_spec,
    refuse_circle,
    refuse_decided,
    refuse_past,
    refuse_payload,
    refuse_templates,
)
from duebook.book.editing import current_spec, find_unreadable, form_after, target_in_force
from duebook.book.manual_runs import begin
from duebook.book.quotas import admit, refuse_large_payload
from duebook.book.rights import UNLIMITED, Rights
from duebook.book.schedule_reader import LAST, ScheduleReader, read_edit, read_range, with_latest
from duebook.book.templates import find_template, target_of
from duebook.book.widening import find_missed
from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.model.acted import ACTIONS, Pause, Withdrawn
from duebook.model.aliases import read_enabled
from duebook.model.definition import load_changes
from duebook.model.edited import Drafted
from duebook.model.fields import check_payload, read_text
from duebook.model.filters import load_schedule_filter
from duebook.model.listing import Listing
from duebook.model.plan import DueException
from duebook.model.target import CommandTarget, payload_variables
from duebook.planner import (
    DueTimes,
    pause_unread,
    plan,
    plan_edit,
    plan_end,
    plan_pause,
    plan_repair,
    plan_resume,
    resume_unread,
    upcoming,
)
from duebook.timetext import format_instant, parse_instant

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
WITHDRAWN_AT_ONCE: Final = 500
"""Runs that one transaction takes back."""


class Schedules(ScheduleReader):
    """What people do with schedules. Every method takes a name or an id; raises NotFound."""

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
        """A new schedule from `trigger`, `target`, `payload` and policies.

        A `template` gives the fields that are not given here; a field that is None has Duebook's
        own default. One that is not `enabled` (or `active`) begins paused.

        Raises InvalidSchedule with every wrong field, NotFound for the template, Conflict when the
        name is taken, QuotaReached when the namespace has no room, and Forbidden for a target that
        only admins define, unless the template gives it.
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
        new = first_state(wanted, self._namespace, tx.now)
        refuse_circle(tx, self._namespace, new.name, new.spec)
        maker = by or self._audit.by
        tx.schedules.create_schedules([new], maker, tx.now)
        admit(tx, self._namespace, [(new.name, new.spec)], None)
        self._audit.created(tx, [new], maker)
        return tx.schedules.get_schedule(new.id)

    def preview_create(self, name: str, count: int = 10, **definition: Any) -> Drafted:
        """What `create` would make, and when that is due next; nothing is made.

        Raises InvalidSchedule and Forbidden as `create` does, and Conflict when the name is taken.
        """
        spec = check_definition(name, definition, self._tasks, {}, self._namespace)

        def work(tx: Tx) -> Drafted:
            self._rights.refuse(tx, spec.target)
            new = first_state(Wanted(name, spec, enabled=True), self._namespace, tx.now)
            if self._exists(tx, name):
                raise Conflict(f'schedule "{name}" exists already; choose another name')
            due = DueTimes(new.spec, (), tx.now, name, self._budget).among(tx.now, LAST)
            most = count if spec.max_runs is None else min(count, spec.max_runs)
            return Drafted(new.spec, list(islice(due, most)))

        return self._store.read(work)

    def create_many(self, definitions: Iterable[Mapping[str, Any]], by: str = "") -> Listed:
        """Up to 10,000 new schedules at once, all or none: objects with `name` and what `create`
        takes.

        Raises InvalidSchedule with what is wrong with any of them, named as
        `schedules[17].trigger`, names that are taken included, QuotaReached, and Forbidden.
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
        """`pause`, `resume`, `delete`, `trigger` or `skip_next` all schedules that a filter finds.

        The filter is that of `list`; {"text": "*"} finds all. Those that are not in the state for
        it are left alone. With `dry_run` nothing happens but the count. It is done in batches, each
        in a transaction: what a failure leaves undone is done when it is called again. `reason` and
        `until` are those of a pause. Raises InvalidFilter, and Invalid for an empty one, and for an
        `until` that is not to come.
        """
        pause = _read_action(action, reason, until)
        if not any(value is not None for value in filter.values()):
            raise Invalid('filter: an empty one is refused; text "*" finds all schedules')
        wanted = load_schedule_filter(dict(filter))
        return act_on(self._store, self._audit, action, wanted, dry_run, pause)

    def act_on(
        self,
        action: Action,
        names: Sequence[str],
        reason: str | None = None,
        until: str | datetime | None = None,
    ) -> NameList:
        """As `act`, to those of these names, all in one transaction; returns to which it was done.

        It is for as many as a person chooses.
        """
        pause = _read_action(action, reason, until)
        return act_on_named(self._store, self._audit, action, names, pause)

    def declare(self, name: str, by: str, **definition: Any) -> tuple[Schedule, Declared]:
        """As `create` when there is none of that name, otherwise an edit to the whole of this.

        One that says nothing new stays as it is. Raises Conflict for a schedule that was made by
        somebody else than `by`.
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
                maker = (
                    f'made by "{schedule.created_by}"' if schedule.created_by else "made by hand"
                )
                raise Conflict(
                    f'schedule "{name}" was {maker}, so code does not change it; delete it first, '
                    "or give the task another name"
                )
            edited = self._edit(tx, schedule, spec, by)
            return edited, "unchanged" if edited.version == schedule.version else "changed"

        try:
            return self._store.transact(work)
        except Conflict:  # perhaps another node of the same program made it just now
            return self._store.transact(work)

    def _edit(self, tx: Tx, schedule: Schedule, spec: ScheduleSpec, by: str) -> Schedule:
        """Put a definition in force by the edit rule; what says nothing new changes nothing."""
        salvaged = find_unreadable(tx, schedule)
        snapshot = tx.plans.snapshot(schedule.id) if salvaged is None else salvaged.snapshot
        spec = spec.anchored(schedule.created_at)
        if spec == snapshot.spec and salvaged is None:
            return schedule
        self._rights.refuse(tx, spec.target, target_in_force(snapshot, salvaged))
        refuse_templates(spec)
        refuse_payload(self._tasks, spec, self._namespace)
        if spec.triggers != snapshot.spec.triggers:
            refuse_past(spec, tx.now)
        refuse_circle(tx, schedule.namespace, schedule.name, spec)
        if salvaged is None:
            planned = plan_edit(snapshot, spec, tx.now)
        else:
            planned = plan_repair(salvaged, spec, tx.now)
        maker = by or self._audit.by
        tx.schedules.update_schedule(schedule, spec, planned, maker)
        admit(tx, schedule.namespace, [(schedule.name, spec)], snapshot.spec)
        self._audit.edited(tx, schedule, snapshot.spec, spec, maker)
        missed = find_missed(tx, schedule, snapshot, spec)
        edited = tx.schedules.get_schedule(schedule.id)
        return replace(edited, notes=(missed.note,)) if missed else edited

    def update(
        self, name: str, by: str = "", version: int | None = None, **changes: Any
    ) -> Schedule:
        """Change some fields of the definition; None puts a policy back to its default.

        `enabled` (or `active`) pauses it, or resumes it.

        What is pending follows the new definition; what only the old one knew is recorded as
        edited. What a target hides when it is shown stays as it is when it is given so. Of a
        definition that cannot be read, the fields that can stay, and the others must be given.
        When catch-up is widened, `notes` names the backfill of what was recorded as missed. Raises
        InvalidSchedule, Conflict when `version` is no longer the latest, and Forbidden for a new
        target that only admins define.
        """

        def work(tx: Tx) -> Schedule:
            schedule = self._of_version(tx, name, version)
            current, form = form_after(tx, schedule, changes)
            return self._put(tx, schedule, current, form, by)

        return self._store.transact(work)

    def replace(
        self, name: str, by: str = "", version: int | None = None, **definition: Any
    ) -> Schedule:
        """Put a whole definition in force: what is not given is at its default.

        Otherwise as `update`.
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
            return self._resume(tx, schedule)
        return self._pause(tx, schedule) if schedule.status == "active" else schedule

    def delete(self, name: str, version: int | None = None) -> None:
        """Queued runs are cancelled, running ones finish, the name is free again.

        Raises Conflict when `version` is no longer the latest.
        """

        def work(tx: Tx) -> None:
            schedule = self._of_version(tx, name, version)
            # what nobody here can read has due times that nobody here can count
            skips = plan_end(tx.plans.snapshot(schedule.id), tx.now) if schedule.spec else ()
            tx.schedules.delete_schedules([(schedule, skips)])
            self._audit.deleted(tx, [schedule])

        self._store.transact(work)

    def pause(
        self, name: str, reason: str | None = None, until: str | datetime | None = None
    ) -> Schedule:
        """Nothing is decided until `resume`, or by itself at `until`; what waits goes on waiting.

        Raises Conflict when it is not active, and Invalid for an `until` that is not to come.
        """
        pause = _read_action("pause", reason, until)

        def work(tx: Tx) -> Schedule:
            schedule = tx.schedules.get_schedule(self._find(tx, name))
            _refuse_state(name, schedule.status, "active")
            refuse_past_end(tx, pause)
            return with_latest(tx, self._pause(tx, schedule, pause.reason, pause.until))

        return self._store.transact(work)

    def _pause(
        self,
        tx: Tx,
        schedule: Schedule,
        reason: str | None = None,
        until: datetime | None = None,
    ) -> Schedule:
        salvaged = find_unreadable(tx, schedule)
        snapshot = tx.plans.snapshot(schedule.id) if salvaged is None else salvaged.snapshot
        _refuse_state(schedule.name, snapshot.status, "active")
        paused = plan_pause if salvaged is None else pause_unread
        tx.plans.pause([paused(snapshot, tx.now)], reason, until)
        if salvaged is not None:
            tx.plans.mark_problem(schedule.id, salvaged.problem, until)
        return self._audit.acted(tx, "pause", snapshot, reason=reason, until=until)

    def resume(self, name: str) -> Schedule:
        """Go on; due times that fell meanwhile follow `on_resume`."""

        def work(tx: Tx) -> Schedule:
            schedule = tx.schedules.get_schedule(self._find(tx, name))
            _refuse_state(name, schedule.status, "paused")
            return with_latest(tx, self._resume(tx, schedule))

        return self._store.transact(work)

    def _resume(self, tx: Tx, schedule: Schedule) -> Schedule:
        salvaged = find_unreadable(tx, schedule)
        snapshot = tx.plans.snapshot(schedule.id) if salvaged is None else salvaged.snapshot
        _refuse_state(schedule.name, snapshot.status, "paused")
        resumed = plan_resume if salvaged is None else resume_unread
        tx.plans.commit([resumed(snapshot, tx.now)], None)
        if salvaged is not None:
            tx.plans.mark_problem(schedule.id, salvaged.problem, tx.now)
        return self._audit.acted(tx, "resume", snapshot)

    def trigger(self, name: str, payload: dict[str, Any] | None = None) -> Run:
        """A run now; uses up no due time, and is accepted also while paused.

        Raises Invalid for a payload that is no JSON object, or that its task does not take.
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
        """Move only the next due time; an `at` that is not in the future fires at once.

        Raises Conflict for a due time that was decided already, and when `due_at` is given and
        another one is the next.
        """
        moment, meant = parse_instant(at), None if due_at is None else parse_instant(due_at)

        def work(tx: Tx) -> Schedule:
            snapshot, next_due_at = self._next(tx, name)
            _refuse_other(next_due_at, meant)
            if moment <= tx.now:  # behind the watermark it is due at once, and not missed
                tx.plans.commit([plan(snapshot, tx.now)], None)
            refuse_decided(tx, snapshot, moment)
            moved = {_where_from(snapshot, next_due_at)}
            if next_due_at not in moved:
                tx.schedules.remove_exception(
                    snapshot.schedule_id, DueException(next_due_at, "moved_here")
                )
                if DueTimes.of(snapshot, tx.now).yields_itself(next_due_at):
                    moved.add(next_due_at)  # it had been moved onto another one: both move on
            away = [DueException(at, "moved_away", moment) for at in sorted(moved)]
            said = self._say(tx, snapshot, *away, DueException(moment, "moved_here"))
            self._audit.moved(tx, "reschedule", snapshot, next_due_at, moment)
            return said

        return self._store.transact(work)

    def skip_next(
        self, name: str, due_at: str | datetime | None = None
    ) -> tuple[Schedule, datetime]:
        """Leave the next due time out; returns which one that was.

        Raises Conflict when `due_at` is given and another one is the next.
        """
        meant = None if due_at is None else parse_instant(due_at)

        def work(tx: Tx) -> tuple[Schedule, datetime]:
            snapshot, next_due_at = self._next(tx, name)
            _refuse_other(next_due_at, meant)
            said = self._say(tx, snapshot, DueException(next_due_at, "skip"))
            self._audit.moved(tx, "skip_next", snapshot, next_due_at, said.next_due_at)
            return said, next_due_at

        return self._store.transact(work)

    def restore(self, name: str, at: str | datetime) -> Schedule:
        """Take back what was said about a due time to come: that it is skipped, or moved.

        Raises Conflict when nothing was said about it, or when it is too late for that.
        """
        moment = parse_instant(at)

        def work(tx: Tx) -> Schedule:
            snapshot, next_due_at = self._next(tx, name, needed=False)
            said = [
                e for e in tx.schedules.list_exceptions(snapshot.schedule_id) if e.due_at == moment
            ]
            taken = [e for e in said if e.kind in ("skip", "moved_away")]
            if not taken:
                raise Conflict(f"nothing was said about due time {format_instant(moment)}")
            if min(moment, *(e.moved_to or moment for e in taken)) <= tx.now:
                raise Conflict(f"due time {format_instant(moment)} was decided already")
            for exception in taken:
                tx.schedules.remove_exception(snapshot.schedule_id, exception)
                if exception.moved_to is not None:
                    here = DueException(exception.moved_to, "moved_here")
                    tx.schedules.remove_exception(snapshot.schedule_id, here)
            restored = self._say(tx, snapshot)
            self._audit.moved(tx, "restore", snapshot, next_due_at or moment, restored.next_due_at)
            return restored

        return self._store.transact(work)

    def backfill(
        self,
        name: str,
        start: str | datetime,
        end: str | datetime,
        reprocess: str | None = None,
        dry_run: bool = False,
    ) -> RunList | Moments:
        """Runs for the past due times from `start` to `end` that have none.

        `reprocess="failed"` or `"all"` opens the runs there are again, as new attempts. With
        `dry_run` nothing happens, and the due times that would run are returned. Raises Invalid
        for a range that is not over, before the retention horizon, or of too many due times.
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
        """Cancel those runs of a backfill from `start` to `end` that nobody has begun.

        `queued_at` tells which one: the `ready_at` of the runs that it returned.
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

    def _exists(self, tx: Tx, name: str) -> bool:
        try:
            self._find(tx, name)
        except NotFound:
            return False
        return True

    def _of_version(self, tx: Tx, name: str, version: int | None) -> Schedule:
        schedule = tx.schedules.get_schedule(self._find(tx, name))
        if version is not None and version != schedule.version:
            raise Conflict(
                f'schedule "{schedule.name}" has version {schedule.version}, not {version}; '
                "read it again"
            )
        return schedule

    def _in_state(self, tx: Tx, name: str, status: str) -> Snapshot:
        snapshot = tx.plans.snapshot(self._find(tx, name))
        _refuse_state(name, snapshot.status, status)
        return snapshot

    @overload
    def _next(self, tx: Tx, name: str) -> tuple[Snapshot, datetime]: ...

    @overload
    def _next(
        self, tx: Tx, name: str, needed: Literal[False]
    ) -> tuple[Snapshot, datetime | None]: ...

    def _next(self, tx: Tx, name: str, needed: bool = True) -> tuple[Snapshot, datetime | None]:
        """An active schedule, and its next due time, which may be `needed`."""
        snapshot = self._in_state(tx, name, "active")
        next_due_at = next(upcoming(snapshot, tx.now), None)
        if next_due_at is None and needed:
            raise Conflict(f'schedule "{name}" has no next due time')
        return snapshot, next_due_at

    def _say(self, tx: Tx, snapshot: Snapshot, *exceptions: DueException) -> Schedule:
        """Record what a person said about due times, and plan anew with it."""
        for exception in exceptions:
            tx.schedules.add_exception(snapshot.schedule_id, exception)
        tx.plans.commit([plan(tx.plans.snapshot(snapshot.schedule_id), tx.now)], None)
        return with_latest(tx, tx.schedules.get_schedule(snapshot.schedule_id))


def _refuse_state(name: str, status: str, needed: str) -> None:
    if status != needed:
        raise Conflict(f'schedule "{name}" is {status}, not {needed}')


def _refuse_other(next_due_at: datetime, meant: datetime | None) -> None:
    """Who looked at one due time does not act on another."""
    if meant is not None and meant != next_due_at:
        raise Conflict(
            f"due time {format_instant(meant)} is not the next one; "
            f"that is {format_instant(next_due_at)}"
        )


def _read_action(action: str, reason: str | None, until: str | datetime | None) -> Pause:
    """What an action has besides, if it is a pause; raises Invalid."""
    if action not in ACTIONS:
        raise Invalid(f'action "{shorten(action)}" is not one of {", ".join(ACTIONS)}')
    if until is not None and action != "pause":
        raise Invalid(f"until goes with pause, not with {action}")
    if reason is not None:
        read_text("reason", reason)
    return Pause(reason, None if until is None else parse_instant(until))


def _where_from(snapshot: Snapshot, due_at: datetime) -> datetime:
    """The trigger's own due time that was moved to `due_at`; itself when it was not moved."""
    moved = (e.due_at for e in snapshot.exceptions if e.moved_to == due_at)
    return next(moved, due_at)

"""Use cases that define schedules: create, change, replace and declare them."""

from __future__ import annotations

from dataclasses import replace as replaced
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from duebook.book.actions import STATES, act
from duebook.book.audit import ScheduleAudit
from duebook.book.bulk import Wanted, as_made, create_all, first_state, read_all
from duebook.book.calendar_use import look_up, put_to_use
from duebook.book.checks import check_definition, named_spec, refuse_circle, refuse_payload
from duebook.book.declaration_plan import DAYS, Asked, whose
from duebook.book.declared_calendars import read_calendars
from duebook.book.declaring import Declaring, check_owner, read_days
from duebook.book.editing import current_spec, form_after, put_in_force
from duebook.book.quotas import admit
from duebook.book.rights import UNLIMITED, Rights
from duebook.book.schedule_reader import LAST, ScheduleReader, read_edit, with_latest
from duebook.book.secret_notes import unknown_secrets
from duebook.book.templates import find_template, target_of
from duebook.errors import Conflict
from duebook.model.acted import Pause
from duebook.model.aliases import read_enabled
from duebook.model.declaration import DEFAULT_OWNER
from duebook.model.definition import load_changes
from duebook.model.edited import Drafted
from duebook.model.fields import read_flag
from duebook.model.listing import Listing
from duebook.model.window import spans_for
from duebook.planner import DueTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Unpack

    from duebook.book.schedule_reader import Listed
    from duebook.budget import Budget
    from duebook.model.acted import Action
    from duebook.model.declaration import Declaration
    from duebook.model.policies import Definition
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.target import Target
    from duebook.model.template import ScheduleTemplate
    from duebook.store.base import Store, Tx
    from duebook.targets.task import Tasks

__all__ = ["Declared", "ScheduleDefiner", "refuse_state"]

T = TypeVar("T")
Declared = Literal["created", "changed", "unchanged"]
NO_PAUSE: Final = Pause()


class ScheduleDefiner(ScheduleReader):
    """Create and change schedules. Every method takes a name or an id; raises NotFound."""

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
    def create(
        self, name: str, by: str = "", *, replace: bool = False, **definition: Unpack[Definition]
    ) -> Schedule: ...

    @overload
    def create(
        self,
        name: str,
        by: str = "",
        *,
        template: str | None,
        replace: bool = False,
        **definition: Any,
    ) -> Schedule: ...

    def create(
        self,
        name: str,
        by: str = "",
        template: str | None = None,
        replace: bool = False,
        **definition: Any,
    ) -> Schedule:
        """Create a schedule from `trigger`, `target`, `payload` and policies.

        A `template` supplies the fields that are not given here; a field that is None gets
        Duebook's own default. With `enabled=False` (or `active=False`) it is created paused. With
        `replace`, a schedule of that name gets this definition instead, as with `replace()`.

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
        if not read_flag("replace", replace):
            return self._store.transact(lambda tx: self._create(tx, wanted, by))

        def work(tx: Tx) -> Schedule:
            if (schedule := self._named(tx, name)) is None:
                return self._create(tx, wanted, by)
            edited = self._edit(tx, schedule, spec, by, given)
            switched = edited if enabled is None else self._switch(tx, edited, enabled)
            return with_latest(tx, replaced(switched, notes=edited.notes))

        return self._again_if_taken(work)

    def _named(self, tx: Tx, name: str) -> Schedule | None:
        """The schedule of this name, if it exists."""
        found = tx.schedules.list_taken(self._namespace, [name])
        return tx.schedules.get_schedule(found[name]) if found else None

    def _again_if_taken(self, work: Callable[[Tx], T]) -> T:
        """Try again in case another transaction created it just now."""
        try:
            return self._store.transact(work)
        except Conflict:
            return self._store.transact(work)

    def _create(self, tx: Tx, wanted: Wanted, by: str, owner: str = "") -> Schedule:
        self._rights.refuse_secrets(wanted.spec)
        self._rights.refuse(tx, wanted.spec.target, wanted.template_target)
        wanted = replaced(wanted, spec=put_to_use(tx, self._namespace, wanted.spec))
        standing = tx.quotas.ask_standing(self._namespace)
        windows, kept = tx.calendars.list_windows_and(standing, self._namespace)
        new = first_state(wanted, self._namespace, tx.now, owner, windows)
        refuse_circle(tx, self._namespace, new.name, new.spec)
        maker = by or self._audit.by
        tx.schedules.create_schedules([new], maker, tx.now)
        admit(tx, self._namespace, [(new.name, new.spec, None)], kept)
        self._audit.created(tx, [new], maker)
        made = as_made(new, tx.now, maker)
        return replaced(made, notes=unknown_secrets(tx, self._namespace, new.spec))

    def preview_create(self, name: str, count: int = 10, **definition: Any) -> Drafted:
        """Show what `create` would create, and its next due times, without creating it.

        Raises InvalidSchedule and Forbidden as `create` does, and Conflict if the name is taken.
        """
        spec = check_definition(name, definition, self._tasks, {}, self._namespace)

        def work(tx: Tx) -> Drafted:
            self._rights.refuse_secrets(spec)
            self._rights.refuse(tx, spec.target)
            found = look_up(tx, self._namespace, spec)
            new = first_state(Wanted(name, found, enabled=True), self._namespace, tx.now)
            if tx.schedules.list_taken(self._namespace, [name]):
                raise Conflict(f'schedule "{name}" already exists; choose another name')
            windows = spans_for(tx.calendars.list_windows(self._namespace), dict(new.spec.labels))
            due = DueTimes(new.spec, (), tx.now, name, self._budget, windows).among(tx.now, LAST)
            most = count if spec.max_runs is None else min(count, spec.max_runs)
            return Drafted(new.spec, list(islice(due, most)))

        return self._store.read(work)

    def create_many(
        self, definitions: Iterable[Mapping[str, Any]], by: str = "", owner: str = ""
    ) -> Listed:
        """Create up to 10,000 schedules, all or none, from objects with a `name` and the arguments
        of `create`.

        Raises InvalidSchedule with every wrong field, such as `schedules[17].trigger`, including
        names that are taken; QuotaReached; and Forbidden.
        """
        wanted = read_all(definitions, self._templates(), self._tasks, self._namespace)
        made = create_all(self._store, wanted, self._audit, self._rights, by, owner)
        return Listing(made)

    def _templates(self) -> Callable[[str], ScheduleTemplate]:
        """Looks up templates, each once."""
        return cache(
            lambda name: self._store.read(lambda tx: find_template(tx, self._namespace, name))
        )

    def declare(
        self,
        definitions: Iterable[Mapping[str, Any]],
        owner: str = DEFAULT_OWNER,
        prune: bool = False,
        adopt: bool = False,
        dry_run: bool = False,
        expect: str | None = None,
        days: int = DAYS,
        by: str = "",
        calendars: Iterable[Mapping[str, Any]] = (),
    ) -> Declaration:
        """Make the schedules of `owner` match `definitions`, all or none; returns what changed.

        Definitions are those of `create_many`, up to 10,000. Schedules that already match stay
        unchanged; pauses, skips and moves are kept. With `prune`, the owner's schedules that are
        not among them are deleted. A schedule that has another owner or no owner is changed only
        with `adopt`. `calendars` are definitions as for `calendars.save`, each with a `name`; those
        that differ are created or changed for all schedules that use them, regardless of their
        owner; calendars are never deleted. With `dry_run` nothing changes. The result lists which
        due times of the next `days` appear, disappear or move; pass its `fingerprint` as `expect`
        to apply exactly that. Raises InvalidSchedule with every wrong field, such as
        `schedules[17].trigger`, and Conflict if `expect` no longer matches, or if `adopt` is
        missing.
        """
        how = Asked(check_owner(owner), prune, adopt, dry_run, expect, read_days(days))
        maker = ScheduleAudit(self._namespace, by) if by else self._audit
        declaring = Declaring(self._store, maker, self._rights, how, self._budget)
        rules = read_calendars(calendars)
        forms = declaring.with_hidden(definitions)
        find = self._templates()
        wanted = read_all(forms, find, self._tasks, self._namespace, least=0)
        return declaring.declare(wanted, rules)

    def declare_one(self, name: str, owner: str, **definition: Any) -> tuple[Schedule, Declared]:
        """Like `create` if the name is new; otherwise change the schedule to this definition.

        An unchanged schedule stays as it is. Raises Conflict for a schedule that `owner` does not
        declare.
        """
        spec = named_spec(name, definition)
        refuse_payload(self._tasks, spec, self._namespace)

        def work(tx: Tx) -> tuple[Schedule, Declared]:
            if (schedule := self._named(tx, name)) is None:
                return self._create(tx, Wanted(name, spec), owner, owner), "created"
            if schedule.owner != owner:
                raise Conflict(
                    f'schedule "{name}" {whose(schedule)}, so code does not change it; delete it '
                    "first, or rename the task"
                )
            edited = self._edit(tx, schedule, spec, owner)
            return edited, "unchanged" if edited.version == schedule.version else "changed"

        return self._again_if_taken(work)

    def _edit(
        self,
        tx: Tx,
        schedule: Schedule,
        spec: ScheduleSpec,
        by: str,
        template_target: Target | None = None,
    ) -> Schedule:
        maker = ScheduleAudit(self._namespace, by) if by else self._audit
        return put_in_force(tx, schedule, spec, self._tasks, self._rights, maker, template_target)

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
        """Put a form in force, and pause or resume the schedule if it says so."""
        spec, enabled = read_edit(form, current, schedule.name)
        edited = self._edit(tx, schedule, spec, by)
        switched = edited if enabled is None else self._switch(tx, edited, enabled)
        return with_latest(tx, replaced(switched, notes=edited.notes))

    def _switch(self, tx: Tx, schedule: Schedule, enabled: bool) -> Schedule:
        """Pause or resume it, unless it already is in that state."""
        if enabled == (schedule.status != "paused"):
            return schedule
        if enabled:
            return self._do(tx, "resume", schedule)
        return self._do(tx, "pause", schedule) if schedule.status == "active" else schedule

    def _do(self, tx: Tx, action: Action, schedule: Schedule, pause: Pause = NO_PAUSE) -> Schedule:
        """Raises Conflict if it is not in the state for the action."""
        if not act(tx, self._audit, action, [schedule.id], pause):
            status = tx.schedules.get_schedule(schedule.id).status
            refuse_state(schedule.name, status, STATES[action])
        return tx.schedules.get_schedule(schedule.id)

    def _of_version(self, tx: Tx, name: str, version: int | None) -> Schedule:
        schedule = tx.schedules.get_schedule(self._find(tx, name))
        if version is not None and version != schedule.version:
            raise Conflict(
                f'schedule "{schedule.name}" has version {schedule.version}, not {version}; '
                "read it again"
            )
        return schedule


def refuse_state(name: str, status: str, needed: str) -> None:
    if status != needed:
        raise Conflict(f'schedule "{name}" is {status}, not {needed}')

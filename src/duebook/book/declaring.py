"""Declares many schedules at once: compares the wanted ones with the stored ones, reports the
changes, and applies them in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from duebook.book.actions import delete_all
from duebook.book.bulk import Problems, first_state
from duebook.book.calendar_changes import (
    CalendarsMoved,
    change_calendars,
    follow,
    list_following,
    prepare,
    read_known,
    store_changes,
)
from duebook.book.calendar_use import are_current, calendars_of, resolved
from duebook.book.checks import refuse_circle, refuse_past
from duebook.book.declaration_plan import (
    Changed,
    Difference,
    Facts,
    plan_declaration,
    whose,
)
from duebook.book.editing import put_in_force
from duebook.book.quotas import admit
from duebook.book.widening import find_missed, widens
from duebook.budget import Budget
from duebook.errors import Conflict, Invalid, counted, quoted, shorten
from duebook.ids import check_name
from duebook.model.declaration import (
    DEFAULT_OWNER,
    Declaration,
)
from duebook.model.definition import load_changes
from duebook.model.hidden import keep_hidden
from duebook.model.schedule import InvalidSchedule
from duebook.model.secret import HIDDEN, keep_secrets
from duebook.planner import count_edit, plan_edit
from duebook.store.values import Edit
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from duebook.book.audit import ScheduleAudit
    from duebook.book.bulk import Wanted
    from duebook.book.calendar_changes import Prepared
    from duebook.book.declaration_plan import Asked
    from duebook.book.rights import Rights
    from duebook.model.calendar import Calendar, CalendarRule
    from duebook.model.plan import Snapshot
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.store.base import Store, Tx
    from duebook.store.values import NewSchedule

__all__ = ["MOST_DAYS", "Declaring", "check_owner", "read_days"]

MOST_DAYS: Final = 366
MOST_WIDENED: Final = 100
"""Changed schedules that are searched for due times that were recorded as missed."""
TRIES: Final = 3
LONGEST: Final = 5.0
"""Seconds of processor time for comparing due times, over all tries."""
NO_CALENDARS: Final[Mapping[str, CalendarRule]] = MappingProxyType({})
AT_ONCE: Final = 500
"""Schedules that one statement reads."""
FLOWS: Final = "flows:"


class _Moved(Exception):
    """A schedule was changed after it was compared."""


def check_owner(owner: str) -> str:
    """Return a valid owner; raises Invalid."""
    return check_name(owner, "owner")


def read_days(days: Any) -> int:
    """Return a valid number of days; raises Invalid."""
    if isinstance(days, int) and not isinstance(days, bool) and 0 <= days <= MOST_DAYS:
        return days
    raise Invalid(f"days {quoted(days)} is not a number from 0 to {MOST_DAYS}")


class Declaring:
    """One declaration in a namespace."""

    def __init__(
        self,
        store: Store,
        audit: ScheduleAudit,
        rights: Rights,
        asked: Asked,
        budget: Budget | None = None,
    ) -> None:
        """`budget` is for resolving the days of calendars."""
        if asked.prune and asked.owner == DEFAULT_OWNER:
            raise Invalid(
                f'prune deletes what its owner no longer declares, and owner "{DEFAULT_OWNER}" is '
                "everybody's; choose an owner, such as the name of your project"
            )
        self._store = store
        self._audit = audit
        self._rights = rights
        self._asked = asked
        self._budget = budget
        self._namespace = audit.namespace

    def with_hidden(self, definitions: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Replace each `***` in a definition by the hidden value of the schedule of that name."""
        if not isinstance(definitions, Iterable) or isinstance(definitions, str | bytes | dict):
            raise Invalid(f"schedules {shorten(definitions)} is not a list of definitions")
        forms: list[Any] = list(definitions)
        hiding = [n for n, form in enumerate(forms) if isinstance(form, dict) and _hides(form)]
        names = {str(forms[number].get("name")) for number in hiding}
        if not names:
            return forms
        known = self._store.read(lambda tx: self._named(tx, sorted(names)))
        for number in hiding:
            if (found := known.get(str(forms[number].get("name")))) is not None and found.spec:
                forms[number] = _unhidden(forms[number], found.spec)
        return forms

    def declare(
        self, wanted: Sequence[Wanted], calendars: Mapping[str, CalendarRule] = NO_CALENDARS
    ) -> Declaration:
        """Return the changes, and apply them unless it is a dry run."""
        budget = Budget(LONGEST)
        for _ in range(TRIES):
            try:
                return self._try(wanted, calendars, budget)
            except (_Moved, CalendarsMoved):
                continue
        raise Conflict("others keep changing these schedules; try again")

    def _try(
        self, wanted: Sequence[Wanted], calendars: Mapping[str, CalendarRule], budget: Budget
    ) -> Declaration:
        difference = self._compare(wanted, calendars)
        facts = self._store.read(lambda tx: self._read_facts(tx, difference))
        told = plan_declaration(self._namespace, self._asked, difference, facts, budget)
        if self._asked.expect not in (None, told.fingerprint):
            raise Conflict(
                "the schedules are no longer as they were when this was planned; look at the "
                "changes again"
            )
        if self._asked.dry_run:
            return told
        self._refuse_others(difference)
        if told.changes:
            ids = [one.id for one in difference.following]
            prepared = prepare(self._store, ids, difference.calendars)
            self._store.transact(lambda tx: self._apply(tx, difference, prepared))
        return replace(told, applied=True)

    # -- the changes: nothing is computed while a transaction is open

    def _compare(
        self, wanted: Sequence[Wanted], declared: Mapping[str, CalendarRule]
    ) -> Difference:
        """Raises InvalidSchedule for definitions that can never be put in force."""
        owner = self._asked.owner
        (now, known, gone, calendars), windows = self._store.read(
            lambda tx: (
                self._read_known(tx, wanted, declared),
                tx.calendars.list_windows(self._namespace),
            )
        )
        found = Difference(now, [], [], gone, [], windows)
        if declared:
            found.bases.update({name: one.version for name, one in calendars.items()})
            place = self._namespace, calendars, declared, now, self._audit.by
            found.calendars.update(change_calendars(*place, self._budget))
            calendars |= {name: change.calendar for name, change in found.calendars.items()}
        problems = Problems()
        for number, one in enumerate(wanted):
            schedule = known.get(one.name)
            try:
                if schedule is None:
                    found_days = replace(one, spec=resolved(one.spec, calendars))
                    new = first_state(found_days, self._namespace, now, owner, windows)
                    found.created.append((number, one, new))
                    continue
                spec = one.spec.anchored(schedule.created_at)
                if schedule.spec == spec and schedule.owner == owner:
                    found.unchanged.append(one.name)
                    continue
                if schedule.spec is None or schedule.spec.triggers != spec.triggers:
                    refuse_past(spec, now)
                found.changed.append(Changed(number, one, schedule, resolved(spec, calendars)))
            except InvalidSchedule as error:
                problems.add(number, error.problems)
        problems.refuse()
        if found.calendars:
            found.following.extend(self._store.read(lambda tx: self._read_following(tx, found)))
            following = {one.name for one in found.following}
            found.unchanged[:] = [name for name in found.unchanged if name not in following]
        return found

    def _read_following(self, tx: Tx, found: Difference) -> list[Schedule]:
        """Schedules whose calendars get other days, and that do not change otherwise."""
        users = list_following(tx, self._namespace, found.calendars)
        others = {one.schedule.id for one in found.edits}
        others |= {one.id for one in found.gone} if self._asked.prune else set()
        return _schedules(tx, [id_ for id_ in users if id_ not in others])

    def _read_known(
        self, tx: Tx, wanted: Sequence[Wanted], declared: Mapping[str, CalendarRule]
    ) -> tuple[datetime, dict[str, Schedule], list[Schedule], dict[str, Calendar]]:
        """The time, the schedules with these names, the owner's other schedules, and the calendars
        that are used; all calendars, if some are declared."""
        known = self._named(tx, [one.name for one in wanted])
        owned = tx.schedules.list_owned(self._namespace, self._asked.owner)
        names = {one.name for one in wanted}
        gone = _schedules(tx, [id_ for name, id_ in owned.items() if name not in names])
        if declared:
            calendars = read_known(tx, self._namespace, declared)
        else:
            calendars = calendars_of(tx, self._namespace, [one.spec for one in wanted])
        return tx.now, known, sorted(gone, key=lambda one: one.name), calendars

    def _named(self, tx: Tx, names: Sequence[str]) -> dict[str, Schedule]:
        ids = tx.schedules.list_taken(self._namespace, names)
        return {one.name: one for one in _schedules(tx, list(ids.values()))}

    def _read_facts(self, tx: Tx, difference: Difference) -> Facts:
        """Raises Forbidden, InvalidSchedule for circles, and _Moved."""
        for _, new, _ in difference.created:
            self._rights.refuse_secrets(new.spec)
        for changed in difference.edits:
            self._rights.refuse_secrets(changed.spec, changed.schedule.spec)
        self._rights.refuse_all(tx, _targets(difference))
        self._refuse_circles(tx, difference)
        if not self._asked.days:
            return Facts({}, {})
        ids = [one.schedule.id for one in difference.edits]
        ids += [one.id for one in difference.following]
        ids += [one.id for one in difference.gone] if self._asked.prune else []
        snapshots = _snapshots(tx, ids)
        versions = {one.schedule.id: one.schedule.version for one in difference.edits}
        if any(versions.get(id_, one.version) != one.version for id_, one in snapshots.items()):
            raise _Moved
        notes = {}
        for one in _widened(difference.edits):
            snapshot = snapshots.get(one.schedule.id)
            missed = snapshot and find_missed(tx, one.schedule, snapshot, one.spec)
            if missed:
                notes[one.wanted.name] = missed.note
        return Facts(snapshots, notes)

    def _refuse_circles(self, tx: Tx, found: Difference) -> None:
        written = [(number, one.name, one.spec) for number, one, _ in found.created]
        written += [(one.number, one.wanted.name, one.spec) for one in found.edits]
        known = {name: [d.schedule for d in spec.depends_on] for _, name, spec in written}
        problems = Problems()
        for number, name, spec in written:
            try:
                refuse_circle(tx, self._namespace, name, spec, known)
            except InvalidSchedule as error:
                problems.add(number, error.problems)
        problems.refuse()

    def _refuse_others(self, difference: Difference) -> None:
        """Raises Conflict for schedules that this owner may not change."""
        others = [
            one.schedule for one in difference.changed if one.schedule.owner != self._asked.owner
        ]
        if files := [one for one in others if one.owner.startswith(FLOWS)]:
            raise Conflict(
                f'schedule "{files[0].name}" {whose(files[0])}, a directory of flow files; change '
                "its file, or choose another name"
            )
        if others and not self._asked.adopt:
            names = shorten(", ".join(one.name for one in others), 200)
            verb = "was" if len(others) == 1 else "were"
            raise Conflict(
                f"{counted(len(others), 'schedule')} {verb} not declared by "
                f'"{self._asked.owner}": {names}; to take over, use adopt'
            )

    # -- applying the changes

    def _apply(self, tx: Tx, found: Difference, prepared: Mapping[str, Prepared]) -> None:
        """In parts: a database ends a transaction that is idle for some seconds.

        Raises _Moved if a schedule has changed since it was compared, and CalendarsMoved.
        """
        gone = found.gone if self._asked.prune else []
        following = {one.id: one for one in found.following}
        touched = {one.schedule.id: one.schedule for one in found.changed}
        touched |= {one.id: one for one in gone} | following
        tx.plans.lock(list(touched))
        if found.calendars:
            store_changes(tx, self._audit, found.calendars, found.bases, touched)
        self._refuse_moved(tx, found, list(touched.values()))
        specs = [*(one.spec for one in found.edits), *(new.spec for _, _, new in found.created)]
        if not are_current(tx, self._namespace, specs):
            raise _Moved
        for part in _parts([one.id for one in gone]):
            delete_all(tx, self._audit, part)
        edits = {one.schedule.id: one for one in found.edits}
        written: list[tuple[str, ScheduleSpec, ScheduleSpec | None]] = []
        for part in _parts(list(edits)):
            written += self._edit(tx, [edits[id_] for id_ in part])
        follow(tx, list(following), found.calendars, self._audit.by, prepared)
        self._adopt(tx, found)
        made = sorted((new for _, _, new in found.created), key=lambda new: new.name)
        for first in range(0, len(made), AT_ONCE):
            self._create(tx, made[first : first + AT_ONCE], found.now)
        admit(tx, self._namespace, [*written, *((new.name, new.spec, None) for new in made)])
        done = {"created": len(made), "changed": len(found.changed), "removed": len(gone)}
        self._audit.note(tx, "declare", "declaration", self._asked.owner, after=done)

    def _adopt(self, tx: Tx, found: Difference) -> None:
        owner = self._asked.owner
        adopted = [one.schedule for one in found.changed if one.schedule.owner != owner]
        if adopted:
            tx.schedules.change_owner([one.id for one in adopted], owner)
            self._audit.adopted(tx, adopted, owner)

    def _create(self, tx: Tx, made: Sequence[NewSchedule], now: datetime) -> None:
        try:
            tx.schedules.create_schedules(made, self._audit.by, now)
        except Conflict:  # another transaction created one of them just now
            raise _Moved from None
        self._audit.created(tx, made, self._audit.by)

    def _refuse_moved(self, tx: Tx, found: Difference, touched: Sequence[Schedule]) -> None:
        """Lock the states of the existing schedules, so that they cannot change from now on."""
        names = [one.name for _, one, _ in found.created]
        if names and tx.schedules.list_taken(self._namespace, names):
            raise _Moved
        bases = tx.schedules.list_bases([one.id for one in touched])
        if any(bases.get(one.id) != (one.version, one.owner) for one in touched):
            raise _Moved
        owned = tx.schedules.list_owned(self._namespace, self._asked.owner)
        known = {one.name for one in (*touched, *found.gone)} | set(found.unchanged)
        if self._asked.prune and not owned.keys() <= known:
            raise _Moved

    def _edit(
        self, tx: Tx, edits: Sequence[Changed]
    ) -> list[tuple[str, ScheduleSpec, ScheduleSpec | None]]:
        """Put new definitions in force; returns them with the former ones, for quotas."""
        snapshots = _snapshots(tx, [one.schedule.id for one in edits])
        paused = _paused(tx, snapshots)
        planned: list[Edit] = []
        for one in edits:
            if (snapshot := snapshots.get(one.schedule.id)) is None:  # it is repaired on its own
                put_in_force(tx, one.schedule, one.spec, Tasks(), self._rights, self._audit)
                continue
            schedule = paused.get(one.schedule.id, one.schedule)
            spec = count_edit(snapshot, one.spec, tx.now)
            plan = plan_edit(snapshot, spec, tx.now)
            planned.append(Edit(schedule, spec, plan, snapshot.spec))
        if planned:
            tx.schedules.update_schedules(planned, self._audit.by)
            self._audit.edited(
                tx, [(edit.schedule, edit.was, edit.spec) for edit in planned if edit.was]
            )
        return [(edit.schedule.name, edit.spec, edit.was) for edit in planned]


def _parts(ids: Sequence[str]) -> Iterator[list[str]]:
    """In the order in which all writers lock them."""
    found = sorted(ids)
    for first in range(0, len(found), AT_ONCE):
        yield found[first : first + AT_ONCE]


def _schedules(tx: Tx, ids: Sequence[str]) -> list[Schedule]:
    return [one for part in _parts(ids) for one in tx.schedules.get_schedules(part)]


def _snapshots(tx: Tx, ids: Sequence[str]) -> dict[str, Snapshot]:
    """Snapshots of schedules, by id; without those that cannot be read."""
    return {one.schedule_id: one for part in _parts(ids) for one in tx.plans.snapshots(part)}


def _paused(tx: Tx, snapshots: Mapping[str, Snapshot]) -> dict[str, Schedule]:
    """The schedules that are paused now, perhaps only since a moment ago."""
    held = [id_ for id_, snapshot in snapshots.items() if snapshot.status == "paused"]
    return {one.id: one for one in tx.schedules.get_schedules(held)} if held else {}


def _targets(difference: Difference) -> Iterator[tuple[Any, Any]]:
    """The targets that come into force, each with one that is always permitted."""
    for _, one, _ in difference.created:
        yield one.spec.target, one.template_target
    for changed in difference.edits:
        spec, given = changed.schedule.spec, changed.wanted.template_target
        if changed.spec.target != given:
            yield changed.spec.target, None if spec is None else spec.target


def _widened(edits: Sequence[Changed]) -> list[Changed]:
    """Changes that make catch-up keep more than before; up to a limit."""
    found = (e for e in edits if e.schedule.spec and widens(e.schedule.spec, e.spec))
    return list(islice(found, MOST_WIDENED))


def _hides(form: Mapping[str, Any]) -> bool:
    try:
        return HIDDEN in json.dumps([form.get("target"), form.get("payload")], default=str)
    except (TypeError, ValueError, RecursionError):
        return False  # not valid JSON; reading the definition reports that


def _unhidden(form: dict[str, Any], current: ScheduleSpec) -> dict[str, Any]:
    try:
        filled = load_changes({}, form)
    except InvalidSchedule:
        return form  # as above
    if "target" in filled:
        filled["target"] = keep_hidden(filled["target"], current.target)
    if "payload" in filled:
        filled["payload"] = keep_secrets(filled["payload"], current.payload)
    return filled

"""Declares many schedules at once: compares what is wanted with what there is, says what would
change, and changes it in one transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.book.actions import delete_all
from duebook.book.bulk import Problems, first_state
from duebook.book.checks import refuse_circle, refuse_past
from duebook.book.editing import put_in_force
from duebook.book.quotas import admit
from duebook.book.widening import find_missed, widens
from duebook.budget import Budget
from duebook.errors import Conflict, Invalid, OverBudget, counted, quoted, shorten
from duebook.ids import check_name
from duebook.model.declaration import (
    DEFAULT_OWNER,
    Declaration,
    DeclaredSchedule,
    FieldChange,
    field_changes,
)
from duebook.model.definition import load_changes
from duebook.model.hidden import keep_hidden
from duebook.model.note import Note
from duebook.model.schedule import InvalidSchedule
from duebook.model.secret import HIDDEN, keep_secrets
from duebook.planner import Foreseen, foresee_change, foresee_end, foresee_new, plan_edit
from duebook.store.values import Edit
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from duebook.book.audit import ScheduleAudit
    from duebook.book.bulk import Wanted
    from duebook.book.rights import Rights
    from duebook.model.plan import Snapshot
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.store.base import Store, Tx
    from duebook.store.values import NewSchedule

__all__ = ["DAYS", "MOST_DAYS", "Asked", "Declaring", "check_owner", "read_days", "whose"]

DAYS: Final = 7
MOST_DAYS: Final = 366
MOST_LOOKED_AT: Final = 100_000
"""Due times that one declaration computes for its comparison."""
LONGEST: Final = 5.0
"""Seconds of processor time for it."""
MOST_WIDENED: Final = 100
"""Changes for which due times that were recorded as missed are looked for."""
TRIES: Final = 3
AT_ONCE: Final = 500
"""Schedules that one statement reads."""
FLOWS: Final = "flows:"


class Asked(NamedTuple):
    """How schedules are declared."""

    owner: str
    prune: bool = False
    adopt: bool = False
    dry_run: bool = False
    expect: str | None = None
    days: int = DAYS


class Changed(NamedTuple):
    """A schedule that gets another definition, or another owner."""

    number: int
    """its place in the list"""
    wanted: Wanted
    schedule: Schedule
    spec: ScheduleSpec
    """as it will be stored"""

    @property
    def is_edit(self) -> bool:
        return self.schedule.spec != self.spec


@dataclass(frozen=True, slots=True)
class Difference:
    """What there is against what is wanted."""

    now: datetime
    created: list[tuple[int, Wanted, NewSchedule]]
    changed: list[Changed]
    gone: list[Schedule]
    """of the owner, and no longer wanted"""
    unchanged: list[str]

    @property
    def edits(self) -> list[Changed]:
        return [one for one in self.changed if one.is_edit]


class _Moved(Exception):
    """Somebody changed a schedule after it was compared."""


def check_owner(owner: str) -> str:
    """Raises Invalid."""
    return check_name(owner, "owner")


def read_days(days: Any) -> int:
    """Raises Invalid."""
    if isinstance(days, int) and not isinstance(days, bool) and 0 <= days <= MOST_DAYS:
        return days
    raise Invalid(f"days {quoted(days)} is not a number from 0 to {MOST_DAYS}")


def whose(schedule: Schedule) -> str:
    """Who declares a schedule, or made it."""
    if schedule.owner:
        return f'is declared by "{schedule.owner}"'
    return (
        f'was created by "{schedule.created_by}"' if schedule.created_by else "was created manually"
    )


class Declaring:
    """One declaration in a namespace."""

    def __init__(self, store: Store, audit: ScheduleAudit, rights: Rights, asked: Asked) -> None:
        if asked.prune and asked.owner == DEFAULT_OWNER:
            raise Invalid(
                f'prune deletes what its owner no longer declares, and owner "{DEFAULT_OWNER}" is '
                "everybody's; choose an owner, such as the name of your project"
            )
        self._store = store
        self._audit = audit
        self._rights = rights
        self._asked = asked
        self._namespace = audit.namespace

    def with_hidden(self, definitions: Iterable[Mapping[str, Any]]) -> list[Any]:
        """What a definition hides, as `***`, stays as it is in the schedule of that name."""
        if isinstance(definitions, str | bytes | dict):
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

    def declare(self, wanted: Sequence[Wanted]) -> Declaration:
        """Say what changes, and change it unless only that was asked for."""
        for _ in range(TRIES):
            told, difference = self._store.read(lambda tx: self._look(tx, wanted))
            if self._asked.expect not in (None, told.fingerprint):
                raise Conflict(
                    "the schedules are no longer as they were when this was planned; look at the "
                    "changes again"
                )
            if self._asked.dry_run:
                return told
            self._refuse_others(difference)
            if not told.changes:
                return replace(told, applied=True)
            try:
                self._store.transact(lambda tx, found=difference: self._apply(tx, found))  # type: ignore[misc]
            except _Moved:
                continue
            return replace(told, applied=True)
        raise Conflict("others keep changing these schedules; try again")

    # -- what would change

    def _look(self, tx: Tx, wanted: Sequence[Wanted]) -> tuple[Declaration, Difference]:
        difference = self._compare(tx, wanted)
        self._rights.refuse_all(tx, _targets(difference))
        foreseen, compared = self._foresee(tx, difference) if self._asked.days else ({}, True)
        told = [
            *(self._created(one, foreseen) for one in difference.created),
            *(self._changed(one, foreseen) for one in difference.changed),
            *(self._gone(one, foreseen) for one in difference.gone),
        ]
        return Declaration(
            self._asked.owner,
            self._namespace,
            applied=False,
            fingerprint=self._fingerprint(difference),
            at=difference.now,
            until=difference.now + timedelta(days=self._asked.days),
            schedules=tuple(sorted(told, key=lambda one: one.name)),
            unchanged=tuple(difference.unchanged),
            compared=compared,
        ), difference

    def _compare(self, tx: Tx, wanted: Sequence[Wanted]) -> Difference:
        """Raises InvalidSchedule for what nobody could put in force."""
        owner = self._asked.owner
        known = self._named(tx, [one.name for one in wanted])
        gone = self._owned(tx, {one.name for one in wanted})
        found = Difference(tx.now, [], [], gone, [])
        problems = Problems()
        for number, one in enumerate(wanted):
            schedule = known.get(one.name)
            try:
                if schedule is None:
                    new = first_state(one, self._namespace, tx.now, owner)
                    found.created.append((number, one, new))
                    continue
                spec = one.spec.anchored(schedule.created_at)
                if schedule.spec == spec and schedule.owner == owner:
                    found.unchanged.append(one.name)
                    continue
                if schedule.spec is None or schedule.spec.triggers != spec.triggers:
                    refuse_past(spec, tx.now)
                found.changed.append(Changed(number, one, schedule, spec))
            except InvalidSchedule as error:
                problems.add(number, error.problems)
        self._refuse_circles(tx, found, problems)
        problems.refuse()
        return found

    def _named(self, tx: Tx, names: Sequence[str]) -> dict[str, Schedule]:
        ids = tx.schedules.list_taken(self._namespace, names)
        return {one.name: one for one in tx.schedules.get_schedules(list(ids.values()))}

    def _owned(self, tx: Tx, wanted: set[str]) -> list[Schedule]:
        """Those that the owner declared before, and does not any more."""
        owned = tx.schedules.list_owned(self._namespace, self._asked.owner)
        gone = [id_ for name, id_ in owned.items() if name not in wanted]
        return sorted(tx.schedules.get_schedules(gone), key=lambda one: one.name)

    def _refuse_circles(self, tx: Tx, found: Difference, problems: Problems) -> None:
        written = [(number, one.name, one.spec) for number, one, _ in found.created]
        written += [(one.number, one.wanted.name, one.spec) for one in found.edits]
        known = {name: [d.schedule for d in spec.depends_on] for _, name, spec in written}
        for number, name, spec in written:
            try:
                refuse_circle(tx, self._namespace, name, spec, known)
            except InvalidSchedule as error:
                problems.add(number, error.problems)

    def _refuse_others(self, difference: Difference) -> None:
        """Raises Conflict for schedules that are not this owner's to change."""
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

    def _foresee(self, tx: Tx, difference: Difference) -> tuple[dict[str, Foreseen], bool]:
        """What becomes of due times, by the names of schedules, and whether all were compared."""
        ids = [one.schedule.id for one in difference.edits]
        ids += [one.id for one in difference.gone] if self._asked.prune else []
        snapshots = _snapshots(tx, ids)
        now, budget = difference.now, Budget(LONGEST)
        until = now + timedelta(days=self._asked.days)
        looked_at, found = 0, dict[str, Foreseen]()
        for name, look in self._looks(tx, difference, snapshots, until, budget):
            if looked_at > MOST_LOOKED_AT:
                return found, False
            try:
                found[name] = look()
            except OverBudget:
                return found, False
            looked_at += found[name].looked_at
        return found, True

    def _looks(
        self,
        tx: Tx,
        difference: Difference,
        snapshots: Mapping[str, Snapshot],
        until: datetime,
        budget: Budget,
    ) -> Iterator[tuple[str, Callable[[], Foreseen]]]:
        """The changes first, which matter most, then what is removed and what is new."""
        now = difference.now
        widened = _widened(difference.edits)
        for one in difference.edits:
            if (snapshot := snapshots.get(one.schedule.id)) is None:
                continue  # it cannot be read

            def change(one: Changed = one, snapshot: Snapshot = snapshot) -> Foreseen:
                seen = foresee_change(snapshot, one.spec, now, until, budget)
                if one.schedule.id not in widened:
                    return seen
                missed = find_missed(tx, one.schedule, snapshot, one.spec)
                return replace(seen, notes=(*seen.notes, missed.note)) if missed else seen

            yield one.wanted.name, change
        for schedule in difference.gone:
            if (found := snapshots.get(schedule.id)) is not None:
                yield schedule.name, lambda of=found: foresee_end(of, now, until, budget)  # type: ignore[misc]
        for _, _, new in difference.created:
            yield new.name, lambda new=new: foresee_new(new.name, new.spec, now, until, budget)  # type: ignore[misc]

    def _created(
        self, one: tuple[int, Wanted, NewSchedule], foreseen: Mapping[str, Foreseen]
    ) -> DeclaredSchedule:
        _, wanted, new = one
        fields = field_changes(None, wanted.spec)
        notes = (Note("paused", "it is created paused"),) if new.paused else ()
        told = DeclaredSchedule(new.name, "create", None, fields, notes=notes)
        return _with(told, foreseen.get(new.name))

    def _changed(self, one: Changed, foreseen: Mapping[str, Foreseen]) -> DeclaredSchedule:
        schedule, owner = one.schedule, self._asked.owner
        fields: tuple[FieldChange, ...] = ()
        notes: tuple[Note, ...] = ()
        if one.is_edit:
            fields = field_changes(schedule.spec, one.spec)
        if schedule.spec is None:
            notes = (Note("unreadable", schedule.problem or "its definition cannot be read"),)
        if schedule.owner != owner:
            fields = (FieldChange("owner", schedule.owner or None, owner), *fields)
            needs = "" if self._asked.adopt else "; to take it over, use adopt"
            notes = (*notes, Note("adopt", f"it {whose(schedule)}{needs}"))
        told = DeclaredSchedule(schedule.name, "change", schedule.version, fields, notes=notes)
        return _with(told, foreseen.get(schedule.name))

    def _gone(self, schedule: Schedule, foreseen: Mapping[str, Foreseen]) -> DeclaredSchedule:
        if self._asked.prune:
            told = DeclaredSchedule(schedule.name, "remove", schedule.version)
            return _with(told, foreseen.get(schedule.name))
        left = Note("left", "it is no longer declared, but stays as it is; prune deletes it")
        return DeclaredSchedule(schedule.name, "leave", schedule.version, notes=(left,))

    def _fingerprint(self, found: Difference) -> str:
        """Of what is done, and to which versions."""
        rows: list[Any] = [["create", one.name, one.spec.to_json()] for _, one, _ in found.created]
        rows += [
            ["change", one.wanted.name, *_basis(one.schedule), one.wanted.spec.to_json()]
            for one in found.changed
        ]
        if self._asked.prune:
            rows += [["remove", one.name, *_basis(one)] for one in found.gone]
        whole = [self._namespace, self._asked.owner, sorted(rows, key=lambda row: row[1])]
        text = json.dumps(whole, sort_keys=True, ensure_ascii=False)
        return sha256(text.encode(errors="replace")).hexdigest()[:32]

    # -- the change itself

    def _apply(self, tx: Tx, found: Difference) -> None:
        """Raises _Moved when a schedule is no longer what it was compared with."""
        gone = found.gone if self._asked.prune else []
        touched = [*(one.schedule for one in found.changed), *gone]
        snapshots = _snapshots(tx, [one.id for one in touched])
        self._refuse_moved(tx, found, touched)
        for part in _parts([one.id for one in gone]):
            delete_all(tx, self._audit, part)
        written = self._edit(tx, found.edits, snapshots)
        adopted = [one.schedule for one in found.changed if one.schedule.owner != self._asked.owner]
        if adopted:
            tx.schedules.change_owner([one.id for one in adopted], self._asked.owner)
            self._audit.adopted(tx, adopted, self._asked.owner)
        made = sorted((new for _, _, new in found.created), key=lambda new: new.name)
        if made:
            self._create(tx, made, found.now)
            self._audit.created(tx, made, self._audit.by)
        admit(tx, self._namespace, [*written, *((new.name, new.spec, None) for new in made)])
        done = {"created": len(made), "changed": len(found.changed), "removed": len(gone)}
        self._audit.note(tx, "declare", "declaration", self._asked.owner, after=done)

    def _create(self, tx: Tx, made: Sequence[NewSchedule], now: datetime) -> None:
        try:
            tx.schedules.create_schedules(made, self._audit.by, now)
        except Conflict:  # somebody else created one of them just now
            raise _Moved from None

    def _refuse_moved(self, tx: Tx, found: Difference, touched: Sequence[Schedule]) -> None:
        """The states of what there is are locked: nobody changes them from now on."""
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
        self, tx: Tx, edits: Sequence[Changed], snapshots: Mapping[str, Snapshot]
    ) -> list[tuple[str, ScheduleSpec, ScheduleSpec | None]]:
        """Put other definitions in force; returns them with those that were, for quotas."""
        unread = [one for one in edits if one.schedule.id not in snapshots]
        for one in unread:  # each is repaired by itself
            put_in_force(tx, one.schedule, one.spec, Tasks(), self._rights, self._audit)
        readable = [(one, snapshots[one.schedule.id]) for one in edits if one not in unread]
        planned = [
            Edit(one.schedule, one.spec, plan_edit(snapshot, one.spec, tx.now), snapshot.spec)
            for one, snapshot in readable
        ]
        if planned:
            tx.schedules.update_schedules(planned, self._audit.by)
            self._audit.edited(
                tx, [(edit.schedule, edit.was, edit.spec) for edit in planned if edit.was]
            )
        return [(edit.schedule.name, edit.spec, edit.was) for edit in planned]


def _parts(ids: Sequence[str]) -> Iterator[list[str]]:
    """In the order in which everybody locks them."""
    found = sorted(ids)
    for first in range(0, len(found), AT_ONCE):
        yield found[first : first + AT_ONCE]


def _snapshots(tx: Tx, ids: Sequence[str]) -> dict[str, Snapshot]:
    """Schedules as the planner sees them, by id; without those that cannot be read."""
    return {one.schedule_id: one for part in _parts(ids) for one in tx.plans.snapshots(part)}


def _basis(schedule: Schedule) -> tuple[str, int, str]:
    return schedule.id, schedule.version, schedule.owner


def _targets(difference: Difference) -> Iterator[tuple[Any, Any]]:
    """The targets that are put in force, each with one that may be anyway."""
    for _, one, _ in difference.created:
        yield one.spec.target, one.template_target
    for changed in difference.edits:
        spec, given = changed.schedule.spec, changed.wanted.template_target
        if changed.spec.target != given:
            yield changed.spec.target, None if spec is None else spec.target


def _with(told: DeclaredSchedule, seen: Foreseen | None) -> DeclaredSchedule:
    if seen is None:
        return told
    return replace(
        told,
        appear=seen.appear,
        disappear=seen.disappear,
        move=seen.move,
        more=seen.more,
        notes=(*told.notes, *seen.notes),
    )


def _widened(edits: Sequence[Changed]) -> set[str]:
    """The schedules whose catch-up keeps more than before."""
    found = (e.schedule.id for e in edits if e.schedule.spec and widens(e.schedule.spec, e.spec))
    return set(islice(found, MOST_WIDENED))


def _hides(form: Mapping[str, Any]) -> bool:
    return HIDDEN in json.dumps([form.get("target"), form.get("payload")], default=str)


def _unhidden(form: dict[str, Any], current: ScheduleSpec) -> dict[str, Any]:
    filled = load_changes({}, form)
    if "target" in filled:
        filled["target"] = keep_hidden(filled["target"], current.target)
    if "payload" in filled:
        filled["payload"] = keep_secrets(filled["payload"], current.payload)
    return filled

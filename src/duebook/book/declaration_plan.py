"""The plan of a declaration: how it changes each schedule, and their due times; pure."""

from __future__ import annotations

import json
from dataclasses import field, replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.book.calendar_changes import renewed
from duebook.book.declared_calendars import tell_calendar
from duebook.errors import OverBudget
from duebook.lazy_dataclasses import dataclass
from duebook.model.declaration import Declaration, DeclaredSchedule, FieldChange, field_changes
from duebook.model.note import Note
from duebook.model.window import spans_for
from duebook.planner import MOST_COMPARED, Foreseen, foresee_change, foresee_end, foresee_new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from duebook.book.bulk import Wanted
    from duebook.book.calendar_changes import CalendarChange
    from duebook.budget import Budget
    from duebook.model.plan import Snapshot, WindowSpan
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.window import MaintenanceWindow
    from duebook.store.values import NewSchedule

__all__ = ["DAYS", "Asked", "Changed", "Difference", "Facts", "plan_declaration", "whose"]

DAYS: Final = 7
MOST_LOOKED_AT: Final = 100_000
"""Due times that one declaration computes for its comparison."""
LEAST_COMPARED: Final = 400
"""Of these, the minimum for each changed schedule, however many there are."""


class Asked(NamedTuple):
    """The options of a declaration."""

    owner: str
    prune: bool = False
    adopt: bool = False
    dry_run: bool = False
    expect: str | None = None
    days: int = DAYS


class Changed(NamedTuple):
    """A schedule that gets a new definition, or a new owner."""

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
    """The difference between the stored and the wanted schedules."""

    now: datetime
    created: list[tuple[int, Wanted, NewSchedule]]
    changed: list[Changed]
    gone: list[Schedule]
    """schedules of the owner that are no longer wanted"""
    unchanged: list[str]
    windows: Sequence[MaintenanceWindow] = ()
    """of the namespace"""
    calendars: dict[str, CalendarChange] = field(default_factory=dict)
    """in an order in which they can be saved"""
    bases: dict[str, int] = field(default_factory=dict)
    """the versions of all calendars, if any are declared"""
    following: list[Schedule] = field(default_factory=list)
    """schedules that are otherwise unchanged, but whose calendars get other days"""

    @property
    def edits(self) -> list[Changed]:
        return [one for one in self.changed if one.is_edit]


class Facts(NamedTuple):
    """What is read besides to make a plan."""

    snapshots: Mapping[str, Snapshot]
    """of schedules that change or end, by id"""
    notes: Mapping[str, Note]
    """by name: the missed due times that the new definition would have kept"""


def plan_declaration(
    namespace: str, asked: Asked, difference: Difference, facts: Facts, budget: Budget
) -> Declaration:
    """What the declaration changes, with the fingerprint that lets a later call apply exactly that;
    due times are compared until the budget is used up."""
    until = difference.now + timedelta(days=asked.days)
    seen = _foresee(difference, facts, until, budget) if asked.days else ({}, True)
    foreseen, compared = seen
    told = [
        *(_created(one, foreseen) for one in difference.created),
        *(_changed(asked, one, foreseen) for one in difference.changed),
        *(_gone(asked, one, foreseen) for one in difference.gone),
        *(_following(one, foreseen) for one in difference.following),
    ]
    calendars = [tell_calendar(change, difference.now) for change in difference.calendars.values()]
    return Declaration(
        asked.owner,
        namespace,
        applied=False,
        fingerprint=_fingerprint(namespace, asked, difference),
        at=difference.now,
        until=until,
        schedules=tuple(sorted(told, key=lambda one: one.name)),
        unchanged=tuple(difference.unchanged),
        compared=compared,
        calendars=tuple(sorted(calendars, key=lambda one: one.name)),
    )


def whose(schedule: Schedule) -> str:
    """The owner that declares a schedule, or its creator."""
    if schedule.owner:
        return f'is declared by "{schedule.owner}"'
    return (
        f'was created by "{schedule.created_by}"' if schedule.created_by else "was created manually"
    )


def _foresee(
    difference: Difference, facts: Facts, until: datetime, budget: Budget
) -> tuple[dict[str, Foreseen], bool]:
    """Changed due times, by schedule name, and whether all schedules were compared."""
    looked_at, found, everything = 0, dict[str, Foreseen](), True
    for name, look in _looks(difference, facts, until, budget):
        if looked_at > MOST_LOOKED_AT:
            return found, False
        try:
            seen = look()
        except OverBudget:
            return found, False
        looked_at += seen.looked_at
        everything = everything and seen.compared_until is None
        note = facts.notes.get(name)
        found[name] = replace(seen, notes=(*seen.notes, note)) if note else seen
    return found, everything


def _looks(
    difference: Difference, facts: Facts, until: datetime, budget: Budget
) -> Iterator[tuple[str, Callable[[], Foreseen]]]:
    """Changes first, because they matter most, then removed and new schedules."""
    how, snapshots = (difference.now, until, budget), facts.snapshots
    share = MOST_LOOKED_AT // max(len(difference.edits) + len(difference.following), 1)
    change = partial(foresee_change, most=min(max(share, LEAST_COMPARED), MOST_COMPARED))

    coming = [one for one in difference.windows if one.end_at > difference.now]

    def windows(spec: ScheduleSpec) -> tuple[WindowSpan, ...]:
        return spans_for(coming, dict(spec.labels))

    for one in difference.edits:  # an unreadable one has no snapshot
        if (found := snapshots.get(one.schedule.id)) is not None:
            yield one.wanted.name, partial(change, found, one.spec, *how, windows(one.spec))
    for schedule in difference.following:
        if (found := snapshots.get(schedule.id)) is not None:
            spec = renewed(found.spec, difference.calendars)
            yield schedule.name, partial(change, found, spec, *how)
    for schedule in difference.gone:
        if (found := snapshots.get(schedule.id)) is not None:
            yield schedule.name, partial(foresee_end, found, *how)
    for _, _, new in difference.created:
        yield new.name, partial(foresee_new, new.name, new.spec, *how, windows(new.spec))


def _created(
    one: tuple[int, Wanted, NewSchedule], foreseen: Mapping[str, Foreseen]
) -> DeclaredSchedule:
    _, wanted, new = one
    fields = field_changes(None, wanted.spec)
    notes = (Note("paused", "it is created paused"),) if new.paused else ()
    told = DeclaredSchedule(new.name, "create", None, fields, notes=notes)
    return _with(told, foreseen.get(new.name))


def _changed(asked: Asked, one: Changed, foreseen: Mapping[str, Foreseen]) -> DeclaredSchedule:
    schedule, owner = one.schedule, asked.owner
    fields: tuple[FieldChange, ...] = ()
    notes: tuple[Note, ...] = ()
    if one.is_edit:
        fields = field_changes(schedule.spec, one.spec)
    if schedule.spec is None:
        notes = (Note("unreadable", schedule.problem or "its definition cannot be read"),)
    if schedule.owner != owner:
        fields = (FieldChange("owner", schedule.owner or None, owner), *fields)
        needs = "" if asked.adopt else "; to take it over, use adopt"
        notes = (*notes, Note("adopt", f"it {whose(schedule)}{needs}"))
    told = DeclaredSchedule(schedule.name, "change", schedule.version, fields, notes=notes)
    return _with(told, foreseen.get(schedule.name))


def _gone(asked: Asked, schedule: Schedule, foreseen: Mapping[str, Foreseen]) -> DeclaredSchedule:
    if asked.prune:
        told = DeclaredSchedule(schedule.name, "remove", schedule.version)
        return _with(told, foreseen.get(schedule.name))
    left = Note("left", "it is no longer declared, but stays as it is; prune deletes it")
    return DeclaredSchedule(schedule.name, "leave", schedule.version, notes=(left,))


def _following(schedule: Schedule, foreseen: Mapping[str, Foreseen]) -> DeclaredSchedule:
    told = DeclaredSchedule(schedule.name, "follow", schedule.version)
    return _with(told, foreseen.get(schedule.name))


def _fingerprint(namespace: str, asked: Asked, found: Difference) -> str:
    """A hash of the changes and of the versions that they apply to."""
    rows: list[Any] = [["create", one.name, one.spec.to_json()] for _, one, _ in found.created]
    rows += [
        ["change", one.wanted.name, *_basis(one.schedule), one.wanted.spec.to_json()]
        for one in found.changed
    ]
    if asked.prune:
        rows += [["remove", one.name, *_basis(one)] for one in found.gone]
    rows += [
        ["calendar", name, one.calendar.version, one.calendar.definition, one.calendar.days.text]
        for name, one in found.calendars.items()
    ]
    whole = [namespace, asked.owner, sorted(rows, key=lambda row: (row[1], row[0]))]
    text = json.dumps(whole, sort_keys=True, ensure_ascii=False)
    return sha256(text.encode(errors="replace")).hexdigest()[:32]


def _with(told: DeclaredSchedule, seen: Foreseen | None) -> DeclaredSchedule:
    if seen is None:
        return told
    return replace(
        told,
        appear=seen.appear,
        disappear=seen.disappear,
        move=seen.move,
        more=seen.more,
        compared_until=seen.compared_until,
        controls=seen.controls,
        notes=(*told.notes, *seen.notes),
    )


def _basis(schedule: Schedule) -> tuple[str, int, str]:
    return schedule.id, schedule.version, schedule.owner

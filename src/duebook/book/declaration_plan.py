"""The plan of a declaration: what it does to which schedule, and to their due times; pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.budget import Budget
from duebook.errors import OverBudget
from duebook.model.declaration import Declaration, DeclaredSchedule, FieldChange, field_changes
from duebook.model.note import Note
from duebook.planner import MOST_COMPARED, Foreseen, foresee_change, foresee_end, foresee_new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from duebook.book.bulk import Wanted
    from duebook.model.plan import Snapshot
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.store.values import NewSchedule

__all__ = ["DAYS", "Asked", "Changed", "Difference", "Facts", "plan_declaration", "whose"]

DAYS: Final = 7
MOST_LOOKED_AT: Final = 100_000
"""Due times that one declaration computes for its comparison."""
LEAST_COMPARED: Final = 400
"""Of them, for each schedule that changes, however many these are."""
LONGEST: Final = 5.0
"""Seconds of processor time for it."""


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


class Facts(NamedTuple):
    """What else is read for a plan."""

    snapshots: Mapping[str, Snapshot]
    """of schedules that change or end, by id"""
    notes: Mapping[str, Note]
    """by name: the due times that a change would have kept"""


def plan_declaration(
    namespace: str, asked: Asked, difference: Difference, facts: Facts
) -> Declaration:
    """What declaring does, with the fingerprint by which it can be asked for again."""
    until = difference.now + timedelta(days=asked.days)
    foreseen, compared = _foresee(difference, facts, until) if asked.days else ({}, True)
    told = [
        *(_created(one, foreseen) for one in difference.created),
        *(_changed(asked, one, foreseen) for one in difference.changed),
        *(_gone(asked, one, foreseen) for one in difference.gone),
    ]
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
    )


def whose(schedule: Schedule) -> str:
    """Who declares a schedule, or made it."""
    if schedule.owner:
        return f'is declared by "{schedule.owner}"'
    return (
        f'was created by "{schedule.created_by}"' if schedule.created_by else "was created manually"
    )


def _foresee(
    difference: Difference, facts: Facts, until: datetime
) -> tuple[dict[str, Foreseen], bool]:
    """What becomes of due times, by the names of schedules, and whether all were compared."""
    looked_at, found, everything = 0, dict[str, Foreseen](), True
    for name, look in _looks(difference, facts.snapshots, until):
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
    difference: Difference, snapshots: Mapping[str, Snapshot], until: datetime
) -> Iterator[tuple[str, Callable[[], Foreseen]]]:
    """The changes first, which matter most, then what is removed and what is new."""
    how = difference.now, until, Budget(LONGEST)
    share = MOST_LOOKED_AT // max(len(difference.edits), 1)
    most = min(max(share, LEAST_COMPARED), MOST_COMPARED)
    for one in difference.edits:  # one that cannot be read has no snapshot
        if (found := snapshots.get(one.schedule.id)) is not None:
            yield one.wanted.name, partial(foresee_change, found, one.spec, *how, most)
    for schedule in difference.gone:
        if (found := snapshots.get(schedule.id)) is not None:
            yield schedule.name, partial(foresee_end, found, *how)
    for _, _, new in difference.created:
        yield new.name, partial(foresee_new, new.name, new.spec, *how)


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


def _fingerprint(namespace: str, asked: Asked, found: Difference) -> str:
    """Of what is done, and to which versions."""
    rows: list[Any] = [["create", one.name, one.spec.to_json()] for _, one, _ in found.created]
    rows += [
        ["change", one.wanted.name, *_basis(one.schedule), one.wanted.spec.to_json()]
        for one in found.changed
    ]
    if asked.prune:
        rows += [["remove", one.name, *_basis(one)] for one in found.gone]
    whole = [namespace, asked.owner, sorted(rows, key=lambda row: row[1])]
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

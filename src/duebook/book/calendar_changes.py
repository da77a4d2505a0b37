"""Changes calendars, one that is saved or several that are declared: determines whose days
change, in which order, the new versions, and the schedules that follow."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.book.calendar_days import Resolver
from duebook.errors import Conflict, Invalid, OverBudget, shorten
from duebook.ids import check_name
from duebook.model.calendar import Calendar, load_rule, referred
from duebook.model.calendar_days import FIRST_DAY, LAST_DAY
from duebook.planner import LATEST, DueTimes, count_edit, plan_edit
from duebook.store.values import Edit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from duebook.book.audit import Auditor
    from duebook.budget import Budget
    from duebook.model.calendar import CalendarRule
    from duebook.model.calendar_days import DaySet
    from duebook.model.plan import Plan, Snapshot
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Store, Tx

__all__ = [
    "AT_ONCE",
    "MOST_CALENDARS",
    "CalendarChange",
    "CalendarsMoved",
    "change_calendars",
    "follow",
    "list_following",
    "prepare",
    "read_calendar",
    "read_known",
    "renewed",
    "store_changes",
]

MOST_CALENDARS: Final = 200
"""In a namespace."""
MOST_FOLLOWING: Final = 10_000
"""Schedules that follow calendars in one transaction."""
AT_ONCE: Final = 100
"""Schedules that are read and changed together: a database ends a transaction that is idle for
some seconds."""


class CalendarsMoved(Exception):
    """A calendar, or an object that uses it, was changed after the days were resolved."""


class CalendarChange(NamedTuple):
    """A calendar that is created, or gets a new version."""

    calendar: Calendar
    """as it will be stored"""
    former: Calendar | None
    is_declared: bool
    """False: it refers to one that changes"""

    @property
    def has_other_days(self) -> bool:
        return self.former is None or self.former.days != self.calendar.days


def read_calendar(name: Any, definition: dict[str, Any]) -> CalendarRule:
    """Parse a calendar's definition; raises Invalid."""
    check_name(name, "calendar")
    rule = load_rule(definition)
    for days in (*rule.days.dates, *rule.without.dates):
        if days.last < FIRST_DAY or days.first > LAST_DAY:
            raise Invalid(f"dates {days} has no day from 2000 to 2099, for which calendars count")
    if name in rule.names:
        raise Invalid(f'calendars: calendar "{name}" cannot refer to itself')
    return rule


def read_known(tx: Tx, namespace: str, names: Iterable[str]) -> dict[str, Calendar]:
    """All calendars of the namespace; only `names` and those that refer to them have the texts of
    iCal files."""
    known = {found.name: found for found in tx.calendars.outline_calendars(namespace)}
    refers = {other: set(referred(found.definition)) for other, found in known.items()}
    concerned, more = set[str](), set(names)
    while more:
        concerned |= more
        more = {other for other, its in refers.items() if its & more} - concerned
    if not concerned:
        return known
    return known | tx.calendars.find_calendars(namespace, sorted(concerned))


def change_calendars(
    namespace: str,
    known: Mapping[str, Calendar],
    given: Mapping[str, CalendarRule],
    now: datetime,
    by: str,
    budget: Budget | None = None,
    *,
    afresh: bool = False,
) -> dict[str, CalendarChange]:
    """The changes that these definitions cause, in an order in which they can be saved.

    A calendar keeps its days if its definition and those that it refers to are unchanged. With
    `afresh`, the given ones are resolved again, because public holidays may have changed. Raises
    Invalid, and OverBudget if resolving the days takes longer than `budget`.
    """
    _refuse_many(namespace, known, given)
    refers = {name: referred(found.definition) for name, found in known.items()}
    refers |= {name: rule.names for name, rule in given.items()}
    days = {name: found.days for name, found in known.items()}
    changes: dict[str, CalendarChange] = {}
    resolver = Resolver(budget)
    for name in _in_order(refers):
        former, rule = known.get(name), given.get(name)
        is_given, follows = rule is not None, changes.keys() & set(refers[name])
        if not is_given and not follows:
            continue
        rule = load_rule(known[name].definition) if rule is None else rule
        form = rule.to_json()
        same = former is not None and former.definition == form
        if same and not follows and not afresh:
            continue
        found = days[name] = _resolve(resolver, name, rule, days)
        if same and former is not None and former.days == found:
            continue
        made = former or Calendar(namespace, name, 0, form, 0, now, by)
        version, count = made.version + 1, len(found)
        made = replace(made, version=version, definition=form, day_count=count, days=found)
        changes[name] = CalendarChange(made, former, is_given)
    return changes


def _refuse_many(
    namespace: str, known: Mapping[str, Calendar], given: Mapping[str, CalendarRule]
) -> None:
    number = len(known.keys() | given.keys())
    if number > max(MOST_CALENDARS, len(known)):
        raise Invalid(
            f'calendars: namespace "{namespace}" would have {number}, and may have at most '
            f"{MOST_CALENDARS}; remove some that nothing uses"
        )


def _in_order(refers: Mapping[str, Collection[str]]) -> list[str]:
    """Each after all that it refers to; raises Invalid for a circle."""
    graph = {name: [o for o in others if o in refers] for name, others in sorted(refers.items())}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = " → ".join(error.args[1])
        raise Invalid(f"calendars: these would refer to each other: {shorten(circle)}") from None


def _resolve(
    resolver: Resolver, name: str, rule: CalendarRule, days: Mapping[str, DaySet]
) -> DaySet:
    try:
        return resolver.resolve(rule, days)
    except OverBudget:
        raise
    except Invalid as error:
        raise Invalid(f'calendar "{name}": {error}') from None


# -- in the transaction of the change


def list_following(tx: Tx, namespace: str, changes: Mapping[str, CalendarChange]) -> list[str]:
    """The ids of schedules that use calendars whose days change; raises Invalid for too many."""
    moving = [name for name, change in changes.items() if change.has_other_days]
    users = tx.calendars.list_users(namespace, moving) if moving else []
    if len(users) > MOST_FOLLOWING:
        raise Invalid(
            f"calendars: {len(users):,} schedules would follow {', '.join(moving[:5])}; at most "
            f"{MOST_FOLLOWING:,} can follow at once"
        )
    return users


def store_changes(
    tx: Tx,
    audit: Auditor,
    changes: Mapping[str, CalendarChange],
    bases: Mapping[str, int],
    locked: Collection[str],
    by: str = "",
) -> None:
    """Store the new versions. The caller has `locked` the states of the schedules that follow, as
    for any edit. Raises CalendarsMoved if a calendar no longer has the version in `bases`, or if
    other schedules use them by now."""
    namespace, maker = audit.namespace, by or audit.by
    tx.calendars.lock(namespace)
    if tx.calendars.latest_versions(namespace) != bases:
        raise CalendarsMoved
    if not set(locked).issuperset(list_following(tx, namespace, changes)):
        raise CalendarsMoved
    for name, (calendar, former, is_declared) in changes.items():
        form, days = calendar.definition, calendar.days
        try:
            tx.calendars.save_calendar(namespace, name, calendar.version, form, days, maker)
        except Conflict:  # saved by another transaction just now
            raise CalendarsMoved from None
        if is_declared:
            action, before = ("update", former.definition) if former else ("create", None)
            audit.note(tx, action, "calendar", name, "", before, form, maker)


# -- the schedules that follow


class Prepared(NamedTuple):
    """An edit of a schedule that was planned before its transaction."""

    snapshot: Snapshot
    spec: ScheduleSpec
    plan: Plan
    until: datetime
    """until then nothing becomes due, and the plan stays right"""


def prepare(
    store: Store, ids: Sequence[str], changes: Mapping[str, CalendarChange]
) -> dict[str, Prepared]:
    """Plan how schedules follow. That takes most of the time, and needs no lock."""
    found: dict[str, Prepared] = {}
    for part in _parts(ids):
        now, snapshots = store.read(partial(_read, ids=part))
        for snapshot in snapshots:
            if (spec := renewed(snapshot.spec, changes)) is not snapshot.spec:
                found[snapshot.schedule_id] = _prepare(snapshot, spec, now)
    return found


def _read(tx: Tx, ids: Sequence[str]) -> tuple[datetime, list[Snapshot]]:
    return tx.now, tx.plans.snapshots(ids)


def _prepare(snapshot: Snapshot, spec: ScheduleSpec, now: datetime) -> Prepared:
    spec = count_edit(snapshot, spec, now)
    plan = plan_edit(snapshot, spec, now)
    every = DueTimes.everything(spec), DueTimes.of(snapshot, now)
    soon = [*(due.next_after(now) for due in every), plan.next_due_at, plan.wake_at]
    until = min((at for at in soon if at is not None), default=LATEST)
    return Prepared(snapshot, spec, plan, until)


def follow(
    tx: Tx,
    ids: Sequence[str],
    changes: Mapping[str, CalendarChange],
    by: str,
    prepared: Mapping[str, Prepared],
) -> None:
    """Give schedules the new days of their calendars, by the same rule as an edit. Edits in
    `prepared` are planned again only for schedules that have changed or become due since."""
    for part in _parts(ids):
        schedules = {one.id: one for one in tx.schedules.get_schedules(part)}
        edits = []
        for snapshot in tx.plans.snapshots(part):
            known = prepared.get(snapshot.schedule_id)
            if known is None or known.snapshot != snapshot or known.until <= tx.now:
                spec = renewed(snapshot.spec, changes)
                if spec is snapshot.spec:  # it has another calendar by now
                    continue
                known = _prepare(snapshot, spec, tx.now)
            schedule = schedules[snapshot.schedule_id]
            edits.append(Edit(schedule, known.spec, known.plan, snapshot.spec))
        if edits:
            tx.schedules.update_schedules(edits, by)


def _parts(ids: Sequence[str]) -> Iterator[list[str]]:
    """In the order in which all writers lock them."""
    found = sorted(ids)
    for first in range(0, len(found), AT_ONCE):
        yield found[first : first + AT_ONCE]


def renewed(spec: ScheduleSpec, changes: Mapping[str, CalendarChange]) -> ScheduleSpec:
    """A stored definition with the new days of its calendar."""
    use = spec.calendar
    if use is None or use.name not in changes:
        return spec
    calendar = changes[use.name].calendar
    return replace(spec, calendar=use.resolved(calendar.version, calendar.days))

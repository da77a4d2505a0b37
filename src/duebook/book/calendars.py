"""What people do with calendars: save, look at, compare and remove them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from duebook.book.audit import Auditor
from duebook.book.calendar_days import Resolver
from duebook.book.declared_calendars import MOST_CALENDARS
from duebook.errors import Conflict, Invalid, NotFound, counted, shorten
from duebook.ids import check_name
from duebook.model.calendar import Calendar, CalendarEdit, MovedDueTimes, load_rule, referred
from duebook.model.calendar_days import FIRST_DAY, LAST_DAY, DaySet
from duebook.planner import DueTimes, count_edit, plan_edit, upcoming_after
from duebook.store.values import Edit
from duebook.timetext import parse_date

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.budget import Budget
    from duebook.model.calendar import CalendarRule
    from duebook.model.plan import Snapshot
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Store, Tx

    # inside the class below `list` is a method
    CalendarList = list[Calendar]
    DayList = list[str]
    IdList = list[str]

__all__ = ["Calendars"]

COMPARED: Final = timedelta(days=400)
MOST_COMPARED: Final = 500
"""Due times of a schedule that an edit compares, and schedules:"""
MOST_SCHEDULES: Final = 10_000
MOST_PREVIEWED: Final = 1_000
AT_ONCE: Final = 100
"""Schedules that are read and changed together: a database ends a transaction in which nothing
happens for some seconds."""
TRIES: Final = 3
_ONE_YEAR: Final = timedelta(days=365)


class _Moved(Exception):
    """Somebody changed a calendar, or what uses it, after the days were resolved."""


@dataclass(frozen=True)
class _Saving:
    """Calendars that are saved together, resolved with those that were `known`."""

    known: Mapping[str, Calendar]
    changed: Mapping[str, DaySet]
    given: Mapping[str, dict[str, Any]]
    """definitions by name; the others stay as they are"""
    by: str

    @cached_property
    def versions(self) -> dict[str, int]:
        """The next version of each calendar whose days or definition change."""
        known = ((name, days, self.known.get(name)) for name, days in self.changed.items())
        return {
            name: 1 if former is None else former.version + 1
            for name, days, former in known
            if former is None or name in self.given or former.days != days
        }

    def form_of(self, name: str) -> dict[str, Any]:
        return self.given[name] if name in self.given else self.known[name].definition


class Calendars:
    """Named calendars of a namespace. Saving one resolves its days; schedules that use it follow as
    after an edit."""

    def __init__(
        self, store: Store, namespace: str, by: str = "", budget: Budget | None = None
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._budget = budget
        self._audit = Auditor(namespace, by)

    def list(self) -> CalendarList:
        """Return every calendar of the namespace, by name, without the texts of iCal files."""
        return self._store.read(lambda tx: tx.calendars.outline_calendars(self._namespace))

    def get(self, name: str) -> Calendar:
        """Return one calendar; raises NotFound."""
        return self._store.read(lambda tx: self._find(tx, name))

    def days(
        self, name: str, start: str | date | None = None, end: str | date | None = None
    ) -> DayList:
        """Return the days of a calendar from `start` to `end`, such as "2026-12-25"; by default
        those of the next 365 days.

        Raises NotFound, and Invalid for a range outside 2000 to 2099.
        """

        def work(tx: Tx) -> DayList:
            first = tx.now.date() if start is None else parse_date(start)
            last = first + _ONE_YEAR if end is None else parse_date(end)
            if first > last or first < FIRST_DAY or last > LAST_DAY:
                raise Invalid(f"{first} to {last} is not a range of days from 2000 to 2099")
            return [day.isoformat() for day in self._find(tx, name).days.between(first, last)]

        return self._store.read(work)

    def preview(self, name: str, **definition: Any) -> CalendarEdit:
        """Show what `save` would change: days, and due times of the next 400 days."""
        rule = _read(name, definition)
        known = self._known(name, rule)
        changed = self._resolved(known, name, rule)
        return self._store.read(lambda tx: self._compare(tx, name, known.get(name), changed))

    def save(
        self, name: str, by: str = "", version: int | None = None, **definition: Any
    ) -> Calendar:
        """Create a calendar, or change it for all schedules that use it.

        A definition has `dates`, `weekdays`, `rrule`, `holidays`, `ical` and `calendars`, which are
        united, and `without`, an object with the same fields. The days are resolved now, from 2000
        to 2099. Pending due times of the schedules follow the new days, and due times that only the
        old days had are recorded as `edited`.

        Raises Invalid, and Conflict if `version` is not the latest.
        """
        rule, maker = _read(name, definition), by or self._audit.by
        for _ in range(TRIES):
            known = self._known(name, rule)
            former = known.get(name)
            if version is not None and version != (former.version if former else 0):
                was = former.version if former else "none"
                raise Conflict(f'calendar "{name}" has version {was}, not {version}')
            if former is None and len(known) >= MOST_CALENDARS:
                raise Invalid(
                    f'namespace "{self._namespace}" already has {MOST_CALENDARS} calendars, the '
                    "most that it may have; remove some that nothing uses"
                )
            changed = self._resolved(known, name, rule)  # takes long: nothing is locked yet
            form = rule.to_json()
            if former and (former.definition, former.days) == (form, changed[name]):
                return former
            saving = _Saving(known, changed, {name: form}, maker)
            try:
                return self._store.transact(partial(self._put, name=name, saving=saving))
            except _Moved:
                continue
        raise Conflict("others keep changing this calendar, or what uses it; try again")

    def _put(self, tx: Tx, name: str, saving: _Saving) -> Calendar:
        """Store the days that were resolved; raises _Moved if they were resolved with calendars
        that are no longer the latest."""
        ids = self._lock(tx, saving)
        for each, version in saving.versions.items():
            form, days = saving.form_of(each), saving.changed[each]
            tx.calendars.save_calendar(self._namespace, each, version, form, days, saving.by)
        self._follow(tx, ids, saving)
        former, form = saving.known.get(name), saving.form_of(name)
        before = None if former is None else former.definition
        action = "create" if former is None else "update"
        self._audit.note(tx, action, "calendar", name, "", before, form, saving.by)
        return self._find(tx, name)

    def _lock(self, tx: Tx, saving: _Saving) -> IdList:
        """The schedules that use what is saved: their states are locked, then the calendars, as
        those do who edit schedules. Raises _Moved if others changed any of them before."""
        users = partial(tx.calendars.list_users, self._namespace, list(saving.versions))
        ids = users()
        if len(ids) > MOST_SCHEDULES:
            raise Invalid(
                f"{len(ids):,} schedules use the calendar; at most {MOST_SCHEDULES:,} can be "
                "changed at once"
            )
        tx.plans.lock(ids)
        tx.calendars.lock(self._namespace)
        known = {name: found.version for name, found in saving.known.items()}
        if tx.calendars.latest_versions(self._namespace) != known or users() != ids:
            raise _Moved
        return ids

    def remove(self, name: str) -> None:
        """Delete a calendar. Raises NotFound, and Conflict if schedules or calendars use it."""

        def work(tx: Tx) -> None:
            tx.calendars.lock(self._namespace)
            found = self._find(tx, name)
            if ids := tx.calendars.list_users(self._namespace, [name]):
                used = tx.schedules.get_schedule(ids[0]).name
                more = f" and {counted(len(ids) - 1, 'other')}" if len(ids) > 1 else ""
                told = f'calendar "{name}" is used by schedule "{used}"{more}'
                raise Conflict(f"{told}; give them another calendar, or none, first")
            for other in tx.calendars.outline_calendars(self._namespace):
                if name in referred(other.definition):
                    told = f'calendar "{name}" is used by calendar "{other.name}"'
                    raise Conflict(f"{told}; change or delete that one first")
            tx.calendars.remove_calendar(self._namespace, name)
            self._audit.note(tx, "delete", "calendar", name, "", found.definition)

        self._store.transact(work)

    def _find(self, tx: Tx, name: str) -> Calendar:
        if not isinstance(name, str):
            raise Invalid(f"name {shorten(name)} is not a string")
        found = tx.calendars.find_calendars(self._namespace, [name.replace("\0", "")]).get(name)
        if found is None:
            raise NotFound(f'calendar "{shorten(name)}" does not exist')
        return found

    def _known(self, name: str, rule: CalendarRule) -> dict[str, Calendar]:
        """The calendars of the namespace, those that a change of `name` concerns in full."""

        def work(tx: Tx) -> dict[str, Calendar]:
            known = {found.name: found for found in tx.calendars.outline_calendars(self._namespace)}
            concerned = _in_order(name, rule, known)
            return known | tx.calendars.find_calendars(self._namespace, concerned)

        return self._store.read(work)

    def _resolved(
        self, known: Mapping[str, Calendar], name: str, rule: CalendarRule
    ) -> dict[str, DaySet]:
        """The days of a calendar, and of those that refer to it, directly or not.

        Raises OverBudget when the budget is used up.
        """
        days = {other: found.days for other, found in known.items() if other != name}
        changed: dict[str, DaySet] = {}
        resolver = Resolver(self._budget)
        for each in _in_order(name, rule, known):
            its = rule if each == name else load_rule(known[each].definition)
            days[each] = changed[each] = resolver.resolve(its, days)
        return changed

    def _follow(self, tx: Tx, ids: Sequence[str], saving: _Saving) -> None:
        """Edit the schedules that use calendars of which there are new versions."""
        for first in range(0, len(ids), AT_ONCE):
            some = ids[first : first + AT_ONCE]
            schedules = {one.id: one for one in tx.schedules.get_schedules(some)}
            edits = [
                Edit(schedules[one.schedule_id], spec, plan_edit(one, spec, tx.now), one.spec)
                for one in tx.plans.snapshots(some)
                if (spec := _edited(one, saving.versions, saving.changed, tx.now)) is not None
            ]
            if edits:
                tx.schedules.update_schedules(edits, saving.by)

    def _compare(
        self, tx: Tx, name: str, former: Calendar | None, changed: Mapping[str, DaySet]
    ) -> CalendarEdit:
        was = former.days if former else DaySet.of(())
        until = tx.now + COMPARED
        ids = tx.calendars.list_users(self._namespace, list(changed))
        moved = []
        for id_ in ids[:MOST_PREVIEWED]:
            snapshot = _readable(tx, id_)
            if snapshot is None:
                continue
            spec = _edited(snapshot, dict.fromkeys(changed, 0), changed, tx.now)
            if spec is None:
                continue
            told = self._moved(snapshot, spec, tx.now, until)
            if told.gone or told.new:
                moved.append(told)
        return CalendarEdit(
            name,
            former.version if former else 0,
            _ranges(changed[name] - was, tx.now.date()),
            _ranges(was - changed[name], tx.now.date()),
            len(ids),
            until,
            tuple(sorted(moved, key=lambda told: told.schedule)),
        )

    def _moved(
        self, snapshot: Snapshot, spec: ScheduleSpec, now: datetime, until: datetime
    ) -> MovedDueTimes:
        place = upcoming_after(snapshot, now)
        planned = plan_edit(snapshot, spec, now).said
        carried = tuple(e for e in planned if e.kind == "moved_here")
        after = replace(snapshot, spec=spec, exceptions=(*snapshot.exceptions, *carried))
        was, will = (
            list(islice(DueTimes.of(of, now, self._budget).among(place, until), MOST_COMPARED))
            for of in (snapshot, after)
        )
        full = [times[-1] for times in (was, will) if len(times) == MOST_COMPARED]
        last = min(full, default=until)
        gone = tuple(at for at in was if at not in set(will) and at <= last)
        new = tuple(at for at in will if at not in set(was) and at <= last)
        return MovedDueTimes(snapshot.name, gone, new)


def _edited(
    snapshot: Snapshot,
    versions: Mapping[str, int],
    changed: Mapping[str, DaySet],
    now: datetime,
) -> ScheduleSpec | None:
    """The definition of a schedule with the new days of its calendar; None: it has them."""
    use = snapshot.spec.calendar
    if use is None or use.name not in versions or use.days == changed[use.name]:
        return None
    renewed = use.resolved(versions[use.name], changed[use.name])
    return count_edit(snapshot, replace(snapshot.spec, calendar=renewed), now)


def _readable(tx: Tx, schedule_id: str) -> Snapshot | None:
    try:
        return tx.plans.snapshot(schedule_id)
    except (Conflict, NotFound):  # nobody here can read its definition
        return None


def _read(name: str, definition: dict[str, Any]) -> CalendarRule:
    check_name(name, "calendar")
    rule = load_rule(definition)
    for days in (*rule.days.dates, *rule.without.dates):
        if days.last < FIRST_DAY or days.first > LAST_DAY:
            raise Invalid(f"dates {days} has no day from 2000 to 2099, for which calendars count")
    if name in rule.names:
        raise Invalid(f'calendars: calendar "{name}" cannot refer to itself')
    return rule


def _in_order(name: str, rule: CalendarRule, known: Mapping[str, Calendar]) -> list[str]:
    """A calendar and those that refer to it, each after all that it refers to itself."""
    names = {other: set(referred(found.definition)) for other, found in known.items()}
    names[name] = set(rule.names)
    found = [name]
    waiting = True
    while waiting:
        more = [other for other, its in names.items() if other not in found and its & set(found)]
        found += more
        waiting = bool(more)
    ordered: list[str] = []
    while len(ordered) < len(found):
        ready = [
            each
            for each in found
            if each not in ordered and not (names[each] & set(found)) - set(ordered)
        ]
        if not ready:
            raise Invalid(f'calendars: calendar "{name}" would refer to itself through others')
        ordered += ready
    return ordered


def _ranges(days: DaySet, since: date) -> tuple[str, ...]:
    return tuple(str(found) for found in days.ranges(since, LAST_DAY))

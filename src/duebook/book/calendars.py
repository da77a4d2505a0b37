"""What people do with calendars: save, look at, compare and remove them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from duebook.book.audit import Auditor
from duebook.book.calendar_days import resolve
from duebook.errors import Conflict, Invalid, NotFound, counted, shorten
from duebook.ids import check_name
from duebook.model.calendar import Calendar, CalendarEdit, MovedDueTimes, load_rule
from duebook.model.calendar_days import FIRST_DAY, LAST_DAY, DaySet
from duebook.planner import DueTimes, count_edit, plan_edit, upcoming_after
from duebook.store.values import Edit
from duebook.timetext import parse_date

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duebook.budget import Budget
    from duebook.model.calendar import CalendarRule
    from duebook.model.plan import Snapshot
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Store, Tx

    # inside the class below `list` is a method
    CalendarList = list[Calendar]
    DayList = list[str]

__all__ = ["Calendars"]

COMPARED: Final = timedelta(days=400)
MOST_COMPARED: Final = 500
"""Due times of a schedule that an edit compares, and schedules:"""
MOST_SCHEDULES: Final = 10_000
MOST_PREVIEWED: Final = 1_000
_ONE_YEAR: Final = timedelta(days=365)


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
        """Return every calendar of the namespace, by name."""
        return self._store.read(lambda tx: tx.calendars.list_calendars(self._namespace))

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
        return self._store.read(lambda tx: self._compare(tx, name, rule))

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
        rule = _read(name, definition)

        def work(tx: Tx) -> Calendar:
            tx.calendars.lock(self._namespace)
            former = tx.calendars.find_calendars(self._namespace, [name]).get(name)
            if version is not None and version != (former.version if former else 0):
                was = former.version if former else "none"
                raise Conflict(f'calendar "{name}" has version {was}, not {version}')
            changed = self._resolved(tx, name, rule)
            maker = by or self._audit.by
            form = rule.to_json()
            if former and (former.definition, former.days) == (form, changed[name]):
                return former
            versions = self._save(tx, changed, {name: form}, maker)
            self._follow(tx, versions, changed, maker)
            before = None if former is None else former.definition
            action = "create" if former is None else "update"
            self._audit.note(tx, action, "calendar", name, "", before, form, maker)
            return self._find(tx, name)

        return self._store.transact(work)

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
            for other in tx.calendars.list_calendars(self._namespace):
                if name in load_rule(other.definition).names:
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

    def _resolved(self, tx: Tx, name: str, rule: CalendarRule) -> dict[str, DaySet]:
        """The days of a calendar, and of those that refer to it, directly or not."""
        known = {found.name: found for found in tx.calendars.list_calendars(self._namespace)}
        rules = {other: load_rule(found.definition) for other, found in known.items()}
        rules[name] = rule
        days = {other: found.days for other, found in known.items() if other != name}
        changed: dict[str, DaySet] = {}
        for each in _in_order(name, rules):
            days[each] = changed[each] = resolve(rules[each], days)
        return changed

    def _save(
        self, tx: Tx, changed: Mapping[str, DaySet], given: Mapping[str, Any], by: str
    ) -> dict[str, int]:
        """Store the next version of each calendar whose days or definition changed."""
        known = tx.calendars.find_calendars(self._namespace, list(changed))
        versions: dict[str, int] = {}
        for name, days in changed.items():
            former = known.get(name)
            if former is not None and name not in given and former.days == days:
                continue
            versions[name] = 1 if former is None else former.version + 1
            form = given[name] if former is None else given.get(name, former.definition)
            place = self._namespace, name, versions[name]
            tx.calendars.save_calendar(*place, form, days, by)
        return versions

    def _follow(
        self, tx: Tx, versions: Mapping[str, int], changed: Mapping[str, DaySet], by: str
    ) -> None:
        """Edit the schedules that use calendars of which there are new versions."""
        ids = tx.calendars.list_users(self._namespace, list(versions))
        if len(ids) > MOST_SCHEDULES:
            raise Invalid(
                f"{len(ids):,} schedules use the calendar; at most {MOST_SCHEDULES:,} can be "
                "changed at once"
            )
        for snapshot in tx.plans.snapshots(ids) if ids else ():
            if (spec := _edited(snapshot, versions, changed, tx.now)) is not None:
                schedule = tx.schedules.get_schedule(snapshot.schedule_id)
                planned = plan_edit(snapshot, spec, tx.now)
                tx.schedules.update_schedules([Edit(schedule, spec, planned, snapshot.spec)], by)

    def _compare(self, tx: Tx, name: str, rule: CalendarRule) -> CalendarEdit:
        former = tx.calendars.find_calendars(self._namespace, [name]).get(name)
        changed = self._resolved(tx, name, rule)
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


def _in_order(name: str, rules: Mapping[str, CalendarRule]) -> list[str]:
    """A calendar and those that refer to it, each after all that it refers to itself."""
    found = [name]
    waiting = True
    while waiting:
        more = [o for o, rule in rules.items() if o not in found and set(rule.names) & set(found)]
        found += more
        waiting = bool(more)
    ordered: list[str] = []
    while len(ordered) < len(found):
        ready = [
            each
            for each in found
            if each not in ordered and not (set(rules[each].names) & set(found)) - set(ordered)
        ]
        if not ready:
            raise Invalid(f'calendars: calendar "{name}" would refer to itself through others')
        ordered += ready
    return ordered


def _ranges(days: DaySet, since: date) -> tuple[str, ...]:
    return tuple(str(found) for found in days.ranges(since, LAST_DAY))

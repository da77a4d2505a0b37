"""Use cases of calendars: save, show, compare and remove them."""

from __future__ import annotations

from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from duebook.book.audit import Auditor
from duebook.book.calendar_changes import (
    AT_ONCE,
    CalendarsMoved,
    change_calendars,
    follow,
    list_following,
    prepare,
    read_calendar,
    read_known,
    renewed,
    store_changes,
)
from duebook.book.calendar_preview import compare_all
from duebook.errors import Conflict, Invalid, NotFound, counted, shorten
from duebook.model.calendar import Calendar, CalendarEdit, referred
from duebook.model.calendar_days import FIRST_DAY, LAST_DAY, DaySet
from duebook.timetext import parse_date

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duebook.book.calendar_changes import CalendarChange
    from duebook.budget import Budget
    from duebook.model.calendar import CalendarRule
    from duebook.model.plan import Snapshot
    from duebook.store.base import Store, Tx

    # inside the class below `list` is a method
    CalendarList = list[Calendar]
    DayList = list[str]
    SnapshotList = list[Snapshot]

__all__ = ["Calendars"]

MOST_PREVIEWED: Final = 1_000
"""Schedules whose due times an edit compares."""
TRIES: Final = 3
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
        """Show what `save` would change: days, and due times of the schedules that follow."""
        rule = read_calendar(name, definition)
        now, known = self._known(name)
        changes = self._changes(known, name, rule, now)
        users, more, snapshots = self._store.read(lambda tx: self._following(tx, name, changes))
        found = compare_all(snapshots, partial(renewed, changes=changes), now, self._budget)
        former, none = known.get(name), DaySet.of(())
        was = former.days if former else none
        becomes = changes[name].calendar.days if name in changes else was
        return CalendarEdit(
            name,
            former.version if former else 0,
            _ranges(becomes - was, now.date()),
            _ranges(was - becomes, now.date()),
            users,
            users - more - (len(snapshots) - found.number),
            found.until,
            found.moved,
        )

    def _following(
        self, tx: Tx, name: str, changes: Mapping[str, CalendarChange]
    ) -> tuple[int, int, SnapshotList]:
        """The number of schedules that use the calendar, directly or not; those that follow, and
        how many of these are beyond the limit and not read."""
        users = tx.calendars.list_users(self._namespace, [name, *changes])
        ids = list_following(tx, self._namespace, changes)
        most = min(len(ids), MOST_PREVIEWED)
        parts = [ids[first : min(first + AT_ONCE, most)] for first in range(0, most, AT_ONCE)]
        snapshots = [one for part in parts for one in tx.plans.snapshots(part)]
        return len(users), len(ids) - most, snapshots

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
        rule, maker = read_calendar(name, definition), by or self._audit.by
        for _ in range(TRIES):
            now, known = self._known(name)
            former = known.get(name)
            if version is not None and version != (former.version if former else 0):
                was = former.version if former else "none"
                raise Conflict(f'calendar "{name}" has version {was}, not {version}')
            changes = self._changes(known, name, rule, now)
            if former is not None and not changes:
                return former
            bases = {other: found.version for other, found in known.items()}
            try:
                return self._put(name, changes, bases, maker)
            except CalendarsMoved:
                continue
        raise Conflict("others keep changing this calendar, or what uses it; try again")

    def _put(
        self,
        name: str,
        changes: Mapping[str, CalendarChange],
        bases: Mapping[str, int],
        by: str,
    ) -> Calendar:
        """Raises CalendarsMoved if anything has changed since the days were resolved."""
        ids = self._store.read(lambda tx: list_following(tx, self._namespace, changes))
        prepared = prepare(self._store, ids, changes)

        def work(tx: Tx) -> Calendar:
            tx.plans.lock(ids)
            store_changes(tx, self._audit, changes, bases, ids, by)
            follow(tx, ids, changes, by, prepared)
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

    def _known(self, name: str) -> tuple[datetime, dict[str, Calendar]]:
        return self._store.read(lambda tx: (tx.now, read_known(tx, self._namespace, [name])))

    def _changes(
        self, known: Mapping[str, Calendar], name: str, rule: CalendarRule, now: datetime
    ) -> dict[str, CalendarChange]:
        """Raises OverBudget when the budget is used up."""
        made = {name: rule}, now, self._audit.by
        return change_calendars(self._namespace, known, *made, self._budget, afresh=True)


def _ranges(days: DaySet, since: date) -> tuple[str, ...]:
    return tuple(str(found) for found in days.ranges(since, LAST_DAY))

"""Looks up the calendars that definitions name, in a transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duebook.model.schedule import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duebook.model.calendar import Calendar
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Tx

__all__ = ["are_current", "calendars_of", "look_up", "put_to_use", "resolved"]


def calendars_of(tx: Tx, namespace: str, specs: Iterable[ScheduleSpec]) -> dict[str, Calendar]:
    """The calendars that any of these definitions names, if they exist."""
    names = {spec.calendar.name for spec in specs if spec.calendar is not None}
    return tx.calendars.find_calendars(namespace, sorted(names)) if names else {}


def look_up(tx: Tx, namespace: str, spec: ScheduleSpec) -> ScheduleSpec:
    """The definition with the days of its calendar; raises InvalidSchedule if it does not exist."""
    return resolved(spec, calendars_of(tx, namespace, [spec]))


def put_to_use(tx: Tx, namespace: str, spec: ScheduleSpec) -> ScheduleSpec:
    """As `look_up`, for a definition that comes into force with this transaction. A concurrent
    change of the calendar commits before, or finds the schedule among those that follow."""
    if spec.calendar is not None:
        tx.calendars.hold(namespace, [spec.calendar.name])
    return look_up(tx, namespace, spec)


def are_current(tx: Tx, namespace: str, specs: Iterable[ScheduleSpec]) -> bool:
    """Whether definitions that were looked up before, and come into force with this transaction,
    have the latest days of their calendars."""
    uses = [spec.calendar for spec in specs if spec.calendar is not None]
    if not uses:
        return True
    names = [use.name for use in uses]
    tx.calendars.hold(namespace, names)
    known = tx.calendars.find_calendars(namespace, names)
    return all(use.name in known and known[use.name].version == use.version for use in uses)


def resolved(spec: ScheduleSpec, known: dict[str, Calendar]) -> ScheduleSpec:
    """As `look_up`, with calendars that have already been read."""
    use = spec.calendar
    if use is None:
        return spec
    found = known.get(use.name)
    if found is None:
        told = f'calendar "{use.name}" does not exist; create it: duebook calendar add {use.name}'
        raise InvalidSchedule({"calendar": told})
    return replace(spec, calendar=use.resolved(found.version, found.days))

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

__all__ = ["calendars_of", "look_up", "resolved"]


def calendars_of(tx: Tx, namespace: str, specs: Iterable[ScheduleSpec]) -> dict[str, Calendar]:
    """The calendars that any of these definitions names, as far as they exist."""
    names = {spec.calendar.name for spec in specs if spec.calendar is not None}
    return tx.calendars.find_calendars(namespace, sorted(names)) if names else {}


def look_up(tx: Tx, namespace: str, spec: ScheduleSpec) -> ScheduleSpec:
    """The definition with the days of its calendar; raises InvalidSchedule if there is none."""
    return resolved(spec, calendars_of(tx, namespace, [spec]))


def resolved(spec: ScheduleSpec, known: dict[str, Calendar]) -> ScheduleSpec:
    """As `look_up`, with calendars that were read before."""
    use = spec.calendar
    if use is None:
        return spec
    found = known.get(use.name)
    if found is None:
        told = f'calendar "{use.name}" does not exist; create it: duebook calendar add {use.name}'
        raise InvalidSchedule({"calendar": told})
    return replace(spec, calendar=use.resolved(found.version, found.days))

"""Calendars that are declared together with schedules: which change, and what their days become."""

from __future__ import annotations

from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.book.calendar_days import resolve
from duebook.errors import Invalid, counted, shorten
from duebook.ids import check_name
from duebook.model.calendar import Calendar, load_rule
from duebook.model.calendar_days import LAST_DAY
from duebook.model.declaration import MOST_LISTED, DeclaredCalendar, FieldChange
from duebook.model.schedule import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from duebook.model.calendar import CalendarRule
    from duebook.model.schedule import ScheduleSpec

__all__ = ["CalendarChange", "change_calendars", "read_calendars", "renewed", "tell_calendar"]

MOST_CALENDARS: Final = 200
"""Of a namespace."""


class CalendarChange(NamedTuple):
    """A calendar that is created, or gets another version."""

    calendar: Calendar
    """as it will be stored"""
    former: Calendar | None
    is_declared: bool
    """False: it refers to one that changes"""


def read_calendars(forms: Iterable[Mapping[str, Any]]) -> dict[str, CalendarRule]:
    """Definitions by name; raises InvalidSchedule that names each wrong one, as `calendars[3]`."""
    if isinstance(forms, str | bytes | dict):
        raise Invalid(f"calendars {shorten(forms)} is not a list of definitions")
    given = list(forms)
    if len(given) > MOST_CALENDARS:
        raise Invalid(f"calendars: at most {MOST_CALENDARS} can be declared, not {len(given):,}")
    found: dict[str, CalendarRule] = {}
    problems: dict[str, str] = {}
    for number, form in enumerate(given):
        place = f"calendars[{number}]"
        try:
            name, rule = _read(form)
        except Invalid as error:
            problems[place] = f"{place}: {error}"
            continue
        if name in found:
            problems[place] = f'{place}: calendar "{name}" is declared twice; keep one of them'
        found[name] = rule
    if problems:
        raise InvalidSchedule(problems)
    return found


def _read(form: Any) -> tuple[str, CalendarRule]:
    if not isinstance(form, dict):
        raise Invalid(f"{shorten(form)} is not an object")
    name = check_name(form.get("name"), "calendar")
    return name, load_rule({key: value for key, value in form.items() if key != "name"})


def change_calendars(
    namespace: str,
    known: Mapping[str, Calendar],
    declared: Mapping[str, CalendarRule],
    now: datetime,
    by: str,
) -> dict[str, CalendarChange]:
    """What declaring does to calendars, in an order in which they can be saved.

    A calendar whose definition stays, and the definitions it refers to, keeps its days: public
    holidays are computed again only by saving it. Raises Invalid.
    """
    rules = {name: load_rule(found.definition) for name, found in known.items()} | dict(declared)
    if len(rules) > max(MOST_CALENDARS, len(known)):
        raise Invalid(
            f'calendars: namespace "{namespace}" would have {len(rules)}, and may have at most '
            f"{MOST_CALENDARS}; remove some that nothing uses"
        )
    days = {name: found.days for name, found in known.items()}
    changes: dict[str, CalendarChange] = {}
    for name in _in_order(rules):
        former, form = known.get(name), rules[name].to_json()
        same = former is not None and former.definition == form
        if same and not changes.keys() & set(rules[name].names):
            continue
        try:
            days[name] = resolve(rules[name], days)
        except Invalid as error:
            raise Invalid(f'calendar "{name}": {error}') from None
        if former is None:
            made = Calendar(namespace, name, 1, form, len(days[name]), now, by, days[name])
        elif same and former.days == days[name]:
            continue
        else:
            version = former.version + 1
            made = replace(
                former, version=version, definition=form, day_count=len(days[name]), days=days[name]
            )
        changes[name] = CalendarChange(made, former, name in declared)
    return changes


def _in_order(rules: Mapping[str, CalendarRule]) -> list[str]:
    """Each after all that it refers to; raises Invalid for a circle."""
    graph = {name: [o for o in rule.names if o in rules] for name, rule in sorted(rules.items())}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = " → ".join(error.args[1])
        raise Invalid(f"calendars: these would refer to each other: {shorten(circle)}") from None


def renewed(spec: ScheduleSpec, changes: Mapping[str, CalendarChange]) -> ScheduleSpec:
    """A stored definition with the days that its calendar gets."""
    use = spec.calendar
    if use is None or use.name not in changes:
        return spec
    calendar = changes[use.name].calendar
    return replace(spec, calendar=use.resolved(calendar.version, calendar.days))


def tell_calendar(change: CalendarChange, now: datetime) -> DeclaredCalendar:
    """What a change does, for people."""
    calendar, former, is_declared = change
    was, becomes = former.definition if former else {}, calendar.definition
    fields = tuple(
        FieldChange(name, _short(was.get(name)), _short(becomes.get(name)))
        for name in {**was, **becomes}
        if was.get(name) != becomes.get(name)
    )
    if former is None:
        return DeclaredCalendar(calendar.name, "create", None, fields)
    added, removed = (
        [str(found) for found in days.ranges(now.date(), LAST_DAY)]
        for days in (calendar.days - former.days, former.days - calendar.days)
    )
    more = sum(max(len(found) - MOST_LISTED, 0) for found in (added, removed))
    return DeclaredCalendar(
        calendar.name,
        "change" if is_declared else "follow",
        former.version,
        fields,
        tuple(added[:MOST_LISTED]),
        tuple(removed[:MOST_LISTED]),
        more,
    )


def _short(value: Any) -> Any:
    """Without the text of iCal files."""
    if isinstance(value, dict):
        return {key: _ical(item) if key == "ical" else item for key, item in value.items()}
    return _ical(value) if isinstance(value, str) else value


def _ical(text: str) -> str:
    return f"an iCal file of {counted(len(text), 'character')}"

"""Calendars that are declared together with schedules: reads them, and describes changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.book.calendar_changes import MOST_CALENDARS, read_calendar
from duebook.errors import Invalid, counted, shorten
from duebook.model.calendar_days import LAST_DAY
from duebook.model.declaration import MOST_LISTED, DeclaredCalendar, FieldChange
from duebook.model.schedule import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from duebook.book.calendar_changes import CalendarChange
    from duebook.model.calendar import CalendarRule

__all__ = ["read_calendars", "tell_calendar"]


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
    given = {key: value for key, value in form.items() if key != "name"}
    return form.get("name", ""), read_calendar(form.get("name"), given)


def tell_calendar(change: CalendarChange, now: datetime) -> DeclaredCalendar:
    """Describe a change for people."""
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

"""Named calendars as values: how a person defines one, and the days it resolves to."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from duebook.errors import Invalid, refuse_keys, shorten
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.calendar_days import DaySet
from duebook.model.codec import NEVER_SHOWN, Name, Shown, shown
from duebook.model.fields import DateRange, is_text, read_date_ranges
from duebook.triggers.rules import parse_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "Calendar",
    "CalendarEdit",
    "CalendarRule",
    "DaySource",
    "MovedDueTimes",
    "definition_text",
    "first_of",
    "load_rule",
    "referred",
]

MOST_SOURCES: Final = 100
LONGEST_ICAL: Final = 1_000_000
_WEEKDAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


@dataclass(frozen=True, slots=True)
class DaySource:
    """Days, as the union of all sources given."""

    dates: tuple[DateRange, ...] = ()
    weekdays: tuple[int, ...] = ()
    """0 is Monday"""
    rrule: tuple[str, ...] = ()
    holidays: tuple[str, ...] = ()
    """countries such as BE, or regions such as DE-BY"""
    ical: str = ""
    """the text of an iCal file"""
    calendars: tuple[str, ...] = ()
    """the names of other calendars"""

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = {
            "dates": [str(days) for days in self.dates],
            "weekdays": [_WEEKDAYS[day] for day in self.weekdays],
            "rrule": list(self.rrule),
            "holidays": list(self.holidays),
            "ical": self.ical,
            "calendars": list(self.calendars),
        }
        return {key: value for key, value in form.items() if value}


@dataclass(frozen=True, slots=True)
class CalendarRule:
    """The days of one source without those of another."""

    days: DaySource
    without: DaySource

    @property
    def names(self) -> tuple[str, ...]:
        """The calendars that it refers to."""
        return (*self.days.calendars, *self.without.calendars)

    def to_json(self) -> dict[str, Any]:
        form, without = self.days.to_json(), self.without.to_json()
        return form | {"without": without} if without else form


_NO_DAYS: Final = DaySet.of(())


@shown("Calendar")
@dataclass(frozen=True, slots=True)
class Calendar:
    """A named calendar of a namespace, in its latest version."""

    namespace: Name
    name: Name
    version: Annotated[int, Shown(least=1)]
    definition: Annotated[
        dict[str, Any], Shown("As it was given; in a list, the text of an iCal file is empty.")
    ]
    day_count: Annotated[int, Shown("How many days from 2000 to 2099 it has.", least=0)]
    created_at: datetime
    created_by: str
    days: Annotated[DaySet, NEVER_SHOWN] = _NO_DAYS


@shown("MovedDueTimes")
@dataclass(frozen=True, slots=True)
class MovedDueTimes:
    """How an edit of a calendar changes the upcoming due times of a schedule."""

    schedule: Name
    gone: Annotated[tuple[datetime, ...], Shown("Due times that it no longer has.")]
    new: Annotated[tuple[datetime, ...], Shown("Due times that it did not have.")]


@shown("CalendarEdit")
@dataclass(frozen=True, slots=True)
class CalendarEdit:
    """What saving a calendar would change."""

    name: Name
    version: Annotated[int, Shown("The version in use; 0: it would be created.", least=0)]
    added: Annotated[tuple[str, ...], Shown("Days to come, or ranges of days, that it gains.")]
    removed: Annotated[tuple[str, ...], Shown("Days to come that it loses.")]
    schedules: Annotated[int, Shown("How many schedules use it.", least=0)]
    compared: Annotated[int, Shown("The due times of how many of them were compared.", least=0)]
    until: Annotated[datetime, Shown("How far their due times were compared, at least.")]
    moved: Annotated[tuple[MovedDueTimes, ...], Shown("The schedules whose due times move.")]


_KEYS: Final = tuple(field.name for field in fields(DaySource))


def load_rule(form: dict[str, Any]) -> CalendarRule:
    """A definition from its JSON form; raises Invalid with the first wrong field."""
    refused = refuse_keys(
        form,
        (*_KEYS, "without"),
        lambda key: f"{key} is not a field of a calendar; use {', '.join(_KEYS)} or without",
    )
    if refused:
        raise Invalid("; ".join(refused.values()))
    without = form.get("without") or {}
    if not isinstance(without, dict) or "without" in without:
        raise Invalid(f'without {shorten(without)} is not an object such as {{"holidays": "BE"}}')
    given = {key: value for key, value in form.items() if key != "without"}
    rule = CalendarRule(_source("", given), _source("without ", without))
    if rule.days == DaySource():
        raise Invalid(f"a calendar needs at least one of {', '.join(_KEYS)}")
    return rule


def referred(definition: dict[str, Any]) -> tuple[str, ...]:
    """The calendars that a stored definition refers to."""
    without = definition.get("without", {})
    return (*definition.get("calendars", ()), *without.get("calendars", ()))


def definition_text(definition: Mapping[str, Any]) -> str:
    """A short description of a definition, with excluded days at the end."""
    parts = []
    for key in (key for key in (*_KEYS, "without") if key in definition):
        value = definition[key]
        if key == "without":
            parts.append(f"without {definition_text(value)}")
        elif key == "ical":
            parts.append("an iCal file")
        else:
            parts.append(f"{key} {first_of(value)}")
    return ", ".join(parts)


def first_of(items: Sequence[str], most: int = 5) -> str:
    """The first items as text, and how many more there are."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more:,} more" if more > 0 else "")


def _source(where: str, form: dict[str, Any]) -> DaySource:
    if unknown := [key for key in form if key not in _KEYS]:
        raise Invalid(f"{where}{shorten(unknown[0])} is not one of {', '.join(_KEYS)}")
    given = {key: value for key, value in form.items() if value not in (None, "", [], ())}
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key == "ical":
            if not is_text(value, LONGEST_ICAL):
                raise Invalid(f"{where}ical is not the text of a file of up to 1 MB")
            found[key] = value
            continue
        items = list(value) if isinstance(value, list | tuple) else [value]
        if key == "weekdays":
            found[key] = tuple(sorted({day for item in items for day in _weekdays(where, item)}))
        elif key == "dates":
            found[key] = read_date_ranges(f"{where}dates", items)
        else:
            found[key] = _texts(where, key, items)
    return DaySource(**found)


def _texts(where: str, key: str, items: list[Any]) -> tuple[str, ...]:
    if len(items) > MOST_SOURCES:
        raise Invalid(f"{where}{key} has {len(items)} items; at most {MOST_SOURCES} are allowed")
    for item in items:
        if not is_text(item, 1_000) or not item:
            raise Invalid(f"{where}{key} {shorten(item)} is not a string")
        if key == "calendars":
            check_name(item, f"{where}calendars")
        elif key == "rrule" and parse_rule(item).below_a_day:
            raise Invalid(f'{where}rrule "{item}" recurs within a day; a calendar has whole days')
    return tuple(items)


def _weekdays(where: str, item: Any) -> list[int]:
    """MON, or MON-FRI, or a list such as MON,WED."""
    found: list[int] = []
    for part in item.upper().split(",") if isinstance(item, str) else [item]:
        first, dash, last = part.partition("-") if isinstance(part, str) else ("", "", "")
        if first not in _WEEKDAYS or (dash and last not in _WEEKDAYS):
            raise Invalid(f"{where}weekdays {shorten(part)} is not a weekday MON to SUN")
        start = _WEEKDAYS.index(first)
        end = _WEEKDAYS.index(last) if dash else start
        if start > end:
            raise Invalid(f"{where}weekdays {part} runs backwards; a week goes from MON to SUN")
        found += range(start, end + 1)
    return found

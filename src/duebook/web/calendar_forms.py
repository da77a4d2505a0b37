"""Converts a calendar definition to the fields of a form, and back; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from duebook.lazy_dataclasses import dataclass
from duebook.web.definitions import plain_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["BLANK", "FIELDS", "WITHOUT", "DayField", "definition_of", "texts_of"]

_APART: Final = re.compile(r"[\s,]+")


@dataclass(frozen=True, slots=True)
class DayField:
    """A form field for one source of days."""

    key: str
    """its name in the definition"""
    words: str
    hint: str
    example: str
    taken_out: bool = False
    """its days are excluded from the calendar"""

    @property
    def name(self) -> str:
        """The name of the field in the form."""
        return f"without_{self.key}" if self.taken_out else self.key

    @property
    def has_lines(self) -> bool:
        return self.key in ("dates", "rrule", "ical")


_SOURCES: Final = (
    ("dates", "Dates", "days or ranges, one per line", "2026-12-24/2027-01-02"),
    ("weekdays", "Weekdays", "single ones or ranges", "SAT SUN"),
    ("rrule", "Recurrence rules", "one per line", "FREQ=MONTHLY;BYDAY=-1FR"),
    ("holidays", "Public holidays", "countries, or parts of one", "BE DE-BY"),
    ("calendars", "Other calendars", "their names", "closing-days"),
    ("ical", "iCal", "the text of a file; the days of its events", "BEGIN:VCALENDAR …"),
)
FIELDS: Final = tuple(DayField(*source) for source in _SOURCES)
WITHOUT: Final = tuple(DayField(*source, taken_out=True) for source in _SOURCES)
BLANK: Final = {field.name: "" for field in (*FIELDS, *WITHOUT)}


def texts_of(definition: Mapping[str, Any]) -> dict[str, str]:
    """The text of each field for a definition."""
    without = definition.get("without", {})
    return {
        field.name: _text(field, (without if field.taken_out else definition).get(field.key))
        for field in (*FIELDS, *WITHOUT)
    }


def _text(field: DayField, value: Any) -> str:
    if not value:
        return ""
    if isinstance(value, str):
        return value
    return ("\n" if field.has_lines else " ").join(value)


def definition_of(given: Mapping[str, str]) -> dict[str, Any]:
    """A definition from the texts of a form, without empty fields; not validated yet."""
    definition = _read(FIELDS, given)
    without = _read(WITHOUT, given)
    return definition | {"without": without} if without else definition


def _read(fields: Sequence[DayField], given: Mapping[str, str]) -> dict[str, Any]:
    texts = {field: plain_lines(given.get(field.name, "")) for field in fields}
    return {field.key: _value(field, text) for field, text in texts.items() if text}


def _value(field: DayField, text: str) -> str | list[str]:
    if field.key == "ical":
        return f"{text}\n"
    if field.key == "rrule":
        return [line.strip() for line in text.splitlines() if line.strip()]
    return [item for item in _APART.split(text) if item]

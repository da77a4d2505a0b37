"""Reads the single fields of a definition; every error names the field and what is right."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, quoted, shorten
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.secret import refuse_hidden, show_payload
from duebook.timetext import (
    format_duration,
    format_instant,
    parse_date,
    parse_duration,
    parse_instant,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

__all__ = [
    "LONGEST_TEXT",
    "LONGEST_TITLE",
    "MOST_DEPENDENCIES",
    "MOST_NESTED",
    "MOST_RANGES",
    "DateRange",
    "Dependency",
    "bounded_json",
    "check_payload",
    "has_nul",
    "is_deeper",
    "is_text",
    "one_of",
    "read_date_ranges",
    "read_dependencies",
    "read_flag",
    "read_instant",
    "read_labels",
    "read_length",
    "read_name",
    "read_positive_length",
    "read_text",
    "read_title",
    "whole",
]

_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
MAX_PAYLOAD: Final = 1_000_000
MOST_NESTED: Final = 100
MOST_RANGES: Final = 1_000
MOST_DEPENDENCIES: Final = 100
MOST_LABELS: Final = 100
LONGEST_TITLE: Final = 200
LONGEST_TEXT: Final = 10_000
_TURNING: Final = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
LONGEST: Final = timedelta(days=36_500)
"""Ensures that now plus or minus any length is a valid time."""
EARLIEST: Final = date(1900, 1, 1)
LATEST: Final = date(9000, 12, 31)


@dataclass(frozen=True, slots=True, order=True)
class DateRange:
    """Calendar days, the first and the last included."""

    first: date
    last: date

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}/{self.last}"


@dataclass(frozen=True, slots=True)
class Dependency:
    """A schedule that must have succeeded within a length of time; `wait` is how long to wait."""

    schedule: str
    within: timedelta
    wait: timedelta = timedelta()

    def to_json(self) -> dict[str, str]:
        form = {"schedule": self.schedule, "within": format_duration(self.within)}
        return form | ({"wait": format_duration(self.wait)} if self.wait else {})


def check_payload(key: str, value: Any) -> dict[str, Any]:
    """A JSON object of bounded size; raises Invalid."""
    if not isinstance(value, dict):
        raise Invalid(f"{key} {shorten(show_payload(value))} is not a JSON object")
    bounded_json(key, value, MAX_PAYLOAD)
    refuse_hidden(key, value)
    return value


def bounded_json(key: str, value: object, most: int) -> str:
    """A JSON value as text of at most `most` bytes; raises Invalid."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"{key} is not valid JSON: {shorten(str(error))}") from None
    if has_nul(text):
        raise Invalid(f"{key} contains a NUL character, which cannot be stored")
    if size > most:
        raise Invalid(f"{key} has {size:,} bytes as JSON; at most {most:,} are allowed")
    if text.count("[") + text.count("{") > MOST_NESTED and is_deeper(value):
        raise Invalid(f"{key} is nested more than {MOST_NESTED} levels deep")
    return text


def has_nul(text: str) -> bool:
    """Whether a JSON text has an escaped NUL, and not just the same characters."""
    return "\\u0000" in text and _NUL.search(text) is not None


def is_deeper(value: Any, most: int = MOST_NESTED) -> bool:
    """Whether lists and objects are nested more deeply than that."""
    inside = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple) or not inside:
        return False
    return most == 0 or any(is_deeper(item, most - 1) for item in inside)


def is_text(value: object, longest: int) -> bool:
    """Text that any database accepts: no NUL, no lone surrogates."""
    if not isinstance(value, str) or len(value) > longest or "\0" in value:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)


def read_labels(key: str, value: Any) -> tuple[tuple[str, str], ...]:
    if (
        isinstance(value, Mapping)
        and len(value) <= MOST_LABELS
        and all(is_text(k, 64) and k and is_text(v, 256) for k, v in value.items())
    ):
        return tuple(sorted(value.items()))
    raise Invalid(f"{key} {shorten(value)} is not an object of up to 100 short strings")


def read_text(key: str, value: Any) -> str:
    if is_text(value, LONGEST_TEXT):
        return str(value)
    raise Invalid(f"{key} {shorten(value)} is not a string of up to {LONGEST_TEXT:,} characters")


def read_title(key: str, value: Any) -> str:
    """One line for people, without characters that could manipulate its display."""
    if not is_text(value, LONGEST_TITLE):
        raise Invalid(f"{key} {shorten(value)} is not a string of up to {LONGEST_TITLE} characters")
    if any(_steers(character) for character in value):
        raise Invalid(
            f"{key} {shorten(value)} contains control characters; use one line of plain text"
        )
    return str(value).strip()


def _steers(character: str) -> bool:
    """Whether it ends a line, moves a cursor or changes the direction of text."""
    kind = unicodedata.category(character)
    return kind in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(character) in _TURNING


def read_length(key: str, value: Any) -> timedelta:
    try:
        length = parse_duration(value)
    except Invalid as error:
        raise Invalid(f"{key}: {error}") from None
    if length > LONGEST:
        raise Invalid(f"{key} {format_duration(length)} is longer than 100 years")
    return length


def read_positive_length(key: str, value: Any) -> timedelta:
    length = read_length(key, value)
    if not length:
        raise Invalid(f"{key} 0s is too short; use 1s or more, or leave it out")
    return length


def read_instant(key: str, value: Any) -> datetime:
    try:
        instant = parse_instant(value)
    except Invalid as error:
        raise Invalid(f"{key}: {error}") from None
    if instant.date() < EARLIEST:
        raise Invalid(f"{key} {format_instant(instant)} is before 1900")
    return instant


def read_flag(key: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Invalid(f"{key} {quoted(value)} is not true or false")


def read_name(key: str, value: Any) -> str:
    return check_name(value, key)


def one_of(allowed: tuple[str, ...]) -> Callable[[str, Any], str]:
    def read(key: str, value: Any) -> str:
        if value not in allowed:
            raise Invalid(f'{key} "{shorten(value)}" is not one of {", ".join(allowed)}')
        return str(value)

    return read


def whole(low: int, high: int) -> Callable[[str, Any], int]:
    def read(key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Invalid(f"{key} {quoted(value)} is not a whole number from {low} to {high:,}")
        return value

    return read


def read_date_ranges(key: str, value: Any) -> tuple[DateRange, ...]:
    """Days such as 2026-12-25 and ranges such as 2026-12-24/2027-01-02, in order."""
    items = value if isinstance(value, list | tuple) else [value]
    if len(items) > MOST_RANGES:
        raise Invalid(f"{key} has {len(items):,} ranges; at most {MOST_RANGES:,} are allowed")
    return tuple(sorted(_date_range(key, item) for item in items))


def _date_range(key: str, item: Any) -> DateRange:
    if isinstance(item, DateRange):
        return item
    first, slash, last = item.partition("/") if isinstance(item, str) else (item, "", "")
    try:
        found = DateRange(parse_date(first), parse_date(last if slash else first))
    except Invalid as error:
        raise Invalid(f"{key}: {error}; write a range like 2026-12-24/2027-01-02") from None
    if found.first > found.last:
        raise Invalid(f'{key}: "{item}" ends before it starts')
    if found.first < EARLIEST:
        raise Invalid(f'{key}: "{item}" starts before 1900')
    if found.last > LATEST:
        raise Invalid(f'{key}: "{item}" ends after the year 9000')
    return found


def read_dependencies(key: str, value: Any) -> tuple[Dependency, ...]:
    """Objects such as {"schedule": "extract", "within": "1h", "wait": "10m"}."""
    items = value if isinstance(value, list | tuple) else [value]
    if len(items) > MOST_DEPENDENCIES:
        raise Invalid(f"{key} has {len(items)} items; at most {MOST_DEPENDENCIES} are allowed")
    return tuple(_dependency(key, item) for item in items)


def _dependency(key: str, item: Any) -> Dependency:
    if isinstance(item, Dependency):
        return item
    allowed = {"schedule", "within", "wait"}
    if not isinstance(item, dict) or not {"schedule", "within"} <= set(item) <= allowed:
        raise Invalid(
            f"{key} {shorten(item)} is not an object such as "
            '{"schedule": "extract", "within": "1h"}'
        )
    return Dependency(
        check_name(item["schedule"], f"{key} schedule"),
        read_positive_length(f"{key} within", item["within"]),
        read_length(f"{key} wait", item.get("wait", timedelta())),
    )

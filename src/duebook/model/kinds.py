"""The kinds of values in fields of a definition. A kind reads a value from JSON, and has what a
form or command needs to ask for one; these handle kinds, never single fields."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from duebook.lazy_dataclasses import dataclass
from duebook.model.calendar_use import CalendarUse, read_calendar_use
from duebook.model.fields import (
    LONGEST_TEXT,
    LONGEST_TITLE,
    MOST_DEPENDENCIES,
    MOST_RANGES,
    DateRange,
    Dependency,
    check_payload,
    one_of,
    read_date_ranges,
    read_dependencies,
    read_flag,
    read_instant,
    read_labels,
    read_length,
    read_name,
    read_positive_length,
    read_text,
    read_title,
    whole,
)
from duebook.model.history import read_keep
from duebook.model.retry import Retry, load_retry
from duebook.model.target import load_target
from duebook.timetext import format_duration, format_instant
from duebook.triggers import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Declared", "DefinitionField", "InFlow", "Kind", "Shape"]

Shape = Literal[
    "any",
    "calendar",
    "choice",
    "days",
    "dependencies",
    "flag",
    "instant",
    "labels",
    "length",
    "name",
    "object",
    "retry",
    "target",
    "text",
    "triggers",
    "whole",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value is."""

    shape: Shape
    read: Callable[[str, Any], Any]
    """raises Invalid with a message that starts with the field's name"""
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    """of a number, of characters, or of items"""


@dataclass(frozen=True, slots=True)
class InFlow:
    """How a flow file writes a field."""

    means: str
    """its meaning there, for the table of keys"""
    key: str | None = None
    """its key there, if different"""
    scheduled: bool = True
    """whether the flow's schedule has it as well"""
    words: Mapping[str, str] | None = None
    """for a choice: the word there -> the value"""
    unlimited: int | None = None
    """the number that means None"""


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of a field, besides its type and default in `ScheduleSpec`."""

    kind: Kind
    help: str
    """one sentence"""
    example: Any = None
    """as JSON"""
    key: str | None = None
    """its name in JSON, if different"""
    since: str = "0.1"
    """the first version that has it"""
    flow: InFlow | None = None
    """None: not allowed in a flow file"""
    enqueue: bool = False
    """whether `enqueue` accepts it, for a run without a schedule"""
    of_steps: str | None = None
    """it has no effect for a flow, as its steps have it: what to do instead"""


@dataclass(frozen=True, slots=True)
class DefinitionField:
    """A field of a definition: its declaration, names and default."""

    key: str
    """its name in JSON and in messages"""
    name: str
    """its name in `ScheduleSpec`"""
    kind: Kind
    help: str
    example: Any
    since: str
    default: Any
    """None also if a value is required"""
    flow: InFlow | None = None
    enqueue: bool = False
    of_steps: str | None = None

    def to_json(self, value: Any) -> Any:
        return dict(value) if self.kind.shape == "labels" else _plain(value)


def _plain(value: Any) -> Any:
    match value:
        case timedelta():
            return format_duration(value)
        case datetime():
            return format_instant(value)
        case DateRange():
            return str(value)
        case Retry() | Dependency() | Trigger() | CalendarUse():
            return value.to_json()
        case tuple():
            return [_plain(item) for item in value]
    return value


def _as_it_is(_: str, value: Any) -> Any:
    return value


def choice(allowed: Any) -> Kind:
    """One of the values of a Literal."""
    words = get_args(allowed)
    return Kind("choice", one_of(words), choices=words)


def whole_number(least: int, most: int) -> Kind:
    return Kind("whole", whole(least, most), least=least, most=most)


ANY: Final = Kind("any", _as_it_is)
CALENDAR: Final = Kind("calendar", read_calendar_use)
DAYS: Final = Kind("days", read_date_ranges, most=MOST_RANGES)
DEPENDENCIES: Final = Kind("dependencies", read_dependencies, most=MOST_DEPENDENCIES)
FLAG: Final = Kind("flag", read_flag)
INSTANT: Final = Kind("instant", read_instant)
KEEP: Final = Kind("length", read_keep)
LABELS: Final = Kind("labels", read_labels)
LENGTH: Final = Kind("length", read_length)
NAME: Final = Kind("name", read_name)
OBJECT: Final = Kind("object", check_payload)
POSITIVE_LENGTH: Final = Kind("length", read_positive_length)
RETRY: Final = Kind("retry", lambda _, value: load_retry(value))
TARGET: Final = Kind("target", lambda _, value: load_target(value))
TEXT: Final = Kind("text", read_text, most=LONGEST_TEXT)
TITLE: Final = Kind("text", read_title, most=LONGEST_TITLE)
TRIGGERS: Final = Kind("triggers", _as_it_is)
"""Read with the name of their schedule, which no kind knows."""

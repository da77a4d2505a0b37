"""What all stores of Celery's beat have in common: crontabs, intervals and targets; pure."""

from __future__ import annotations

import re
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import shorten
from duebook.imports.found import Found, NotCarried, name_of
from duebook.imports.wall_patterns import WallPattern
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_duration, format_instant
from duebook.triggers.words import MONTHS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

__all__ = [
    "CRONTAB_FIELDS",
    "LENGTHS",
    "OPTIONS",
    "Entry",
    "celery_target",
    "crontab_trigger",
    "escaped",
    "found_entry",
    "interval_trigger",
]

CRONTAB_FIELDS: Final = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day_of_week": (0, 6),
    "day_of_month": (1, 31),
    "month_of_year": (1, 12),
}
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS: Final = tuple(name[:3].lower() for name in MONTHS)
_ITEM: Final = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")
OPTIONS: Final = ("queue", "exchange", "routing_key", "priority", "headers")
LENGTHS: Final = ("expires", "time_limit", "soft_time_limit")
"""Options of an entry that are also fields of a target; their values are durations."""
_TEMPLATE: Final = re.compile(r"\{[{%#]")


@dataclass(slots=True)
class Entry:
    """An entry of beat."""

    name: str
    task: str
    trigger: dict[str, Any]
    args: list[Any]
    kwargs: dict[str, Any]
    options: Mapping[str, Any]
    place: str
    form: dict[str, Any] = field(default_factory=dict)
    """other fields of the definition"""
    notes: tuple[str, ...] = ()


def celery_target(
    task: str, args: list[Any], kwargs: dict[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """A Celery task as a target."""
    form: dict[str, Any] = {"celery": task}
    if args:
        form["args"] = escaped(args)
    if kwargs:
        form["kwargs"] = escaped(kwargs)
    form |= {key: options[key] for key in OPTIONS if _is_carried(key, options.get(key))}
    return form | {key: interval(options[key]) for key in LENGTHS if _is_length(options.get(key))}


def escaped(value: Any) -> Any:
    """JSON in which no string is a template, because Celery has no templates."""
    if isinstance(value, str):
        return _TEMPLATE.sub(lambda found: f'{{{{ "{found[0]}" }}}}', value)
    if isinstance(value, dict):
        return {key: escaped(item) for key, item in value.items()}
    return [escaped(item) for item in value] if isinstance(value, list | tuple) else value


def _is_carried(key: str, value: Any) -> bool:
    """Headers of a target are strings; an option without a value is not one."""
    if key == "headers" and isinstance(value, dict):
        return bool(value) and all(isinstance(text, str) for text in value.values())
    return value not in (None, "")


def _is_length(value: object) -> bool:
    return isinstance(value, int | float | timedelta) and not isinstance(value, bool)


def found_entry(entry: Entry) -> Found:
    if not isinstance(entry.task, str) or not entry.task:
        raise NotCarried("it has no task")
    notes = list(entry.notes)
    target = celery_target(entry.task, entry.args, entry.kwargs, entry.options)
    notes += [
        f"option {shorten(key)}={shorten(value)} is not carried over"
        for key, value in entry.options.items()
        if key not in target and value not in (None, "", {})
    ]
    # beat sends a task whether or not the previous one has ended
    form = {"trigger": entry.trigger, "target": target, "overlap": "allow", **entry.form}
    return Found(name_of(entry.name), form, entry.place, tuple(notes))


def interval(length: float | timedelta) -> str:
    """A duration in whole seconds; raises NotCarried."""
    if not isinstance(length, timedelta):
        length = timedelta(seconds=length)
    if length.microseconds or length < timedelta(seconds=1):
        raise NotCarried(f"an interval of {length.total_seconds()} s; the smallest unit is 1 s")
    return format_duration(length)


def interval_trigger(length: float | timedelta, last: datetime | None) -> dict[str, Any]:
    """An interval, counted from its last run."""
    anchor = {} if last is None else {"anchor": format_instant(last.replace(microsecond=0))}
    return {"every": interval(length), **anchor}


def crontab_trigger(fields: Mapping[str, str | Iterable[int]], tz: str) -> dict[str, Any]:
    """A crontab of Celery, whose day fields must both match; fields are strings or sets."""
    found = {}
    for key, (low, high) in CRONTAB_FIELDS.items():
        given = fields[key]
        found[key] = _values(given, low, high) if isinstance(given, str) else frozenset(given)
    pattern = WallPattern(
        minute=found["minute"],
        hour=found["hour"],
        weekday=found["day_of_week"],
        day=found["day_of_month"],
        month=found["month_of_year"],
    )
    return pattern.trigger(tz)


def _values(text: str, low: int, high: int) -> frozenset[int]:
    """The values of a field; ranges may wrap, as in `fri-mon`."""
    found: set[int] = set()
    for item in text.replace(" ", "").lower().split(","):
        match = _ITEM.fullmatch(item)
        if match is None or match[3] == "0":
            raise NotCarried(f'"{shorten(text)}" is not a field of a crontab')
        values = list(range(low, high + 1))
        if match[1] != "*":
            first = _number(match[1])
            last = _number(match[2]) if match[2] else first
            values = list(range(first, last + 1))
            if last < first:
                values = [*range(first, high + 1), *range(low, last + 1)]
        found |= set(values[:: int(match[3] or 1)])
    if not found or min(found) < low or max(found) > high:
        raise NotCarried(f'"{shorten(text)}" is out of range {low} to {high}')
    return frozenset(found)


def _number(text: str) -> int:
    if text.isdigit():
        return int(text)
    for names, first in ((_WEEKDAYS, 0), (_MONTHS, 1)):
        if text[:3] in names:
            return names.index(text[:3]) + first
    raise NotCarried(f'"{shorten(text)}" is not a number or name')

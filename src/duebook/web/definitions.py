"""A definition as a form of fields, and back: what a person may edit on a page; pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten
from duebook.model.forms import definition_form
from duebook.model.schedule import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.model.schedule import ScheduleSpec

__all__ = [
    "ABOUT",
    "BLANK",
    "FIELDS",
    "TZ",
    "EditField",
    "changes_of",
    "definition_of",
    "plain_lines",
    "texts_of",
]


@dataclass(frozen=True, slots=True)
class EditField:
    """A field of a definition as a page asks for it."""

    name: str
    kind: str
    """json, text, labels, or a choice"""
    hint: str = ""
    choices: tuple[str, ...] = ()


FIELDS: Final = (
    EditField("trigger", "json", '30 2 * * *, @every 15m, or JSON such as {"every": "15m"}'),
    EditField(
        "target", "json", 'what runs: a task, or JSON such as {"command": ["pg_dump", "mydb"]}'
    ),
    EditField("payload", "json", "a JSON object"),
    EditField("title", "text", "a name to show, such as Daily Cleanup"),
    EditField("description", "text"),
    EditField("labels", "labels", "one NAME:VALUE per line"),
    EditField(
        "overlap", "choice", "while a run is active", ("skip", "queue", "latest", "cancel", "allow")
    ),
    EditField("catchup", "choice", "what was missed", ("one", "skip", "all")),
    EditField("on_resume", "choice", "after a pause", ("skip", "catchup")),
    EditField("grace", "text", "such as 1m"),
    EditField("catchup_window", "text", "such as 6h"),
    EditField("jitter", "text", "such as 30s"),
    EditField("timeout", "text", "such as 1h"),
    EditField("expire_after", "text", "such as 30m"),
    EditField("queue", "text"),
    EditField("priority", "number", "-1000 to 1000"),
    EditField("max_concurrent", "number"),
    EditField("max_runs", "number"),
    EditField("retry", "json", 'attempts, or JSON such as {"attempts": 3, "delay": "10s"}'),
    EditField("exclude", "json", 'dates: ["2026-12-25"]'),
    EditField("start_at", "text", "such as 2026-12-01T00:00:00Z"),
    EditField("end_at", "text"),
)


ABOUT: Final = 6
"""How many of them say when, what and what for; the others are policies."""
TZ: Final = EditField("tz", "text", "of a cron expression")
BLANK: Final = {field.name: field.choices[0] if field.choices else "" for field in FIELDS}


def definition_of(given: Mapping[str, str]) -> dict[str, Any]:
    """A new definition from the texts of a page; what is empty has its default.

    Raises InvalidSchedule with every field that cannot be read.
    """
    found, problems = {}, {}
    for field in FIELDS:
        text = plain_lines(given.get(field.name, ""))
        try:
            found[field.name] = _value(field, text)
        except Invalid as error:
            problems[field.name] = str(error)
    trigger, tz = found.get("trigger"), given.get("tz", "").strip()
    if isinstance(trigger, dict) and set(trigger) == {"cron"} and tz:
        trigger["tz"] = tz
    if problems:
        raise InvalidSchedule(problems)
    return {name: value for name, value in found.items() if value is not None}


def plain_lines(text: str) -> str:
    """What somebody typed, without what browsers make of its lines."""
    return text.replace("\r\n", "\n").strip()


def texts_of(spec: ScheduleSpec) -> dict[str, str]:
    """What stands in each field of the page; secrets are hidden."""
    always = [field.name for field in FIELDS]
    form = definition_form(spec, always)
    return {field.name: _text(field, form.get(field.name)) for field in FIELDS}


def _text(field: EditField, value: Any) -> str:
    if value is None:
        return ""
    if field.kind == "labels":
        return "\n".join(f"{name}:{text}" for name, text in value.items())
    if field.kind == "json":
        return "" if value in ({}, []) else json.dumps(value, indent=2, ensure_ascii=False)
    return str(value)


def changes_of(spec: ScheduleSpec, given: Mapping[str, str]) -> dict[str, Any]:
    """The fields whose text is not what the page had shown; an empty one is put to its default.

    Raises InvalidSchedule with every field that cannot be read.
    """
    shown, changes, problems = texts_of(spec), {}, {}
    for field in FIELDS:
        text = plain_lines(given.get(field.name, shown[field.name]))
        if text == shown[field.name].strip():
            continue
        try:
            changes[field.name] = _value(field, text)
        except Invalid as error:
            problems[field.name] = str(error)
    if problems:
        raise InvalidSchedule(problems)
    return changes


def _value(field: EditField, text: str) -> Any:
    if not text:
        return None
    match field.kind:
        case "labels":
            return _labels(text)
        case "number":
            return _number(field.name, text)
        case "json":
            return _json(field.name, text)
    return text


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(f'{name} "{shorten(text)}" is no whole number') from None


def _labels(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            raise Invalid(f'labels: "{shorten(line)}" is not written as NAME:VALUE')
        if name in found:
            raise Invalid(f'labels: "{shorten(name)}" stands there twice')
        found[name] = value
    return found


def _json(name: str, text: str) -> Any:
    if name == "retry" and text.isascii() and text.isdecimal():
        return int(text)
    if text[0] not in '{["':
        if name == "trigger":
            return {"cron": text}
        if name == "target":
            return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{name} is no JSON: {shorten(str(error), 120)}") from None

"""Converts a definition to the fields of an edit form, and back; pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import DuebookError, Invalid, json_problem, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model import schedule
from duebook.model.schedule import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duebook.model.schedule import DefinitionField, ScheduleSpec

__all__ = [
    "ABOUT",
    "BLANK",
    "FIELDS",
    "TZ",
    "EditField",
    "Unreadable",
    "changes_of",
    "definition_of",
    "plain_lines",
    "texts_of",
    "texts_of_template",
]


_AS_JSON: Final = frozenset(
    {"calendar", "days", "dependencies", "object", "retry", "target", "triggers"}
)
"""The shapes of values that are typed as JSON; a few also have a shorter form."""
_NO, _YES = "no", "yes"


@dataclass(frozen=True, slots=True)
class EditField:
    """A form field for one field of a definition."""

    name: str
    shape: str = "text"
    """the shape of its kind"""
    hint: str = ""
    example: str = ""
    choices: tuple[str, ...] = ()
    initial: str = ""
    """its value in a new definition"""

    @property
    def has_lines(self) -> bool:
        return self.shape == "labels" or self.shape in _AS_JSON


def _edit_field(name: str, known: DefinitionField) -> EditField:
    hint, example = known.help.removesuffix("."), _example(known)
    match known.kind.shape:
        case "flag":
            return EditField(name, "flag", hint, example, (_NO, _YES), _NO)
        case "choice":
            choices = known.kind.choices
            return EditField(name, "choice", hint, example, choices, str(known.default))
        case "labels":
            return EditField(name, "labels", f"{hint}; one NAME:VALUE per line", example)
    return EditField(name, known.kind.shape, hint, example)


def _example(known: DefinitionField) -> str:
    match known.example:
        case None:
            return ""
        case str(text):
            return text
        case dict(pairs) if known.kind.shape == "labels":
            return "\n".join(f"{name}:{value}" for name, value in pairs.items())
    return json.dumps(known.example, ensure_ascii=False)


FIELDS: Final = tuple(_edit_field(name, known) for name, known in schedule.FIELDS.items())
ABOUT: Final = 6
"""How many of the first fields describe the schedule and its target; the others are policies."""
TZ: Final = EditField(
    "tz", hint="For all kinds but Every; JSON has its own", example="Europe/Brussels"
)
BLANK: Final = {field.name: field.initial for field in FIELDS}


class Unreadable(InvalidSchedule):
    """Some fields cannot be read; `rest` contains the others, which may be invalid too."""

    def __init__(self, problems: dict[str, str], rest: dict[str, Any]) -> None:
        super().__init__(problems)
        self.rest = {name: value for name, value in rest.items() if value is not None}

    def with_others(self, check: Callable[[dict[str, Any]], object]) -> dict[str, str]:
        """The problems of these fields and of the rest."""
        try:
            check(self.rest)
        except InvalidSchedule as error:
            return error.problems | self.problems
        except DuebookError:
            pass  # reported once these can be read
        return self.problems


def definition_of(given: Mapping[str, str]) -> dict[str, Any]:
    """A new definition from the texts of a form; empty fields get their defaults.

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
        raise Unreadable(problems, found)
    return {name: value for name, value in found.items() if value is not None}


def plain_lines(text: str) -> str:
    """The typed text with plain line ends instead of those that browsers send."""
    return text.replace("\r\n", "\n").strip()


def texts_of(spec: ScheduleSpec) -> dict[str, str]:
    """The text of each form field; secrets are hidden."""
    return _texts(spec.to_shown([field.name for field in FIELDS]))


def texts_of_template(defaults: Mapping[str, Any]) -> dict[str, str]:
    """The text of each form field for a new schedule from a template."""
    return BLANK | _texts({name: defaults[name] for name in defaults if name in BLANK}, only=True)


def _texts(form: Mapping[str, Any], only: bool = False) -> dict[str, str]:
    return {
        field.name: _text(field, form.get(field.name))
        for field in FIELDS
        if field.name in form or not only
    }


def _text(field: EditField, value: Any) -> str:
    if value is None:
        return ""
    if field.shape == "labels":
        return "\n".join(f"{name}:{text}" for name, text in value.items())
    if field.shape == "flag":
        return _YES if value else _NO
    if field.shape in _AS_JSON:
        return "" if value in ({}, []) else json.dumps(value, indent=2, ensure_ascii=False)
    return str(value)


def changes_of(spec: ScheduleSpec, given: Mapping[str, str]) -> dict[str, Any]:
    """The fields whose text differs from what the page showed; an emptied one gets its default.

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
        raise Unreadable(problems, changes)
    return changes


def _value(field: EditField, text: str) -> Any:
    if not text:
        return None
    match field.shape:
        case "labels":
            return _labels(text)
        case "flag":
            return text == _YES
        case "whole":
            return _number(field.name, text)
        case shape if shape in _AS_JSON:
            return _json(field, text)
    return text


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(f'{name} "{shorten(text)}" is not a whole number') from None


def _labels(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            raise Invalid(f'labels: "{shorten(line)}" does not have the form NAME:VALUE')
        if name in found:
            raise Invalid(f'labels: "{shorten(name)}" appears twice')
        found[name] = value
    return found


def _json(field: EditField, text: str) -> Any:
    if field.shape == "retry" and text.isascii() and text.isdecimal():
        return int(text)
    if text[0] not in '{["':
        if field.shape == "triggers":
            return {"cron": text}
        if field.shape == "target":
            return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{field.name} is not valid JSON: {json_problem(error)}") from None

"""Changes field by field, with the old and the new value; pure."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import InvalidTime
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import parse_instant
from duebook.web.ansi import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from duebook.model.change import Change
    from duebook.model.schedule import ScheduleSpec

__all__ = ["FieldChange", "differences", "field_changes", "field_values", "form_changes"]

NOTHING: Final = "–"
LONGEST: Final = 300
DEEPEST: Final = 4
"""Names in a path; deeper values are shown as JSON."""
ONLY_WHAT_DIFFERS: Final = {("update", "schedule"), ("update", "sink")}
"""Their entries contain only changed fields: in one that looks the same, a secret has changed."""
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field with its old and new value, as text or as a time."""

    name: str
    was: str | datetime | None = None
    """None: it was not set before"""
    becomes: str | datetime | None = None
    """None: it is not set afterwards"""
    hidden: bool = False
    """only a secret in it differs"""


def field_changes(change: Change) -> list[FieldChange]:
    """The changes in an audit entry; every field if something was created or deleted."""
    before, after = change.before or {}, change.after or {}
    only = (change.action, change.kind) in ONLY_WHAT_DIFFERS
    return [row for name in {**before, **after} for row in _field(name, before, after, only)]


def field_values(form: Mapping[str, Any]) -> list[FieldChange]:
    """The value of each field, nested ones included."""
    return [row for name in form for row in _field(name, {}, form, only_differing=False)]


def form_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldChange]:
    """The changes between two forms without secrets."""
    return [
        row
        for name in {**before, **after}
        for row in _field(name, before, after, only_differing=False)
    ]


def differences(before: ScheduleSpec, after: ScheduleSpec) -> list[FieldChange]:
    """The changes between two definitions; changed secrets are named, their values hidden."""
    old, new = before.to_json(), after.to_json()
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    was, becomes = before.to_shown(names), after.to_shown(names)
    return [row for name in names for row in _field(name, was, becomes, only_differing=True)]


def _field(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], only_differing: bool
) -> Iterator[FieldChange]:
    if name in before and name in after:
        rows = list(_leaves((name,), before[name], after[name]))
        if not rows and only_differing:
            rows = [FieldChange(name, hidden=True)]
        yield from rows
    elif name in after:
        for path, value in _values((name,), after[name]):
            yield FieldChange(_name(path), becomes=_told(path, value))
    else:
        for path, value in _values((name,), before[name]):
            yield FieldChange(_name(path), was=_told(path, value))


def _leaves(path: tuple[str, ...], was: Any, becomes: Any) -> Iterator[FieldChange]:
    """The differences below a path."""
    if was == becomes:
        return
    if len(path) < DEEPEST and _branches(was, becomes):
        old, new = was or {}, becomes or {}
        for name in {**old, **new}:
            yield from _leaves((*path, name), old.get(name), new.get(name))
    else:
        yield FieldChange(_name(path), _told(path, was), _told(path, becomes))


def _branches(was: Any, becomes: Any) -> bool:
    """Whether both are objects, or one is an object and the other is None."""
    kinds = [isinstance(value, dict) for value in (was, becomes) if value is not None]
    return bool(kinds) and all(kinds) and bool(was or becomes)


def _values(path: tuple[str, ...], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and value and len(path) < DEEPEST:
        for name, below in value.items():
            yield from _values((*path, name), below)
    elif not _is_nothing(value):
        yield path, value


def _name(path: tuple[str, ...]) -> str:
    """Names below the top level may come from users, so they are escaped."""
    return escaped(" › ".join((path[0].replace("_", " "), *path[1:])))[:LONGEST]


def _is_nothing(value: Any) -> bool:
    return value is None or value in ({}, [], "")


def _told(path: tuple[str, ...], value: Any) -> str | datetime:
    if _is_nothing(value):
        return NOTHING
    if isinstance(value, str):
        return _instant(value) or _short(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return _short(shlex.join(value) if path[-1] == "command" else ", ".join(value))
    return _short(json.dumps(value, ensure_ascii=False))


def _instant(text: str) -> datetime | None:
    if not _INSTANT.fullmatch(text):
        return None
    try:
        return parse_instant(text)
    except InvalidTime:
        return None


def _short(text: str) -> str:
    return escaped(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")

"""Converts triggers and targets between JSON and a kind with a short text; pure."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import DuebookError
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_instant
from duebook.triggers.typed_time import read_time

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["AS_JSON", "KINDS", "Kind", "Typed", "read_kinds", "same_value", "typed"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of trigger or target that a form offers."""

    name: str
    words: str
    example: str


@dataclass(frozen=True, slots=True)
class Typed:
    """The kind and the text in the form, with the time zone."""

    kind: str
    text: str
    tz: str = ""


AS_JSON: Final = "json"
KINDS: Final = {
    "trigger": (
        Kind("cron", "Cron expression", "30 2 * * 1-5"),
        Kind("every", "Every", "15m"),
        Kind("daily", "Daily at", "07:00, 17:30"),
        Kind("weekly", "Weekly", "MON,WED,FRI 09:00"),
        Kind("at", "Once, at", "2027-01-31T09:00"),
        Kind("rrule", "Recurrence rule", "FREQ=MONTHLY;BYDAY=-1FR"),
        Kind(AS_JSON, "JSON", '{"cron": "30 2 * * 1-5", "tz": "Europe/Brussels"}'),
    ),
    "target": (
        Kind("task", "Task", "cleanup"),
        Kind("command", "Command", "pg_dump mydb"),
        Kind("shell", "Shell script", "pg_dump mydb | gzip > mydb.gz"),
        Kind("http", "HTTP request", "POST https://example.com/hook"),
        Kind("flow", "Flow", "warehouse"),
        Kind(AS_JSON, "JSON", '{"command": ["pg_dump", "mydb"]}'),
    ),
}
IN_A_ZONE: Final = ("cron", "daily", "weekly", "rrule")
"""Kinds of triggers, besides `at`, that use the time zone field."""


def from_typed(field: str, given: Typed) -> str:
    """What was typed as JSON; unchanged if it is JSON already or cannot be read."""
    text = given.text.replace("\r\n", "\n").strip()
    if not text or text[0] in '{["' or given.kind in ("", AS_JSON):
        return text
    if field == "trigger":
        return _json(_trigger(given.kind, text, given.tz.strip()))
    return _json(_target(given.kind, text))


def _trigger(kind: str, text: str, tz: str) -> dict[str, Any]:
    if kind == "at":
        return {"at": _moment(text, tz or "UTC")}
    value = [part.strip() for part in text.split(",")] if kind == "daily" else text
    return {kind: value} | ({"tz": tz} if tz and kind in IN_A_ZONE else {})


def _moment(text: str, tz: str) -> str:
    try:
        return format_instant(read_time(text, tz).at)
    except DuebookError:
        return text  # validating the trigger reports the problem


def _target(kind: str, text: str) -> Any:
    match kind:
        case "task":
            return text
        case "command":
            return {"command": _words(text)}
        case "http":
            method, space, url = text.partition(" ")
            return {"http": {"method": method.upper(), "url": url} if space else {"url": text}}
    return {kind: text}


def _words(text: str) -> list[str] | str:
    """Split as by a shell; validating the target rejects text that cannot be split."""
    try:
        return shlex.split(text)
    except ValueError:
        return text


def typed(field: str, text: str) -> Typed:
    """The form's view of a JSON text; the JSON itself if no kind can show all of it."""
    if not text:
        return Typed(KINDS[field][0].name, "")
    try:
        form = json.loads(text)
    except (ValueError, RecursionError):
        known = text[0] not in '{["'
        return Typed(KINDS[field][0].name if known else AS_JSON, text)
    found = _shown_trigger(form) if field == "trigger" else _shown_target(form)
    return found or Typed(AS_JSON, text)


def _shown_trigger(form: Any) -> Typed | None:
    if not isinstance(form, dict):
        return None
    kind = next((key for key in form if key != "tz"), "")
    tz, value = form.get("tz", ""), form.get(kind, "")
    if set(form) - {kind, "tz"} or (tz and kind not in IN_A_ZONE) or not isinstance(tz, str):
        return None
    if kind == "daily" and _are_texts(value) and not any("," in text for text in value):
        return Typed(kind, ", ".join(value), tz)
    is_known = kind in (*IN_A_ZONE, "every", "at") and isinstance(value, str)
    return Typed(kind, value, tz) if is_known else None


def _shown_target(form: Any) -> Typed | None:
    if isinstance(form, str):
        return Typed("task", form)
    if not isinstance(form, dict) or len(form) != 1:
        return None
    ((kind, value),) = form.items()
    if kind == "command" and _are_texts(value):
        return Typed(kind, shlex.join(value))
    if kind == "http":
        return _shown_request(value)
    is_known = kind in ("task", "shell", "flow") and isinstance(value, str)
    return Typed(kind, value) if is_known else None


def _shown_request(value: Any) -> Typed | None:
    if not isinstance(value, dict) or not _are_texts(list(value.values())):
        return None
    match value:
        case {"url": url, **rest} if not rest:
            return Typed("http", url)
        case {"method": method, "url": url, **rest} if not rest:
            return Typed("http", f"{method} {url}")
    return None


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def same_value(one: str, other: str) -> bool:
    """Whether two texts are the same JSON; the name of a task equals its object form."""
    try:
        return bool(_plain(json.loads(one)) == _plain(json.loads(other)))
    except (ValueError, RecursionError):
        return one.strip() == other.strip()


def _plain(value: Any) -> Any:
    return {"task": value} if isinstance(value, str) else value


def read_kinds(form: Mapping[str, str]) -> dict[str, str]:
    """The fields that have a kind, as JSON; only those that the form contains."""
    return {
        field: from_typed(
            field, Typed(form.get(f"{field}_kind", ""), form[field], form.get("tz", ""))
        )
        for field in KINDS
        if field in form
    }

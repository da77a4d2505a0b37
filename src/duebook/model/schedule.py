"""Schedules as values: the definition a person gives, and the state Duebook keeps.

Definitions are validated once, here, for library, command line, files and REST alike; every
wrong field is named at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from duebook.errors import Invalid, shorten
from duebook.ids import check_name
from duebook.model.target import Target, load_target, payload_variables
from duebook.timetext import format_duration, parse_duration
from duebook.triggers import Trigger, load_trigger

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["InvalidSchedule", "Schedule", "ScheduleSpec", "Status", "check_payload", "load_spec"]

Status = Literal["active", "paused", "completed"]
Catchup = Literal["one", "skip"]
Overlap = Literal["skip", "allow"]
OnResume = Literal["skip", "catchup"]

MAX_PAYLOAD: Final = 1_000_000


class InvalidSchedule(Invalid):
    """A definition with wrong fields; `problems` maps each field to what is wrong with it."""

    code = "invalid_schedule"

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """What a person defines: when, what, and by which policies."""

    triggers: tuple[Trigger, ...]
    target: Target
    payload: dict[str, Any] = field(default_factory=dict)
    description: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    grace: timedelta = timedelta(minutes=1)
    catchup: Catchup = "one"
    overlap: Overlap = "skip"
    on_resume: OnResume = "skip"
    queue: str = "default"
    priority: int = 0
    max_takeovers: int = 3
    timeout: timedelta | None = None

    @property
    def trigger_text(self) -> str:
        return ", ".join(trigger.text for trigger in self.triggers)

    def to_json(self) -> dict[str, Any]:
        """The form that load_spec reads back; policies at their defaults are left out."""
        triggers = [trigger.to_json() for trigger in self.triggers]
        form: dict[str, Any] = {
            "trigger": triggers[0] if len(triggers) == 1 else triggers,
            "target": self.target.to_json(),
        }
        for spec_field in fields(self)[2:]:
            value = getattr(self, spec_field.name)
            if value != _default(spec_field.name):
                form[spec_field.name] = _plain(value)
        return form


def _default(name: str) -> Any:
    spec_field = ScheduleSpec.__dataclass_fields__[name]
    return {} if name == "payload" else spec_field.default


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return format_duration(value)
    return dict(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Schedule:
    """A stored schedule: definition and state."""

    id: str
    namespace: str
    name: str
    version: int
    spec: ScheduleSpec | None
    """None when this node cannot read it, for a newer one wrote it; `problem` says why"""
    status: Status
    created_at: datetime
    watermark: datetime | None = None
    next_due_at: datetime | None = None
    paused_at: datetime | None = None
    pause_reason: str | None = None
    problem: str | None = None


def load_spec(form: dict[str, Any], name: str) -> ScheduleSpec:
    """A definition from its JSON form; raises InvalidSchedule with every wrong field.

    `name` is what H in a cron expression hashes.
    """
    readers = _readers(name)
    values: dict[str, Any] = {}
    problems = {
        key: f"{key} is no field of a schedule; known are {', '.join(readers)}"
        for key in map(str, form)
        if key not in readers
    }
    for key, (target, read) in readers.items():
        if form.get(key) is not None:
            try:
                values[target] = read(form[key])
            except Invalid as error:
                problems[key] = str(error)
        elif key in ("trigger", "target"):
            problems[key] = f"{key} is missing"
    try:
        payload_variables(values.get("payload", {}))
    except Invalid as error:
        problems["payload"] = str(error)
    if problems:
        raise InvalidSchedule(problems)
    return ScheduleSpec(**values)


def _readers(name: str) -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """JSON key -> (field, reader that raises Invalid)."""

    def same(key: str, read: Callable[[str, Any], Any]) -> tuple[str, Callable[[Any], Any]]:
        return key, lambda value: read(key, value)

    return {
        "trigger": ("triggers", lambda value: _triggers(value, name)),
        "target": ("target", load_target),
        "payload": same("payload", check_payload),
        "description": same("description", _text),
        "labels": same("labels", _labels),
        "grace": same("grace", _length),
        "catchup": same("catchup", _one_of(get_args(Catchup))),
        "overlap": same("overlap", _one_of(get_args(Overlap))),
        "on_resume": same("on_resume", _one_of(get_args(OnResume))),
        "queue": same("queue", _queue),
        "priority": same("priority", _whole(-1_000, 1_000)),
        "max_takeovers": same("max_takeovers", _whole(0, 100)),
        "timeout": same("timeout", _positive_length),
    }


def _triggers(value: Any, name: str) -> tuple[Trigger, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    if not 1 <= len(items) <= 20:
        raise Invalid(f"trigger takes 1 to 20 triggers, not {len(items)}")
    return tuple(load_trigger(item, key=name) for item in items)


def check_payload(key: str, value: Any) -> dict[str, Any]:
    """A JSON object of bounded size; raises Invalid."""
    if not isinstance(value, dict):
        raise Invalid(f"{key} {shorten(value)} is no JSON object")
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"{key} is no JSON object: {shorten(str(error))}") from None
    if "\\u0000" in text:
        raise Invalid(f"{key} has a NUL character, which no variable can hold")
    if size > MAX_PAYLOAD:
        raise Invalid(f"{key} has {size:,} bytes as JSON; at most {MAX_PAYLOAD:,} are kept")
    return value


def _labels(key: str, value: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(value, dict) and all(
        isinstance(k, str) and isinstance(v, str) and 0 < len(k) <= 64 and len(v) <= 256
        for k, v in value.items()
    ):
        return tuple(sorted(value.items()))
    raise Invalid(f"{key} {shorten(value)} is no object of short texts")


def _text(key: str, value: Any) -> str:
    if isinstance(value, str) and len(value) <= 10_000:
        return value
    raise Invalid(f"{key} {shorten(value)} is no text of up to 10,000 characters")


def _length(key: str, value: Any) -> timedelta:
    try:
        return parse_duration(value)
    except Invalid as error:
        raise Invalid(f"{key}: {error}") from None


def _positive_length(key: str, value: Any) -> timedelta:
    length = _length(key, value)
    if not length:
        raise Invalid(f"{key} 0s is no length; leave it out for none")
    return length


def _queue(key: str, value: Any) -> str:
    return check_name(value, key)


def _one_of(allowed: tuple[str, ...]) -> Callable[[str, Any], str]:
    def read(key: str, value: Any) -> str:
        if value not in allowed:
            raise Invalid(f'{key} "{shorten(value)}" is not one of {", ".join(allowed)}')
        return str(value)

    return read


def _whole(low: int, high: int) -> Callable[[str, Any], int]:
    def read(key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Invalid(f"{key} {shorten(value)} is no whole number {low} to {high}")
        return value

    return read

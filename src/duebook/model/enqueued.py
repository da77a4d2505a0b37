"""Runs without a schedule, as requested: what to execute, when, and by which policies."""

from __future__ import annotations

import json
from dataclasses import field
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, quoted, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import check_payload, is_text, read_length
from duebook.model.schedule import POLICIES, ScheduleSpec
from duebook.model.target import TaskTarget, load_target
from duebook.model.unique_keys import FOREVER, KEY_OPTIONS, KeyRule, load_key_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "ENQUEUE_POLICIES",
    "Enqueued",
    "enqueued_spec",
    "load_enqueued",
    "run_options",
    "step_spec",
]

LONGEST_KEY: Final = 200
ENQUEUE_POLICIES: Final = {key: known for key, known in POLICIES.items() if known.enqueue}
"""What may be given besides a task and its payload."""
_COLUMNS: Final = ("queue", "priority", "max_takeovers", "expire_after")
"""Fields that the run itself stores; the others are its options."""


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A run to be created."""

    task: str
    policies: ScheduleSpec
    payload: dict[str, Any] = field(default_factory=dict)
    key: str | None = None
    """only one run of the task in a namespace has it at a time"""
    delay: timedelta = timedelta()
    rule: KeyRule = FOREVER
    """how long a run keeps the key, and what a call does if it is taken"""

    @property
    def options(self) -> str | None:
        found = [known for key, known in ENQUEUE_POLICIES.items() if key not in _COLUMNS]
        return run_options({known.key: getattr(self.policies, known.name) for known in found})


def run_options(values: Mapping[str, Any]) -> str | None:
    """As JSON that `enqueued_spec` reads back; None if empty."""
    form = {
        key: POLICIES[key].to_json(value)
        for key, value in values.items()
        if value != POLICIES[key].default
    }
    return json.dumps(form) if form else None


def load_enqueued(task: str, payload: Any, key: Any, policies: Mapping[str, Any]) -> Enqueued:
    """Raises Invalid that names the part and what is right."""
    target = load_target({"task": task})
    assert isinstance(target, TaskTarget)  # noqa: S101 - it was told to be one
    if unknown := [name for name in policies if name not in _READERS]:
        known = ", ".join(_READERS)
        raise Invalid(f'"{shorten(unknown[0])}" is not an option of enqueue; use one of {known}')
    if key is not None and not (key and is_text(key, LONGEST_KEY)):
        raise Invalid(f"key {quoted(key)} is not a string of 1 to {LONGEST_KEY} characters")
    values = {name: _READERS[name](name, v) for name, v in policies.items() if v is not None}
    delay = values.pop("delay", timedelta())
    about_key = {name: values.pop(name) for name in KEY_OPTIONS if name in values}
    rule = load_key_rule(key, about_key, delay)
    spec = _spec(target, values)
    return Enqueued(target.name, spec, check_payload("payload", payload), key, delay, rule)


@lru_cache(maxsize=10_000)
def enqueued_spec(task: str, options: str | None) -> ScheduleSpec:
    """The definition by which such a run is executed; it has no trigger."""
    form = json.loads(options) if options else {}
    return _spec(TaskTarget(task), {name: _READERS[name](name, form[name]) for name in form})


def _spec(target: TaskTarget, values: Mapping[str, Any]) -> ScheduleSpec:
    named = {ENQUEUE_POLICIES[key].name: value for key, value in values.items()}
    return ScheduleSpec(triggers=(), target=target, overlap="allow", **named)


@lru_cache(maxsize=10_000)
def step_spec(task: str | None, options: str | None) -> ScheduleSpec:
    """Like `enqueued_spec`, for a flow's step; only its flow knows what it executes."""
    return enqueued_spec(_UNKNOWN if task is None else task, options)


_UNKNOWN: Final = "flow"
_READERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "delay": read_length,
    **KEY_OPTIONS,
    **{key: known.kind.read for key, known in ENQUEUE_POLICIES.items()},
}

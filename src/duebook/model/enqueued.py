"""Runs without a schedule, as they are asked for: what to execute, when, and by which policies."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypedDict

from duebook.errors import Invalid, quoted, shorten
from duebook.model.fields import check_payload, is_text, read_length
from duebook.model.schedule import FIELDS, ScheduleSpec
from duebook.model.target import TaskTarget, load_target
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duebook.model.retry import Retry

    Length = str | timedelta

__all__ = ["EnqueuePolicies", "Enqueued", "enqueued_spec", "load_enqueued", "step_spec"]

LONGEST_KEY: Final = 200


class EnqueuePolicies(TypedDict, total=False):
    """What may stand beside a task and its payload; for type checkers."""

    delay: Length
    queue: str
    priority: int
    retry: Retry | int | Mapping[str, Any]
    timeout: Length
    expire_after: Length
    max_takeovers: int


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A run to be made."""

    task: str
    payload: dict[str, Any] = field(default_factory=dict)
    key: str | None = None
    """of all runs in a namespace, one has it"""
    delay: timedelta = timedelta()
    queue: str = "default"
    priority: int = 0
    retry: Retry | None = None
    timeout: timedelta | None = None
    expire_after: timedelta | None = None
    max_takeovers: int = 3

    @property
    def options(self) -> str | None:
        """What `enqueued_spec` reads back, as JSON; None for nothing."""
        form: dict[str, Any] = {}
        if self.retry is not None:
            form["retry"] = self.retry.to_json()
        if self.timeout is not None:
            form["timeout"] = format_duration(self.timeout)
        return json.dumps(form) if form else None


def load_enqueued(task: str, payload: Any, key: Any, policies: Mapping[str, Any]) -> Enqueued:
    """Raises Invalid that names the part and what is right."""
    target = load_target({"task": task})
    assert isinstance(target, TaskTarget)  # noqa: S101 - it was told to be one
    if unknown := [name for name in policies if name not in _READERS]:
        known = ", ".join(_READERS)
        raise Invalid(f'enqueue takes no "{shorten(unknown[0])}"; known are {known}')
    if key is not None and not (key and is_text(key, LONGEST_KEY)):
        raise Invalid(f"key {quoted(key)} is no text of 1 to {LONGEST_KEY} characters")
    values = {name: _READERS[name](name, v) for name, v in policies.items() if v is not None}
    return Enqueued(target.name, check_payload("payload", payload), key, **values)


@lru_cache(maxsize=10_000)
def enqueued_spec(task: str, options: str | None) -> ScheduleSpec:
    """The definition by which such a run is performed: it has no trigger."""
    form = json.loads(options) if options else {}
    values = {name: _READERS[name](name, form[name]) for name in form}
    return ScheduleSpec(triggers=(), target=TaskTarget(task), overlap="allow", **values)


@lru_cache(maxsize=10_000)
def step_spec(task: str | None, options: str | None) -> ScheduleSpec:
    """As `enqueued_spec`, of a flow's step: what it executes only its flow knows."""
    return enqueued_spec(_UNKNOWN if task is None else task, options)


_UNKNOWN: Final = "flow"
_READERS: Final[dict[str, Callable[[str, Any], Any]]] = {"delay": read_length} | {
    name: FIELDS[name].kind.read
    for name in ("queue", "priority", "retry", "timeout", "expire_after", "max_takeovers")
}

"""A Celery task as a target: the value, its JSON form, and the markers of workers that can send
such tasks."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from duebook.errors import Invalid, InvalidTime, quoted, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import bounded_json
from duebook.model.secret import HIDDEN, is_by_reference, refuse_hidden, show_payload
from duebook.timetext import format_duration, parse_duration

__all__ = ["CELERY", "KNOWN_ONLY", "CeleryTarget", "celery_task_id", "load_celery", "unknown_task"]

CELERY: Final = "@celery"
"""What a run with such a target requires of its worker; no task can have this name."""
KNOWN_ONLY: Final = "@known-only"
"""A marker among the tasks of a worker that executes no other targets, such as commands."""

LONGEST_ARGUMENTS: Final = 1_000_000
LONGEST_WORD: Final = 255
MOST_HEADERS: Final = 100
LONGEST_HEADER: Final = 8_000
MOST_PRIORITY: Final = 255
LONGEST_TIME: Final = timedelta(days=366)

_TASK_NAME: Final = re.compile(r"[^\s\x00-\x1f{}]{1,255}")
_WORDS: Final = ("queue", "exchange", "routing_key")
_TIMES: Final = ("expires", "time_limit", "soft_time_limit")
_KEYS: Final = ("celery", "args", "kwargs", *_WORDS, "priority", *_TIMES, "headers")
_OURS: Final = frozenset(
    {"argsrepr", "eta", "expires", "group", "group_index", "id", "ignore_result", "kwargsrepr"}
    | {"lang", "method", "origin", "parent_id", "replaced_task_nesting", "retries", "root_id"}
    | {"shadow", "stamped_headers", "stamps", "task", "timelimit"}
)
"""Headers that Celery's workers rely on."""
_FLAGS: Final = ("terminate", "wait")


@dataclass(frozen=True, slots=True)
class CeleryTarget:
    """A task by its name in Celery's workers, and how the message is sent."""

    task: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None
    """None: the payload"""
    queue: str | None = None
    """a queue of Celery; None: routed by the app"""
    exchange: str | None = None
    routing_key: str | None = None
    priority: int | None = None
    expires: timedelta | None = None
    """after which workers no longer start it"""
    time_limit: timedelta | None = None
    soft_time_limit: timedelta | None = None
    headers: tuple[tuple[str, str], ...] = ()
    terminate: bool = False
    """whether a cancel or timeout also kills the process of a task that has started"""
    wait: bool = True
    """whether the run lasts until the task has ended, rather than until it is sent"""

    def masked(self) -> CeleryTarget:
        """As it may be shown: without headers, and without arguments with secret names."""
        return replace(
            self,
            args=tuple(show_payload(list(self.args))),
            kwargs=show_payload(self.kwargs),
            headers=tuple((k, v if is_by_reference(v) else HIDDEN) for k, v in self.headers),
        )

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = {"celery": self.task}
        if self.args:
            form["args"] = list(self.args)
        for part in ("kwargs", *_WORDS, "priority"):
            if (value := getattr(self, part)) is not None:
                form[part] = value
        for part in _TIMES:
            if (length := getattr(self, part)) is not None:
                form[part] = format_duration(length)
        if self.headers:
            form["headers"] = dict(self.headers)
        return form | {p: getattr(self, p) for p in _FLAGS if getattr(self, p) != (p == "wait")}

    def __str__(self) -> str:
        return f"celery {self.task}"


def celery_task_id(run_id: str, attempt: int) -> str:
    """The id of the Celery task that an attempt sends."""
    return f"{run_id}-{attempt}"


def unknown_task(task: str) -> str:
    """A requirement that no live worker fulfils."""
    return "sends Celery tasks" if task == CELERY else f'knows task "{shorten(task)}"'


def load_celery(form: dict[str, Any]) -> CeleryTarget:
    """From `{"celery": "proj.tasks.add", "args": […], …}`; raises Invalid that names the part."""
    if unknown := sorted(str(key) for key in form if key not in (*_KEYS, *_FLAGS)):
        known = ", ".join((*_KEYS, *_FLAGS))
        raise Invalid(f'target key "{shorten(unknown[0])}" is unknown; use one of {known}')
    return CeleryTarget(
        _task(form["celery"]),
        _args(form.get("args")),
        _kwargs(form.get("kwargs")),
        queue=_word("queue", form.get("queue")),
        exchange=_word("exchange", form.get("exchange")),
        routing_key=_word("routing_key", form.get("routing_key")),
        priority=_priority(form.get("priority")),
        expires=_time("expires", form.get("expires")),
        time_limit=_time("time_limit", form.get("time_limit")),
        soft_time_limit=_time("soft_time_limit", form.get("soft_time_limit")),
        headers=_headers(form.get("headers") or {}),
        terminate=_flag("terminate", form.get("terminate"), False),
        wait=_flag("wait", form.get("wait"), True),
    )


def _task(value: object) -> str:
    if isinstance(value, str) and _TASK_NAME.fullmatch(value):
        return value
    raise Invalid(f"target celery {quoted(value)} is not a task such as proj.tasks.add")


def _args(value: object) -> tuple[Any, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise Invalid(f"target args {quoted(show_payload(value))} is not a list such as [1, 2]")
    bounded_json("target args", list(value), LONGEST_ARGUMENTS)
    refuse_hidden("target args", list(value))
    return tuple(value)


def _kwargs(value: object) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Invalid(f'target kwargs {quoted(show_payload(value))} is not an object {{"name": …}}')
    bounded_json("target kwargs", value, LONGEST_ARGUMENTS)
    refuse_hidden("target kwargs", value)
    return dict(value)


def _word(part: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and _TASK_NAME.fullmatch(value)):
        return value
    raise Invalid(f"target {part} {quoted(value)} is not a word of up to {LONGEST_WORD} characters")


def _priority(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_PRIORITY:
        return value
    raise Invalid(f"target priority {quoted(value)} is not a whole number from 0 to 255")


def _time(part: str, value: Any) -> timedelta | None:
    if value is None:
        return None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number and 0 < value <= LONGEST_TIME.total_seconds():
        return timedelta(seconds=value)
    with suppress(InvalidTime):
        if timedelta() < (length := parse_duration(value)) <= LONGEST_TIME:
            return length
    raise Invalid(f"target {part} {quoted(value)} is not a length from 1s to 366d, such as 10m")


def _headers(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or len(value) > MOST_HEADERS:
        raise Invalid(f"target headers is not an object of up to {MOST_HEADERS} strings")
    for name, text in value.items():
        if not isinstance(name, str) or not _TASK_NAME.fullmatch(name):
            raise Invalid(f"target header {quoted(name)} is not a word")
        if name.lower() in _OURS:
            raise Invalid(f'target header "{name}" is set by Celery; leave it out')
        if not isinstance(text, str) or len(text) > LONGEST_HEADER or "\0" in text:
            raise Invalid(f'target header "{name}" is not a string of up to 8,000 characters')
        refuse_hidden(f'target header "{name}"', text)
    return tuple(sorted(value.items()))


def _flag(part: str, value: object, default: bool) -> bool:
    if value is None or isinstance(value, bool):
        return default if value is None else value
    raise Invalid(f"target {part} {quoted(value)} is not true or false")

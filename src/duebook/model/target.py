"""What a run executes, as a value; knows the JSON forms, executes nothing."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from duebook.errors import Invalid, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.celery_target import CELERY, CeleryTarget, load_celery
from duebook.model.event_target import EventTarget, load_event
from duebook.model.fields import is_text
from duebook.model.flow_target import FlowTarget, load_flow
from duebook.model.http_target import HttpTarget, load_http
from duebook.model.secret import HIDDEN, is_by_reference, show_payload
from duebook.model.stopping import read_stop_grace, read_stop_signal
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

__all__ = [
    "CeleryTarget",
    "CommandTarget",
    "EventTarget",
    "FlowTarget",
    "HttpTarget",
    "Target",
    "TaskTarget",
    "load_target",
    "payload_variables",
    "worker_task",
]

T = TypeVar("T")

_KINDS: Final = frozenset({"task", "command", "shell", "http", "event", "flow", "celery"})
_TASK_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}")
LONGEST_TEXT: Final = 100_000
"""Characters of a shell's text, an argument or a variable; the kernel's limit."""
LONGEST_NAME: Final = 255
MOST_ARGUMENTS: Final = 1_000
MOST_VARIABLES: Final = 1_000
_COMMAND_KEYS: Final = frozenset({"command", "shell", "env", "cwd", "stop_signal", "stop_grace"})


@dataclass(frozen=True, slots=True)
class CommandTarget:
    """A program with its arguments, or text for a shell; one of the two."""

    argv: tuple[str, ...] = ()
    shell: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    stop_signal: str | None = None
    """what it gets first when it is stopped; None: SIGTERM"""
    stop_grace: timedelta | None = None
    """how long after that it is killed"""

    def masked(self) -> CommandTarget:
        """As it may be shown: without the values of its environment."""
        shown = ((name, text if is_by_reference(text) else HIDDEN) for name, text in self.env)
        return replace(self, env=tuple(shown))

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = (
            {"command": list(self.argv)} if self.shell is None else {"shell": self.shell}
        )
        if self.env:
            form["env"] = dict(self.env)
        if self.cwd is not None:
            form["cwd"] = self.cwd
        if self.stop_signal is not None:
            form["stop_signal"] = self.stop_signal
        if self.stop_grace is not None:
            form["stop_grace"] = format_duration(self.stop_grace)
        return form

    def __str__(self) -> str:
        return self.shell if self.shell is not None else shlex.join(self.argv)


@dataclass(frozen=True, slots=True)
class TaskTarget:
    """A Python function, by the name under which workers know it."""

    name: str

    def masked(self) -> TaskTarget:
        return self

    def to_json(self) -> dict[str, Any]:
        return {"task": self.name}

    def __str__(self) -> str:
        return f"task {self.name}"


Target = CommandTarget | HttpTarget | TaskTarget | EventTarget | FlowTarget | CeleryTarget


def worker_task(target: object) -> str | None:
    """What a worker must know to execute a target, or a step; None: any worker can."""
    if isinstance(target, CeleryTarget):
        return CELERY
    return target.name if isinstance(target, TaskTarget) else None


def payload_variables(keys: Iterable[str]) -> dict[str, str]:
    """The variable that passes each value of a payload to a command.

    Raises Invalid when two keys would share one.
    """
    variables: dict[str, str] = {}
    for key in keys:
        variable = "DUEBOOK_PAYLOAD_" + re.sub(r"[^A-Z0-9_]", "_", key.upper())
        if (other := variables.setdefault(variable, key)) != key:
            raise Invalid(
                f'payload keys "{shorten(other)}" and "{shorten(key)}" would both become '
                f"{shorten(variable)}; rename one"
            )
    return {key: variable for variable, key in variables.items()}


def load_target(form: object) -> Target:
    """A target from its JSON form; raises Invalid that names the part."""
    if isinstance(form, Target):
        return form
    if isinstance(form, str):
        return TaskTarget(_task_name(form))
    if not isinstance(form, dict) or len(_KINDS.intersection(form)) != 1:
        raise Invalid(
            f'target {shorten(_shown(form))} is not one of "task", {{"task": "name"}}, '
            '{"command": ["program", "argument"]}, {"shell": "text"}, '
            '{"http": {"url": "https://…"}}, {"event": {"topic": "name"}}, {"flow": "name"}, '
            '{"celery": "proj.tasks.add"}'
        )
    if "flow" in form:
        return load_flow(form)
    if "celery" in form:
        return load_celery(form)
    for kind, load in _LOADERS.items():
        if kind in form:
            if len(form) > 1:
                raise Invalid(f'target {shorten(_shown(form))} has more than its "{kind}"')
            return load(form[kind])
    if unknown := sorted(str(key) for key in form if key not in _COMMAND_KEYS):
        known = ", ".join(sorted(_COMMAND_KEYS))
        raise Invalid(f'target key "{shorten(unknown[0])}" is unknown; use one of {known}')
    return CommandTarget(
        argv=_argv(form["command"]) if "command" in form else (),
        shell=_text("shell", form["shell"]) if "shell" in form else None,
        env=_env(form.get("env") or {}),
        cwd=None if form.get("cwd") is None else _text("cwd", form["cwd"]),
        stop_signal=_given("stop_signal", form, read_stop_signal),
        stop_grace=_given("stop_grace", form, read_stop_grace),
    )


def _given(key: str, form: dict[str, Any], read: Callable[[str, Any], T]) -> T | None:
    value = form.get(key)
    return None if value is None else read(f"target {key}", value)


def _task_name(value: object) -> str:
    if isinstance(value, str) and _TASK_NAME.fullmatch(value):
        return value
    raise Invalid(
        f'target task "{shorten(value)}" is not a name of 1 to 200 letters, digits, '
        '"_", ".", ":", "-"'
    )


_LOADERS: Final[dict[str, Callable[[object], Target]]] = {
    "task": lambda name: TaskTarget(_task_name(name)),
    "http": load_http,
    "event": load_event,
}
"""Targets that are given by a single value."""


def _argv(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and len(value) > MOST_ARGUMENTS:
        told = f"target command has {len(value):,} parts; at most {MOST_ARGUMENTS:,} are allowed"
        raise Invalid(f"{told}; put the rest in a file")
    if isinstance(value, list | tuple) and value:
        return tuple(_text("command", part, empty=i > 0) for i, part in enumerate(value))
    raise Invalid(f"target command {shorten(value)} is not a list of a program and its arguments")


def _env(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise Invalid(f"target env {shorten(_shown(value))} is not an object of strings")
    if len(value) > MOST_VARIABLES:
        told = f"target env has {len(value):,} variables; at most {MOST_VARIABLES:,} are allowed"
        raise Invalid(told)
    for name in value:
        if not is_text(name, LONGEST_NAME) or not name or "=" in name:
            raise Invalid(f'target env name "{shorten(name)}" is not a variable name')
        if value[name] == HIDDEN:
            raise Invalid(
                f'target env "{shorten(name)}" is {HIDDEN}, a placeholder for a hidden value; '
                "give the real value"
            )
    return tuple(sorted((name, _text("env", text, empty=True)) for name, text in value.items()))


def _text(part: str, value: object, empty: bool = False) -> str:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        told = f"target {part} has {len(value):,} characters; at most {LONGEST_TEXT:,} are allowed"
        raise Invalid(f"{told}; put long scripts and values in files")
    if isinstance(value, str) and (value or empty) and "\0" not in value:
        return value
    told = "" if part == "env" else f" {shorten(_shown(value))}"
    raise Invalid(f"target {part}{told} is not a string without NUL")


def _shown(form: object) -> object:
    """As a message may repeat it."""
    shown = show_payload(form)
    return shown | {"env": HIDDEN} if isinstance(shown, dict) and "env" in shown else shown

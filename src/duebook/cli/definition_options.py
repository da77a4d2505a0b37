"""The options that define a schedule: what it runs and its policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from duebook.cli.arguments import read_object, read_pair
from duebook.cli.celery_options import celery_decorators, read_celery
from duebook.cli.commands import SECTION_STARTS, WHAT, in_section, option
from duebook.cli.event_options import event_decorators, read_event
from duebook.cli.http_options import http_decorators, read_http
from duebook.errors import Invalid, InvalidTime
from duebook.model import schedule as model
from duebook.model.fields import Dependency
from duebook.timetext import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.model.kinds import Shape
    from duebook.model.schedule import DefinitionField
    from duebook.model.target import Target

__all__ = [
    "ONE_TARGET",
    "POLICIES",
    "definition_options",
    "policy_words",
    "read_policies",
    "read_retry",
    "read_target",
]

Command = TypeVar("Command", bound="Callable[..., Any]")

_METAVARS: Final[dict[Shape, str]] = {
    "instant": "INSTANT",
    "length": "LENGTH",
    "name": "NAME",
    "object": "JSON",
    "text": "TEXT",
}
_OF_FLOWS: Final = "triggers"
"""The shape of policies that only flow files can set."""
POLICIES: Final = {
    name: known
    for name, known in model.POLICIES.items()
    if known.kind.shape not in ("object", _OF_FLOWS)
}

_RETRY: Final[dict[str, dict[str, Any]]] = {
    "retry_delay": {"metavar": "LENGTH", "help": "Wait before the second attempt. [default: 10s]"},
    "retry_backoff": {
        "type": float,
        "metavar": "FACTOR",
        "help": "Multiply the delay by this after each failure. [default: 2]",
    },
    "retry_max_delay": {"metavar": "LENGTH", "help": "The longest delay. [default: 10m]"},
    "retry_on": {
        "metavar": "FAILURE",
        "multiple": True,
        "help": "Retry only after this exit code or reason; repeatable.",
    },
    "retry_jitter": {"default": None, "help": "Vary the delay at random. [default: yes]"},
}
RETRY_HELP: Final = (
    "Attempts per run, counting the first: --retry 3 runs it at most 3 times. (In a flow file, "
    "retries counts only the later ones: retries: 3 runs a step at most 4 times.)"
)

ONE_TARGET: Final = (
    "give exactly one of: a COMMAND after --, --shell TEXT, --http URL, --task NAME, "
    "--event TOPIC or --celery TASK"
)


_TARGETS: Final = ("shell", "http", "task", "event", "celery")


def _policy_options() -> Iterator[Callable[[Any], Any]]:
    """One option for each policy."""
    section = WHAT
    for name, known in model.POLICIES.items():
        section = SECTION_STARTS.get(name, section)
        if known.kind.shape == _OF_FLOWS:
            continue
        yield from in_section(section, _option(name, known))
        if known.kind.shape == "retry":
            parts = (option(_flag(part), **extra) for part, extra in _RETRY.items())
            yield from in_section(section, *parts)


def _option(name: str, known: DefinitionField) -> Callable[[Any], Any]:
    shape, text = known.kind.shape, known.help + _default_text(known)
    match shape:
        case "choice":
            return option(_flag(name), type=click.Choice(known.kind.choices), help=text)
        case "flag":
            return option(_switch(name), default=None, help=text)
        case "whole":
            return option(_flag(name), type=int, metavar="N", help=text)
        case "days" | "dependencies" | "labels":
            metavar, more = _REPEATED[shape]
            return option(_flag(name), name, metavar=metavar, multiple=True, help=text + more)
        case "retry":
            return option(_flag(name), type=int, metavar="N", help=RETRY_HELP)
        case "calendar":
            more = " Such as only:workdays, or except:holidays:next to roll to the next open day."
            return option(_flag(name), metavar="HOW:NAME[:ROLL]", help=text + more)
    return option(_flag(name), metavar=_METAVARS[shape], help=text)


_REPEATED: Final[dict[Shape, tuple[str, str]]] = {
    "days": ("DAYS", " A day, or a range such as 2026-12-24/2027-01-02; repeatable."),
    "dependencies": (
        "NAME:WITHIN[:WAIT]",
        " Such as extract:1h, or extract:1h:10m to wait up to 10m for it; repeatable.",
    ),
    "labels": ("NAME=VALUE", " Repeatable."),
}
"""Options that may be repeated: their values, and an addition to the help text."""


def _default_text(known: DefinitionField) -> str:
    default = known.to_json(known.default)
    none = default is None or default is False or default in ("", {}, [])
    return "" if none else f" [default: {default}]"


def _flag(name: str) -> str:
    if name == "retry_jitter":
        return _switch(name)
    return "--label" if name == "labels" else f"--{name.replace('_', '-')}"


def _switch(name: str) -> str:
    flag = name.replace("_", "-")
    return f"--{flag}/--no-{flag}"


def _decorators() -> list[Callable[[Any], Any]]:
    commands = in_section(
        WHAT,
        option("--shell", metavar="TEXT", help="Run this text with /bin/sh instead of a COMMAND."),
        option("--cwd", metavar="DIR", help="The directory in which the command runs."),
        option(
            "--env",
            metavar="NAME=VALUE",
            multiple=True,
            help="An environment variable for the command; repeatable.",
        ),
        option("--task", metavar="NAME", help="Run a Python task instead of a COMMAND."),
    )
    kinds = (*http_decorators(), *event_decorators(), *celery_decorators())
    return [*commands, *kinds, *_policy_options()]


def definition_options(command: Command) -> Command:
    """Add the options of a definition, except its trigger, to a command."""
    for decorate in reversed(_decorators()):
        command = decorate(command)
    return command


def read_policies(options: dict[str, Any]) -> dict[str, Any]:
    """The fields that the options set, except trigger, target and retry; raises Invalid."""
    given = {name: options[name] for name in model.POLICIES if name in options}
    return {
        name: _read_option(name, value)
        for name, value in given.items()
        if value not in (None, ()) and name != "retry"
    }


def _read_option(name: str, value: Any) -> Any:
    match model.POLICIES[name].kind.shape:
        case "days":
            return list(value)
        case "dependencies":
            return [_dependency(text) for text in value]
        case "labels":
            return dict(read_pair(item, _flag(name)) for item in value)
        case "object":
            return read_object(_flag(name), value)
        case "calendar":
            return _calendar(value)
    return value


def _calendar(text: str) -> dict[str, str]:
    how, _, rest = text.partition(":")
    name, colon, roll = rest.partition(":")
    if how not in ("only", "except") or not name:
        raise Invalid(
            f'--calendar "{text}" is not HOW:NAME[:ROLL], such as only:workdays or '
            "except:holidays:next"
        )
    return {how: name, "roll": roll} if colon else {how: name}


def _dependency(text: str) -> Dependency:
    name, _, lengths = text.partition(":")
    within, _, wait = lengths.partition(":")
    try:
        return Dependency(name, parse_duration(within), parse_duration(wait or "0s"))
    except InvalidTime:
        raise Invalid(
            f'--depends-on "{text}" is not NAME:WITHIN[:WAIT], such as extract:1h or extract:1h:10m'
        ) from None


def read_retry(options: dict[str, Any], former: dict[str, Any] | None) -> dict[str, Any]:
    """The field `retry`; parts that are not given stay as in `former`. Empty if not given.

    Raises UsageError for details without a number of attempts.
    """
    form: dict[str, Any] = {}
    for name in _RETRY:
        value = options[name]
        if value not in (None, ()):
            key = name.removeprefix("retry_")
            form[key] = [_failure(item) for item in value] if key == "on" else value
    if options["retry"] is not None:
        form["attempts"] = options["retry"]
    if form and "attempts" not in form and former is None:
        raise click.UsageError("give --retry N as well, the number of attempts counting the first")
    return {"retry": {**(former or {}), **form}} if form else {}


def _failure(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def read_target(
    command: tuple[str, ...], options: dict[str, Any], former: Target | None = None
) -> dict[str, Any] | None:
    """The target from COMMAND, --shell, --http, --task, --event or --celery; None if none is given.

    Details alone change a `former` request, event or Celery task. Raises UsageError.
    """
    shell, cwd, env = options["shell"], options["cwd"], options["env"]
    named = [name for name in _TARGETS if options[name] is not None]
    if len(named) + bool(command) > 1:
        raise click.UsageError(ONE_TARGET)
    if command or named:
        former = None  # of another kind, which has no such details
    readers = (read_http, read_event, read_celery)
    found = next(filter(None, (read(options, former) for read in readers)), None)
    if not command and shell is None:
        if cwd is not None or env:
            raise click.UsageError("--cwd and --env need a COMMAND after --, or --shell TEXT")
        return {"task": options["task"]} if named == ["task"] else found
    target: dict[str, Any] = {"command": list(command)} if command else {"shell": shell}
    if cwd is not None:
        target["cwd"] = cwd
    if env:
        target["env"] = dict(read_pair(item) for item in env)
    return target


def policy_words(form: dict[str, Any]) -> str:
    """The policies of a definition or template, in words."""
    hidden = ("title", "description", "labels")
    return ", ".join(
        f"{name} {_words(name, value)}".strip()
        for name, value in form.items()
        if name in POLICIES and name not in hidden
    )


def _words(name: str, value: Any) -> str:
    if name == "depends_on":
        return " ".join(":".join(item.values()) for item in value)
    if name == "retry":
        rest = {key: part for key, part in value.items() if key not in ("attempts", "jitter")}
        parts = [f"{value['attempts']} attempts", *(f"{k} {_flat(v)}" for k, v in rest.items())]
        return " ".join([*parts, *(["no jitter"] if "jitter" in value else [])])
    if isinstance(value, bool):
        return "" if value else "no"
    if name == "calendar":
        return " ".join(f"{key} {part}" for key, part in value.items())
    return _flat(value)


def _flat(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)

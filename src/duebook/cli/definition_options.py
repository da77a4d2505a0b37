"""The options by which commands define a schedule: what it runs and its policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import click

from duebook.cli.arguments import read_object, read_pair
from duebook.cli.event_options import event_decorators, read_event
from duebook.cli.http_options import http_decorators, read_http
from duebook.errors import Invalid, InvalidTime
from duebook.model.fields import Dependency
from duebook.model.schedule import Catchup, OnResume, Overlap
from duebook.timetext import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

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

_SWITCHES: Final = ("skip_if_successful", "retry_jitter")

_PLAIN: Final[dict[str, dict[str, Any]]] = {
    "catchup": {"type": click.Choice(get_args(Catchup)), "help": "For missed due times."},
    "catchup_window": {"metavar": "LENGTH", "help": "How far back --catchup all reaches."},
    "catchup_limit": {"type": int, "metavar": "N", "help": "How many it keeps. [default: 1000]"},
    "catchup_pace": {"metavar": "LENGTH", "help": "One of them each LENGTH. [default: 1m]"},
    "grace": {"metavar": "LENGTH", "help": "Later than this is missed. [default: 1m]"},
    "overlap": {"type": click.Choice(get_args(Overlap)), "help": "While a run is active."},
    "skip_if_successful": {"default": None, "help": "When a run by hand succeeded since the last."},
    "on_resume": {
        "type": click.Choice(get_args(OnResume)),
        "help": "For what fell while paused. [default: skip]",
    },
    "start_at": {"metavar": "INSTANT", "help": "No due time before it."},
    "end_at": {"metavar": "INSTANT", "help": "No due time after it."},
    "max_runs": {"type": int, "metavar": "N", "help": "Completed after N due times that ran."},
    "jitter": {"metavar": "LENGTH", "help": "Plan each up to this much later."},
    "max_concurrent": {"type": int, "metavar": "N", "help": "Runs at once, with overlap allow."},
    "queue": {"metavar": "NAME", "help": "Which nodes may run it. [default: default]"},
    "priority": {"type": int, "metavar": "N", "help": "Higher goes first. [default: 0]"},
    "timeout": {"metavar": "LENGTH", "help": "End the command after this long."},
    "expire_after": {"metavar": "LENGTH", "help": "Cancel a run not begun by then."},
    "max_takeovers": {"type": int, "metavar": "N", "help": "Nodes it may lose. [default: 3]"},
    "title": {"metavar": "TEXT", "help": 'A name to show to people: "Daily Cleanup".'},
    "description": {"metavar": "TEXT"},
}
"""Options whose value is the field's, named like it."""

_RETRY: Final[dict[str, dict[str, Any]]] = {
    "retry_delay": {"metavar": "LENGTH", "help": "Before the second attempt. [default: 10s]"},
    "retry_backoff": {"type": float, "metavar": "FACTOR", "help": "Growth. [default: 2]"},
    "retry_max_delay": {"metavar": "LENGTH", "help": "The longest delay. [default: 10m]"},
    "retry_on": {
        "metavar": "FAILURE",
        "multiple": True,
        "help": "Only after this exit code or reason.",
    },
    "retry_jitter": {"default": None, "help": "Vary the delay. [default: yes]"},
}

ONE_TARGET: Final = (
    "give either a COMMAND after --, or --shell TEXT, or --http URL, or --task NAME, "
    "or --event TOPIC"
)

POLICIES: Final = (*_PLAIN, "depends_on", "exclude", "labels", "retry")


def _flag(name: str) -> str:
    flag = name.replace("_", "-")
    return f"--{flag}/--no-{flag}" if name in _SWITCHES else f"--{flag}"


def _decorators() -> list[Callable[[Any], Any]]:
    return [
        click.option("--shell", metavar="TEXT", help="Text for /bin/sh, instead of COMMAND."),
        click.option("--cwd", metavar="DIR", help="Where the command runs."),
        click.option(
            "--env", metavar="NAME=VALUE", multiple=True, help="A variable for the command."
        ),
        *http_decorators(),
        click.option("--task", metavar="NAME", help="A Python function, instead of COMMAND."),
        *event_decorators(),
        click.option(
            "--payload", metavar="JSON", help="Values for arguments, variables and templates."
        ),
        *(click.option(_flag(name), **extra) for name, extra in _PLAIN.items()),
        click.option(
            "--depends-on",
            metavar="NAME:WITHIN[:WAIT]",
            multiple=True,
            help="Must have succeeded: extract:1h, or extract:1h:10m to wait for it.",
        ),
        click.option(
            "--exclude",
            metavar="DAYS",
            multiple=True,
            help="A day, or a range: 2026-12-24/2027-01-02.",
        ),
        click.option("--label", "labels", metavar="NAME=VALUE", multiple=True, help="For people."),
        click.option("--retry", type=int, metavar="N", help="Attempts, the first one included."),
        *(click.option(_flag(name), **extra) for name, extra in _RETRY.items()),
    ]


def definition_options(command: Command) -> Command:
    """Add the options of a definition, all but its trigger, to a command."""
    for option in reversed(_decorators()):
        command = option(command)
    return command


def read_policies(options: dict[str, Any]) -> dict[str, Any]:
    """The fields that the options give, but for trigger, target and retry; raises Invalid."""
    fields = {name: options[name] for name in _PLAIN if options[name] is not None}
    if options["depends_on"]:
        fields["depends_on"] = [_dependency(text) for text in options["depends_on"]]
    if options["exclude"]:
        fields["exclude"] = list(options["exclude"])
    if options["labels"]:
        fields["labels"] = dict(read_pair(item, "--label") for item in options["labels"])
    if options["payload"] is not None:
        fields["payload"] = read_object("--payload", options["payload"])
    return fields


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
    """The field `retry`, with what the options leave as it was `former`ly; empty: not given.

    Raises UsageError for details of a retry that there is not.
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
        raise click.UsageError("give --retry N as well: how many attempts there are")
    return {"retry": {**(former or {}), **form}} if form else {}


def _failure(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text


def read_target(
    command: tuple[str, ...], options: dict[str, Any], former: Target | None = None
) -> dict[str, Any] | None:
    """The target that COMMAND, --shell, --http, --task or --event names; None: none is given.

    Details alone change a `former` request or event. Raises UsageError.
    """
    shell, cwd, env = options["shell"], options["cwd"], options["env"]
    named = [name for name in ("shell", "http", "task", "event") if options[name] is not None]
    if len(named) + bool(command) > 1:
        raise click.UsageError(ONE_TARGET)
    if command or named:
        former = None  # details of another kind would be lost
    request, event = read_http(options, former), read_event(options, former)
    if not command and shell is None:
        if cwd is not None or env:
            raise click.UsageError("--cwd and --env go with a COMMAND after --, or --shell TEXT")
        return {"task": options["task"]} if named == ["task"] else request or event
    target: dict[str, Any] = {"command": list(command)} if command else {"shell": shell}
    if cwd is not None:
        target["cwd"] = cwd
    if env:
        target["env"] = dict(read_pair(item) for item in env)
    return target


def policy_words(form: dict[str, Any]) -> str:
    """The policies in the form of a definition, or of a part of one."""
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
    return _flat(value)


def _flat(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)

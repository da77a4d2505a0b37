"""The options that define a Celery task as a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.arguments import read_json
from duebook.cli.commands import WHAT, in_section, option
from duebook.model.target import CeleryTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.target import Target

__all__ = ["celery_decorators", "read_celery"]

_DETAILS: Final = ("args", "kwargs", "celery_option")


def celery_decorators() -> Sequence[Callable[[Any], Any]]:
    return in_section(
        WHAT,
        option(
            "--celery",
            metavar="TASK",
            help="Send this Celery task instead of running a COMMAND.",
        ),
        option("--args", metavar="JSON", help="Its arguments by position, such as '[1, 2]'."),
        option("--kwargs", metavar="JSON", help="Its arguments by name. [default: the payload]"),
        option(
            "--celery-option",
            metavar="NAME=VALUE",
            multiple=True,
            help="How it is sent, such as queue=mail, expires=10m, priority=5 or terminate=true; "
            "repeatable.",
        ),
    )


def read_celery(options: dict[str, Any], former: Target | None) -> dict[str, Any] | None:
    """The target from --celery and its details; details alone change a `former` Celery task.

    Returns None if none are given. Raises UsageError for details without a task.
    """
    given = [name for name in _DETAILS if options[name] not in (None, ())]
    if options["celery"] is None and not given:
        return None
    if options["celery"] is None and not isinstance(former, CeleryTarget):
        raise click.UsageError(f"--{given[0].replace('_', '-')} needs --celery TASK")
    form = former.to_json() if isinstance(former, CeleryTarget) else {}
    if options["celery"] is not None:
        form = {"celery": options["celery"]}
    for name in ("args", "kwargs"):
        if options[name] is not None:
            form[name] = read_json(f"--{name}", options[name])
    return form | dict(map(_option, options["celery_option"]))


def _option(text: str) -> tuple[str, Any]:
    """Numbers, true and false are converted; anything else is text."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f'--celery-option "{text}" is not NAME=VALUE, such as queue=mail')
    if value in ("true", "false"):
        return name, value == "true"
    return name, int(value) if value.isascii() and value.isdecimal() else value

"""Reads triggers from their JSON form, the same in REST, files and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duebook.errors import InvalidTrigger, shorten
from duebook.triggers.at import at
from duebook.triggers.base import Trigger
from duebook.triggers.cron import cron
from duebook.triggers.daily import daily
from duebook.triggers.every import every
from duebook.triggers.rrule import rrule
from duebook.triggers.weekly import weekly

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["load_trigger"]

_KINDS: Final[dict[str, tuple[Callable[..., Trigger], tuple[str, ...]]]] = {
    "cron": (cron, ("tz", "gap", "fold", "key")),
    "every": (every, ("tz", "anchor", "gap", "fold")),
    "daily": (daily, ("tz", "gap", "fold")),
    "weekly": (weekly, ("tz", "gap", "fold")),
    "at": (at, ()),
    "rrule": (rrule, ("tz", "dtstart", "gap", "fold")),
}


def load_trigger(form: object, key: str | None = None) -> Trigger:
    """A trigger from its JSON form, or from text as a cron expression; a Trigger is returned as is.

    `key` (a schedule's name) is what H hashes unless the form has its own key. Raises
    InvalidTrigger.
    """
    if isinstance(form, Trigger):
        return form
    if isinstance(form, str):
        return cron(form, key=key)
    kind, build, options = _kind(form)
    if kind == "cron" and key is not None:
        options.setdefault("key", key)
    return build(form[kind], **options)  # type: ignore[index]


def _kind(form: object) -> tuple[str, Callable[..., Trigger], dict[str, Any]]:
    """The constructor of the only kind that a form names, and its options, all of them known."""
    if not isinstance(form, dict):
        raise InvalidTrigger(
            f'a trigger must be an object such as {{"cron": "0 9 * * *"}}, not {shorten(form)}',
            "trigger",
        )
    kinds = [name for name in _KINDS if name in form]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        raise InvalidTrigger(
            f"a trigger has exactly one of {', '.join(_KINDS)}; found {found}", "trigger"
        )
    build, known = _KINDS[kinds[0]]
    options = {name: value for name, value in form.items() if name != kinds[0]}
    if unknown := sorted(str(name) for name in options if name not in known):
        raise InvalidTrigger(
            f'"{shorten(unknown[0])}" is not an option of {kinds[0]}; '
            + (f"use one of {', '.join(known)}" if known else "it has no options"),
            shorten(unknown[0]),
        )
    return kinds[0], build, {name: value for name, value in options.items() if value is not None}

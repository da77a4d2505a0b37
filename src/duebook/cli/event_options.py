"""The options that define an event as a target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.arguments import read_json
from duebook.cli.commands import WHAT, in_section, option
from duebook.model.target import EventTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.target import Target

__all__ = ["event_decorators", "read_event"]

_DETAILS: Final = ("event_type", "event_key", "event_data")


def event_decorators() -> Sequence[Callable[[Any], Any]]:
    return in_section(
        WHAT,
        option(
            "--event",
            "--event-topic",
            "event",
            metavar="TOPIC",
            help="Write an event to this topic instead of running a COMMAND.",
        ),
        option("--event-type", metavar="TYPE", help="The event's type. [default: the topic]"),
        option("--event-key", metavar="KEY", help="Its key. [default: the schedule's name]"),
        option("--event-data", metavar="JSON", help="Its data. [default: the payload]"),
    )


def read_event(options: dict[str, Any], former: Target | None) -> dict[str, Any] | None:
    """The target from --event and its details; details alone change a `former` event.

    Returns None if none are given. Raises UsageError for details without an event.
    """
    given = [name for name in _DETAILS if options[name] is not None]
    if options["event"] is None and not given:
        return None
    if options["event"] is None and not isinstance(former, EventTarget):
        raise click.UsageError(f"--{given[0].replace('_', '-')} needs --event TOPIC")
    form = former.to_json()["event"] if isinstance(former, EventTarget) else {}
    if options["event"] is not None:
        form = {"topic": options["event"]}
    for name in given:
        value = options[name]
        part = name.removeprefix("event_")
        form[part] = read_json("--event-data", value) if part == "data" else value
    return {"event": form}

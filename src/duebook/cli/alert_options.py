"""The options that give a schedule its own alert rules, which are deleted with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar
from zlib import crc32

import click

from duebook.errors import DuebookError, NotFound
from duebook.model.channel import load_channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.client import Client

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["alert_options", "read_alerts", "save_alerts"]

OFF: Final = "off"
_CONDITIONS: Final = {"failure": ("failure", "recovered"), "missed": ("missed", "recovered")}
_LONGEST: Final = 110


def alert_options(function: F) -> F:
    """Add --on-failure and --on-missed."""
    for kind, told in (
        ("missed", "Send an alert to this URL when a due time is missed"),
        ("failure", "Send an alert to this URL when a run fails after its last retry"),
    ):
        function = click.option(
            f"--on-{kind}",
            metavar="URL",
            help=f"{told}, and when it recovers: https://…, mailto:…; off: send none.",
        )(function)
    return function


def read_alerts(options: dict[str, Any]) -> dict[str, str]:
    """Remove the given URLs from the options and return them by kind; raises Invalid."""
    found = {kind: options.pop(f"on_{kind}") for kind in _CONDITIONS}
    given = {kind: url for kind, url in found.items() if url is not None}
    for url in given.values():
        if url != OFF:
            load_channel(url)  # before anything is created
    return given


def save_alerts(book: Client, schedule: str, wanted: dict[str, str], *, saved: bool = True) -> None:
    """Create, change or delete the rules of a schedule, which was `saved` just before or already
    existed; raises the errors of these calls."""
    for kind, url in wanted.items():
        name = _rule_name(schedule, kind)
        try:
            if url == OFF:
                book.alerts.remove(name)
            else:
                on = _CONDITIONS[kind]
                book.alerts.save(name, on, [url], schedule, with_schedule=True)
        except NotFound:
            if url != OFF:
                raise
        except DuebookError as error:
            if not saved:
                raise
            raise type(error)(f"the schedule was saved, but not its alert: {error}") from None


def _rule_name(schedule: str, kind: str) -> str:
    """A name for the rule that differs from those of other schedules."""
    if len(schedule) > _LONGEST:
        schedule = f"{schedule[:_LONGEST]}-{crc32(schedule.encode()):08x}"
    return f"{schedule}.{kind}"

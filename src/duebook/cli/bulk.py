"""Applies a command to one schedule by its name, or to all that match a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from duebook.cli.filters import filter_options, read_filter
from duebook.cli.output import print_json, wrapped
from duebook.errors import counted
from duebook.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.client import Client
    from duebook.model.acted import Acted, Action

__all__ = ["act_on_many", "agreed", "bulk_options", "read_many"]

Command = TypeVar("Command", bound="Callable[..., Any]")


def bulk_options(command: Command) -> Command:
    """Add the options that select many schedules instead of NAME."""
    command = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(
        command
    )
    command = click.option("--dry-run", is_flag=True, help="Only print which schedules match.")(
        command
    )
    return filter_options(command)


def read_many(name: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """The filter that replaces NAME; empty if NAME is given. Raises UsageError."""
    wanted = read_filter(options)
    if (name is None) == (not wanted):
        raise click.UsageError(
            "give either NAME, or a filter: --label, --text, --status, --target, --due-before or "
            "--problem; --text '*' matches all"
        )
    if name is not None and options["dry_run"]:
        raise click.UsageError("--dry-run needs a filter; it does not go with NAME")
    return wanted


def act_on_many(
    book: Client,
    action: Action,
    wanted: dict[str, Any],
    options: dict[str, Any],
    as_json: bool,
    **pause: Any,
) -> None:
    """Apply an action to all that match, after confirmation; `pause` has the details of a pause."""
    verb, done = _VERBS[action]
    if options["dry_run"] or not options["yes"]:
        tried = book.schedules.act(action, wanted, dry_run=True, **pause)
        if options["dry_run"] or not tried.count:
            _print_acted(tried, f"would {verb}", as_json)
            return
        click.echo(wrapped(_words(tried, f"about to {verb}")), err=True)
        if not agreed():
            click.echo("cancelled; nothing was changed", err=True)
            click.get_current_context().exit(1)
    _print_acted(book.schedules.act(action, wanted, **pause), done, as_json)


_VERBS: Final = {
    "pause": ("pause", "paused"),
    "resume": ("resume", "resumed"),
    "delete": ("delete", "deleted"),
    "skip_next": ("skip the next due time of", "skipped the next due time of"),
}


def agreed(question: str = "continue?") -> bool:
    """Ask for confirmation; raises UsageError without a terminal."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        raise click.UsageError("cannot ask for confirmation here; add --yes") from None


def _print_acted(acted: Acted, words: str, as_json: bool) -> None:
    if as_json:
        print_json(encode(acted))
    else:
        click.echo(wrapped(_words(acted, words)))


def _words(acted: Acted, words: str) -> str:
    number = counted(acted.count, "schedule")
    more = ", …" if acted.count > len(acted.names) else ""
    names = f": {', '.join(acted.names)}{more}" if acted.names else ""
    return f"{words} {number}{names}"

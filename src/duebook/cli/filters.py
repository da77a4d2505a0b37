"""The options that say which schedules and runs are meant, and the pages of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from duebook.cli.arguments import read_moment, read_past
from duebook.model.filters import ScheduleSort, Status
from duebook.model.listing import Listing
from duebook.model.run import Origin, RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "cursor_option",
    "filter_options",
    "gather",
    "read_filter",
    "read_run_filter",
    "run_filter_options",
    "sort_option",
    "tell_more",
]

T = TypeVar("T")
Command = TypeVar("Command", bound="Callable[..., Any]")

cursor_option = click.option("--cursor", metavar="TEXT", help="Go on where a list ended.")
sort_option = click.option(
    "--sort", type=click.Choice(get_args(ScheduleSort)), default="name", show_default=True
)


def filter_options(command: Command) -> Command:
    """Add the options that say which schedules are meant."""
    return _added(
        command,
        click.option("--status", type=click.Choice(get_args(Status))),
        click.option("--label", metavar="NAME=VALUE", multiple=True, help="With this label."),
        click.option("--text", metavar="TEXT", help="A part of the name; etl-* is its beginning."),
        click.option("--due-before", metavar="TIME|LENGTH", help="Due next before that."),
        click.option(
            "--target",
            metavar="KIND",
            help="task, task:NAME, flow, flow:NAME, command, http, event.",
        ),
        click.option("--problem/--no-problem", default=None, help="With or without a problem."),
    )


def read_filter(options: dict[str, Any]) -> dict[str, Any]:
    """The filter that the options give, as `schedules.list` takes it; they leave the options."""
    given = {
        name: options.pop(name)
        for name in ("status", "label", "text", "due_before", "target", "problem")
    }
    if given["due_before"] is not None:
        given["due_before"] = read_moment(given["due_before"])
    return {
        name: list(v) if name == "label" else v for name, v in given.items() if v not in (None, ())
    }


def run_filter_options(command: Command) -> Command:
    """Add the options that say which runs are meant."""
    return _added(
        command,
        click.option("--status", type=click.Choice(get_args(RunStatus))),
        click.option("--origin", type=click.Choice(get_args(Origin))),
        click.option("--queue", metavar="NAME"),
        click.option("--since", metavar="TIME|LENGTH", help="An instant, or 2h for 2 hours ago."),
        click.option("--until", metavar="TIME|LENGTH"),
    )


def read_run_filter(options: dict[str, Any]) -> dict[str, Any]:
    """The filter that the options give, as `runs.list` takes it."""
    return {
        name: read_past(value) if name in ("since", "until") else value
        for name, value in options.items()
        if value is not None
    }


def _added(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def gather(
    ask: Callable[[str | None, int], Listing[T]], cursor: str | None, limit: int
) -> Listing[T]:
    """As many as asked for, if there are: short pages are followed by their next."""
    page = ask(cursor, limit)
    found = list(page)
    while len(found) < limit and page.next_cursor is not None:
        page = ask(page.next_cursor, limit - len(found))
        found += page
    return Listing(found, page.next_cursor)


def tell_more(listing: Listing[Any]) -> None:
    """Where a list goes on, for people and programs alike."""
    if listing.next_cursor is not None:
        click.echo(f"there are more; go on with --cursor {listing.next_cursor}", err=True)

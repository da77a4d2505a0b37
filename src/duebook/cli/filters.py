"""The options that filter schedules and runs, and paging of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from duebook.cli.commands import FILTERS, in_section, option
from duebook.cli.instants import read_future, read_past
from duebook.model.filters import ScheduleSort, Status
from duebook.model.listing import Listing
from duebook.model.run import Origin, RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "cursor_option",
    "filter_options",
    "gather",
    "limit_option",
    "print_more",
    "read_filter",
    "read_run_filter",
    "run_filter_options",
    "sort_option",
]

T = TypeVar("T")
Command = TypeVar("Command", bound="Callable[..., Any]")

cursor_option = click.option(
    "--cursor", metavar="TEXT", help="Continue a list; the end of each page prints it."
)


def limit_option(default: int, words: str) -> Callable[[Command], Command]:
    """Add the option for the maximum number of rows."""
    return click.option(
        "--limit",
        "-n",
        type=click.IntRange(1, 10_000),
        metavar="N",
        default=default,
        show_default=True,
        help=words,
    )


sort_option = click.option(
    "--sort",
    type=click.Choice(get_args(ScheduleSort)),
    default="name",
    show_default=True,
    help="The order of the list.",
)


def filter_options(command: Command) -> Command:
    """Add the options that filter schedules."""
    return _added(
        command,
        option(
            "--status", type=click.Choice(get_args(Status)), help="Only schedules in this state."
        ),
        option(
            "--label",
            metavar="NAME=VALUE",
            multiple=True,
            help="Only schedules with this label; repeatable.",
        ),
        option("--text", metavar="TEXT", help="Only names that contain TEXT, or match etl-*."),
        option(
            "--due-before",
            metavar="TIME",
            help="Only schedules due before then: in 2h, a date, or a time (in your time zone).",
        ),
        option(
            "--target",
            metavar="KIND",
            help="Only these: task, task:NAME, flow, flow:NAME, celery, celery:NAME, command, "
            "http or event.",
        ),
        option(
            "--problem/--no-problem",
            default=None,
            help="Only schedules with, or without, a problem.",
        ),
    )


def read_filter(options: dict[str, Any]) -> dict[str, Any]:
    """The filter that `schedules.list` takes; removes these options from `options`."""
    given = {
        name: options.pop(name)
        for name in ("status", "label", "text", "due_before", "target", "problem")
    }
    if given["due_before"] is not None:
        given["due_before"] = read_future("--due-before", given["due_before"])
    return {
        name: list(v) if name == "label" else v for name, v in given.items() if v not in (None, ())
    }


def run_filter_options(command: Command) -> Command:
    """Add the options that filter runs."""
    return _added(
        command,
        option("--status", type=click.Choice(get_args(RunStatus)), help="Only runs in this state."),
        option("--origin", type=click.Choice(get_args(Origin)), help="Only runs created this way."),
        option("--queue", metavar="NAME", help="Only runs of this queue."),
        option(
            "--since",
            metavar="TIME",
            help="Only runs created since then: 2h ago, a date, or a time (in your time zone).",
        ),
        option("--until", metavar="TIME", help="Only runs created until then."),
    )


def read_run_filter(options: dict[str, Any]) -> dict[str, Any]:
    """The filter that `runs.list` takes."""
    return {
        name: read_past(f"--{name}", value) if name in ("since", "until") else value
        for name, value in options.items()
        if value is not None
    }


def _added(command: Command, *options: Callable[[Command], Command]) -> Command:
    for decorate in reversed(in_section(FILTERS, *options)):
        command = decorate(command)
    return command


def gather(
    ask: Callable[[str | None, int], Listing[T]], cursor: str | None, limit: int
) -> Listing[T]:
    """Up to `limit` items; a short page is followed by the next one."""
    page = ask(cursor, limit)
    found = list(page)
    while len(found) < limit and page.next_cursor is not None:
        page = ask(page.next_cursor, limit - len(found))
        found += page
    return Listing(found, page.next_cursor)


def print_more(listing: Listing[Any]) -> None:
    """Print how to continue a list that has more pages."""
    if listing.next_cursor is not None:
        click.echo(f"there are more; continue with --cursor {listing.next_cursor}", err=True)

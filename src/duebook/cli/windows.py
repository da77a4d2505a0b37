"""The commands about maintenance windows: add, ls, rm."""

from __future__ import annotations

import click

from duebook.cli.arguments import read_pair
from duebook.cli.commands import group
from duebook.cli.instants import read_future
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table, when
from duebook.clock import utc_now
from duebook.model.codec import encode

__all__ = ["window_group"]


@group("window")
def window_group() -> None:
    """Plan maintenance windows, which pause schedules by their labels."""


@window_group.command("add")
@click.argument("name")
@click.option(
    "--label", "labels", metavar="NAME=VALUE", multiple=True, help="Only these; repeatable."
)
@click.option("--from", "start", metavar="TIME", required=True, help="When it starts, or now.")
@click.option("--to", "end", metavar="TIME", required=True, help="When it ends; 2h: in 2 hours.")
@json_option
def add_command(name: str, labels: tuple[str, ...], start: str, end: str, as_json: bool) -> None:
    """Pause schedules from one time until another.

    Due times in the window are recorded as paused, and do not run when it ends. Runs
    that have started continue.

    \b
    Examples:
      duebook window add "disk full" --from now --to 2h
      duebook window add "db upgrade" --label team=data \\
        --from 2027-03-01T20:00:00Z --to 2027-03-01T23:00:00Z
    """
    wanted = dict(read_pair(item, "--label") for item in labels)
    span = read_future("--from", start), read_future("--to", end)
    with open_book() as book:
        window = book.windows.add(name, *span, wanted)
    if as_json:
        print_json(encode(window))
    else:
        whom = _selected(window.labels)
        click.echo(f"{whom} paused from {when(window.start_at)} to {when(window.end_at)}")


@window_group.command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List the maintenance windows, also those that are over."""
    with open_book() as book:
        windows = book.windows.list()
    now = utc_now()
    if as_json:
        print_json([encode(window) | {"state": window.state(now)} for window in windows])
    elif windows:
        rows = [
            (w.name, w.state(now), when(w.start_at), when(w.end_at), _selected(w.labels))
            for w in windows
        ]
        print_table(("WINDOW", "STATE", "FROM", "TO", "PAUSES"), rows, shrinks=0, states=1)
    else:
        click.echo("no maintenance windows; plan one: duebook window add NAME --from … --to …")


@window_group.command("rm")
@click.argument("name")
@json_option
def rm_command(name: str, as_json: bool) -> None:
    """End a maintenance window now, or delete one that has not started."""
    with open_book() as book:
        book.windows.remove(name)
    if as_json:
        print_json({"name": name})
    else:
        click.echo(f"ended {name}")


def _selected(labels: dict[str, str]) -> str:
    if not labels:
        return "all schedules"
    return "schedules with " + ", ".join(f"{name}={value}" for name, value in labels.items())

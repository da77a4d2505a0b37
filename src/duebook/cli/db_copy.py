"""The commands that move the books: copy to PostgreSQL, and open the old ones again."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from duebook.cli.opening import database_settings
from duebook.cli.output import json_option, print_json, wrapped
from duebook.errors import Conflict, Invalid
from duebook.settings import database_path, is_postgres
from duebook.store.moving import Progress, copy_books
from duebook.store.opening import open_target
from duebook.store.sqlite.moving import Source
from duebook.timetext import format_instant, parse_duration

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["copy_command", "reopen_command"]


@click.command("copy")
@click.argument("source", metavar="SQLITE")
@click.argument("target", metavar="POSTGRESQL")
@click.option(
    "--wait",
    default="1m",
    show_default=True,
    metavar="LENGTH",
    help="How long runs under way may take to end.",
)
@click.option(
    "--with-table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Also copy this table of your own; repeatable.",
)
@json_option
def copy_command(
    source: str, target: str, wait: str, tables: tuple[str, ...], as_json: bool
) -> None:
    """Move the books of a file to PostgreSQL, while nodes work on them.

    No run begins while those under way end; then the file is closed, and whoever
    uses it is told where the books are. Nodes may wait at the new place already.

    Tables of your own stay in the file, and are listed, unless --with-table names them.
    """
    path, longest = _path_of(source), parse_duration(wait)
    began = time.monotonic()
    with Source(path) as old, open_target(target) as new:
        copied = copy_books(old, new, longest, Progress(_say), tables)
        place = new.place
    took = timedelta(seconds=time.monotonic() - began)
    if as_json:
        print_json(
            {
                "from": str(path),
                "to": place,
                "move_id": copied.move_id,
                "closed_at": format_instant(copied.closed_at),
                "rows": copied.rows,
                "tables": copied.tables,
                "left": [{"type": one.type, "name": one.name} for one in copied.left],
                "took_seconds": round(took.total_seconds(), 3),
            }
        )
        return
    number = sum(copied.rows.values()) + sum(copied.tables.values())
    what = f"{number:,} rows" if copied.rows else "all of it, by an earlier call"
    click.echo(wrapped(f"copied {path} to the {place}: {what}"))
    click.echo(wrapped("the old books are closed; point nodes and clients to the new ones"))


@click.command("reopen")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def reopen_command(yes: bool, as_json: bool) -> None:
    """Work with the old books again after they were copied to PostgreSQL.

    What was decided there since is unknown here: its due times may run again.
    """
    with Source(_path_of(database_settings().database_url)) as old:
        move = old.move()
        if move is None:
            raise Conflict(f"the books of {old.path} were not moved; they are open")
        warning = (
            f"warning: whatever ran or changed in the {move.place} since "
            f"{move.at:%Y-%m-%d %H:%M:%S} UTC is unknown here, and its due times may run again. "
            "End the nodes there first."
        )
        click.echo(wrapped(warning), err=True)
        if not yes:
            click.confirm(f"open {old.path} again?", abort=True, err=True)
        old.reopen()
    if as_json:
        closed_at = format_instant(move.at)
        print_json({"reopened": str(old.path), "moved_to": move.place, "closed_at": closed_at})
        return
    click.echo(wrapped(f"{old.path} is open again; the {move.place} is as it was"))


def _path_of(url: str) -> Path:
    if is_postgres(url):
        raise Invalid("only the books of a SQLite file can be moved; this names PostgreSQL")
    return database_path(url)


def _say(text: str) -> None:
    click.echo(wrapped(text), err=True)

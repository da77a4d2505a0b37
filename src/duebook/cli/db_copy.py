"""The commands that move a database to PostgreSQL, and reopen the old one."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from duebook.cli.bulk import agreed
from duebook.cli.commands import command
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


@command("copy")
@click.argument("source", metavar="SQLITE")
@click.argument("target", metavar="POSTGRESQL")
@click.option(
    "--wait",
    default="1m",
    show_default=True,
    metavar="LENGTH",
    help="How long running runs may take to end.",
)
@click.option(
    "--with-table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Also copy this table of yours; repeatable.",
)
@json_option
def copy_command(
    source: str, target: str, wait: str, tables: tuple[str, ...], as_json: bool
) -> None:
    """Move a SQLite database to PostgreSQL while nodes run.

    No run starts while the running ones end. Then the file is closed, and clients
    that use it get an error that names the new database. Nodes may already wait
    there.

    Your own tables stay in the file unless --with-table names them; they are
    listed.
    """
    path, longest = _path_of(source), parse_duration(wait)
    began = time.monotonic()
    with Source(path) as old, open_target(target) as new:
        copied = copy_books(old, new, longest, Progress(_print), tables)
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
    what = f"{number:,} rows" if copied.rows else "an earlier call had copied everything"
    click.echo(wrapped(f"copied {path} to the {place}: {what}"))
    click.echo(wrapped("the old database is closed; point nodes and clients to the new one"))


@command("reopen")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def reopen_command(yes: bool, as_json: bool) -> None:
    """Reopen a SQLite database that was moved to PostgreSQL.

    It does not know what ran in PostgreSQL since then: those due times may run
    again.
    """
    with Source(_path_of(database_settings().database_url)) as old:
        move = old.move()
        if move is None:
            raise Conflict(f"{old.path} was not moved; it is open")
        warning = (
            f"warning: what ran or changed in the {move.place} since "
            f"{move.at:%Y-%m-%d %H:%M:%S} UTC is not known here, and its due times may run again. "
            "Stop the nodes there first."
        )
        click.echo(wrapped(warning), err=True)
        if not yes and not agreed(f"reopen {old.path}?"):
            click.echo("cancelled; nothing was changed", err=True)
            return
        old.reopen()
    if as_json:
        closed_at = format_instant(move.at)
        print_json({"reopened": str(old.path), "moved_to": move.place, "closed_at": closed_at})
        return
    click.echo(wrapped(f"reopened {old.path}; the {move.place} is unchanged"))


def _path_of(url: str) -> Path:
    if is_postgres(url):
        raise Invalid("only a SQLite database can be moved; this one is PostgreSQL")
    return database_path(url)


def _print(text: str) -> None:
    click.echo(wrapped(text), err=True)

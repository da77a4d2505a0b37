"""The command that copies a SQLite database to a backup."""

from __future__ import annotations

from pathlib import Path

import click

from duebook.cli.commands import command
from duebook.cli.opening import database_settings, open_database
from duebook.cli.output import json_option, print_json, wrapped
from duebook.errors import Invalid
from duebook.settings import database_path, is_postgres
from duebook.store.sqlite.backup import back_up

__all__ = ["backup_command"]


@command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option
def backup_command(file: Path, as_json: bool) -> None:
    """Copy a SQLite database to FILE while nodes run.

    FILE is replaced once the copy is complete. The time is recorded, and duebook
    doctor warns when it is more than a week ago.

    \b
    Examples:
      duebook db backup /backups/duebook.db
    """
    url = database_settings().database_url
    if is_postgres(url):
        raise Invalid("only a SQLite database is copied like this; use pg_dump for PostgreSQL")
    target = file.absolute()
    with open_database() as book:
        size = back_up(database_path(url), target)
        book.doctor.note_backup(str(target))
    if as_json:
        print_json({"file": str(target), "size_bytes": size})
    else:
        click.echo(wrapped(f"copied the database to {target}: {size:,} bytes"))

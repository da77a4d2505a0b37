"""The commands about the database itself: migrate, status, check, copy, reopen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from duebook.cli.db_copy import copy_command, reopen_command
from duebook.cli.opening import open_book, settings_of
from duebook.cli.output import json_option, print_json, print_pairs
from duebook.errors import Unavailable
from duebook.settings import database_path, is_postgres
from duebook.store.opening import place_of
from duebook.store.sqlite.connection import connect
from duebook.store.sqlite.migrate import applied, available

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["db_group"]


@click.group("db")
def db_group() -> None:
    """Look after the database."""


db_group.add_command(copy_command)
db_group.add_command(reopen_command)


@db_group.command("migrate")
def migrate_command() -> None:
    """Bring the schema up to date; every other command does so as well."""
    with open_book():
        click.echo(f"schema {available()[-1].number} is in force")


@db_group.command("check")
@json_option
def check_command(as_json: bool) -> None:
    """Verify the invariants of the books; exit code 1 when one does not hold."""
    with open_book() as book:
        problems = book.store.read(lambda tx: tx.check())
    if as_json:
        print_json(problems)
    for problem in () if as_json else problems:
        click.echo(f"problem: {problem}")
    if problems:
        click.get_current_context().exit(1)
    if not as_json:
        click.echo("the books balance")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise Unavailable(f"{path} cannot be looked at: {error.strerror}") from error


@db_group.command("status")
def status_command() -> None:
    """Show where the books are and which schema they have."""
    url = settings_of().database_url
    if is_postgres(url):
        from duebook.store.postgres.migrate import schema_of

        have_number, number = schema_of(url)
        print_pairs([("books", place_of(url)), ("schema", f"{have_number} of {number}")])
        return
    path = database_path(url)
    if not _exists(path):
        click.echo(f"no books yet at {path}; the first command makes them")
        return
    connection = connect(path, readonly=True)
    try:
        have = applied(connection)
    finally:
        connection.close()
    print_pairs(
        [
            ("file", str(path)),
            ("size", f"{path.stat().st_size:,} bytes"),
            ("schema", f"{max(have, default=0)} of {available()[-1].number}"),
        ]
    )

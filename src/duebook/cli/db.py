"""The commands about the database itself: migrate, status, check, backup, restore, copy, reopen."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from duebook.balance import check_books
from duebook.cli.commands import group
from duebook.cli.db_backup import backup_command
from duebook.cli.db_copy import copy_command, reopen_command
from duebook.cli.db_restore import restore_command
from duebook.cli.db_status import status_command
from duebook.cli.opening import open_database
from duebook.cli.output import json_option, print_json, wrapped
from duebook.errors import printable
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.balance import Checked

__all__ = ["db_group"]

MOST_PRINTED: Final = 20
"""Findings of one rule that are printed; --json prints all."""


@group("db")
def db_group() -> None:
    """Create, check, back up and move the database."""


db_group.add_command(status_command)
db_group.add_command(backup_command)
db_group.add_command(restore_command)
db_group.add_command(copy_command)
db_group.add_command(reopen_command)


@db_group.command("migrate")
def migrate_command() -> None:
    """Create the database, or bring its schema up to date."""
    with open_database(create=True) as book:
        schema = book.store.read(lambda tx: tx.status.schema())
    click.echo(f"the database has schema {schema}")


@db_group.command("check")
@click.option("--deep", is_flag=True, help="Check all history, not only the last day.")
@json_option
def check_command(deep: bool, as_json: bool) -> None:
    """Check that every due time is accounted for; exit code 1 if not.

    Nodes may keep running: it reads one consistent snapshot. Notes are not
    problems.
    """
    with open_database() as book:
        checked = check_books(book.store, deep)
    if as_json:
        print_json(_as_json(checked))
    else:
        _print(checked, deep)
    if not checked.balanced:
        click.get_current_context().exit(1)


def _as_json(checked: Checked) -> dict[str, object]:
    return {
        "balanced": checked.balanced,
        "findings": [finding.to_json() for finding in checked.findings],
        "schedules": checked.schedules,
        "due_times": checked.due_times,
        "since": format_instant(checked.since),
        "complete": checked.complete,
    }


def _print(checked: Checked, deep: bool) -> None:
    for (problem, rule), same in groupby(checked.findings, lambda f: (f.problem, f.rule)):
        findings = list(same)
        kind = "problem" if problem else "note"
        for finding in findings[:MOST_PRINTED]:
            click.echo(wrapped(printable(f"{kind} {rule}: {finding}")))
        if len(findings) > MOST_PRINTED:
            click.echo(f"{kind} {rule}: and {len(findings) - MOST_PRINTED:,} more; see --json")
    if not checked.complete:
        click.echo("note: only the newest due times were checked; --deep checks all")
    many = f"schedules: {checked.schedules:,}, due times: {checked.due_times:,}"
    since = "" if deep else " since yesterday"
    click.echo(f"checked {many}{since}", err=True)
    click.echo("the books balance" if checked.balanced else "the books do not balance")

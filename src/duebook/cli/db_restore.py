"""The command that restores a SQLite database from a backup; for PostgreSQL it prints how."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from duebook.cli.arguments import user
from duebook.cli.bulk import agreed
from duebook.cli.commands import command
from duebook.cli.opening import database_settings
from duebook.cli.output import json_option, print_json, wrapped
from duebook.clock import utc_now
from duebook.errors import Conflict, DuebookError, counted, printable
from duebook.settings import database_path, is_postgres
from duebook.store.opening import open_store
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.store.base import Tx
    from duebook.store.sqlite.restore import Restored

__all__ = ["restore_command"]

POSTGRES: Final = (
    "stop all nodes",
    "check that the backup can be read: pg_restore --list {file}",
    "psql \"$DUEBOOK_DATABASE_URL\" -c 'DROP SCHEMA IF EXISTS duebook CASCADE'",
    'pg_restore --dbname="$DUEBOOK_DATABASE_URL" {file}',
    "duebook db check --deep",
    "change schedules that must not run missed due times: duebook update NAME --catchup skip",
    "start the nodes; they declare the nodes of the backup dead after their lease",
)
"""Printed for a server, whose database is not a single file."""


@command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def restore_command(file: Path, yes: bool, as_json: bool) -> None:
    """Replace a SQLite database with the backup FILE.

    Stop all nodes first; it refuses while one is running. The former database is
    kept beside the new one. The backup does not contain what happened after it: due
    times since then count as missed, and run again according to the catchup of
    their schedule.

    For PostgreSQL it prints what to do.

    \b
    Examples:
      duebook db restore /backups/duebook.db
    """
    url = database_settings().database_url
    if is_postgres(url):
        _explain_postgres(file, as_json)
        return
    path = database_path(url)
    _refuse_nodes(path)
    if not yes and not agreed(f"replace {path} with {file}?"):
        click.echo("cancelled; nothing was changed", err=True)
        return
    restored = _restore(path, file)
    if as_json:
        print_json(
            {
                "file": str(path.absolute()),
                "from": str(file.absolute()),
                "kept": None if restored.aside is None else str(restored.aside.absolute()),
                "copied_at": format_instant(restored.copied_at),
            }
        )
        return
    _tell(path, restored)


def _restore(path: Path, file: Path) -> Restored:
    from duebook.book.audit import SHARED, Auditor
    from duebook.store.sqlite.restore import restore

    auditor = Auditor(SHARED, f"cli:{user()}")

    def note(tx: Tx) -> None:
        auditor.note(tx, "restore", "database", "database", after={"file": str(file.absolute())})

    return restore(path, file, note, utc_now())


def _tell(path: Path, restored: Restored) -> None:
    copied = format_instant(restored.copied_at)
    click.echo(wrapped(printable(f"restored {path} as it was at {copied}")))
    if restored.sessions:
        ended = counted(restored.sessions, "node")
        click.echo(f"ended the sessions of {ended} that ran then; their runs start again")
    click.echo(
        "due times since then count as missed; before you start nodes, look at them: duebook ls"
    )
    if restored.aside is not None:
        click.echo(wrapped(printable(f"the former database is {restored.aside}")))
        click.echo(wrapped(printable(f"undo: duebook db restore {restored.aside}")))


def _refuse_nodes(path: Path) -> None:
    """Checked by their leases; other users of the file are detected when it is replaced."""
    if not path.exists():
        return
    try:
        with closing(open_store(str(path), None, create=False)) as store:
            nodes = store.read(lambda tx: tx.nodes.list_nodes())
    except DuebookError as error:
        note = f"note: the current database cannot be read: {error}"
        click.echo(wrapped(printable(note)), err=True)
        return
    if nodes:
        first = nodes[0]
        raise Conflict(
            f"node {printable(first.node)} (pid {first.pid}) is running; stop all nodes first. If "
            f"it was killed, its lease ends at {format_instant(first.expires_at)}"
        )


def _explain_postgres(file: Path, as_json: bool) -> None:
    steps = [step.format(file=file) for step in POSTGRES]
    if as_json:
        print_json({"steps": steps})
    else:
        click.echo("a PostgreSQL database is restored with its own tools:")
        for number, step in enumerate(steps, 1):
            click.echo(f"  {number}. {step}")
        click.echo("point-in-time recovery works as for any other database")
    click.get_current_context().exit(2)

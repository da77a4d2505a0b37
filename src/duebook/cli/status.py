"""The command that checks whether everything that is due can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from duebook.book.readiness import unreachable
from duebook.cli.commands import command
from duebook.cli.notes import note_missing_nodes
from duebook.cli.opening import open_book, settings_of
from duebook.cli.output import json_option, print_json, wrapped
from duebook.cli.terminal import painted
from duebook.errors import Conflict, Unavailable, printable
from duebook.model.codec import encode
from duebook.settings import Settings

if TYPE_CHECKING:
    from duebook.model.readiness import Readiness

__all__ = ["status_command"]


@command("status")
@click.option(
    "--grace",
    default="1m",
    show_default=True,
    metavar="LENGTH",
    help="How long a schedule may be overdue.",
)
@json_option
def status_command(grace: str, as_json: bool) -> None:
    """Check that everything due can run; exit code 1 if not.

    Checks that the database answers, a scheduler is running, workers serve every
    queue and namespace with work and know its tasks, no schedule is overdue or
    broken, and no flow waits for a node to read its directory. Checks all
    namespaces, or the one that --namespace names.

    \b
    Examples:
      duebook status
      duebook status --url http://127.0.0.1:7420 --namespace shop --json
    """
    readiness = _ask(grace, as_json)
    if as_json:
        print_json(encode(readiness))
    else:
        for problem in readiness.problems:
            text = wrapped(printable(f"problem {problem.code}: {problem.message}"))
            click.echo(painted("problem") + text.removeprefix("problem"))
        for note in readiness.notes:
            click.echo(wrapped(printable(f"note {note.code}: {note.message}")))
        click.echo(painted("ready" if readiness.ready else "not ready"))
    if not readiness.ready:
        click.get_current_context().exit(1)


def _ask(grace: str, as_json: bool) -> Readiness:
    try:
        with open_book() as book:
            readiness = book.readiness(grace, _namespace())
            if not readiness.ready and not as_json:
                note_missing_nodes(book)
            return readiness
    except (Conflict, Unavailable) as error:
        return unreachable(error)


def _namespace() -> str | None:
    """The one given on the command line, in the environment or in a file; None for all."""
    given: str | None = (click.get_current_context().find_root().obj or {}).get("namespace")
    named = settings_of().namespace
    return given or (None if named == Settings().namespace else named)

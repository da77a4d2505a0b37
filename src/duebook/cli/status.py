"""The command that tells whether everything that is due can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from duebook.book.readiness import unreachable
from duebook.cli.opening import open_book, settings_of
from duebook.cli.output import json_option, print_json, wrapped
from duebook.errors import Conflict, Unavailable, printable
from duebook.model.codec import encode
from duebook.settings import Settings

if TYPE_CHECKING:
    from duebook.model.readiness import Readiness

__all__ = ["status_command"]


@click.command("status")
@click.option(
    "--grace", default="1m", show_default=True, help="How long a schedule may be overdue."
)
@json_option
def status_command(grace: str, as_json: bool) -> None:
    """Tell whether everything that is due can run; exit code 1 when not.

    The database must answer, a scheduler live, every queue and namespace with
    work be served, every task be known to a worker that serves its namespace, no
    schedule be overdue, every schedule be one that can be planned, and no flow
    wait until a node reads its directory. With --namespace only its runs and
    schedules count; without, those of all namespaces.

    \b
    Examples:
      duebook status
      duebook --url http://127.0.0.1:7420 --namespace shop status --json
    """
    readiness = _ask(grace)
    if as_json:
        print_json(encode(readiness))
    else:
        for problem in readiness.problems:
            click.echo(wrapped(printable(f"problem {problem.code}: {problem.message}")))
        for note in readiness.notes:
            click.echo(wrapped(printable(f"note {note.code}: {note.message}")))
        click.echo("ready" if readiness.ready else "not ready")
    if not readiness.ready:
        click.get_current_context().exit(1)


def _ask(grace: str) -> Readiness:
    try:
        with open_book() as book:
            return book.readiness(grace, _namespace())
    except (Conflict, Unavailable) as error:
        return unreachable(error)


def _namespace() -> str | None:
    """The one that the command line, the environment or a file names; None: all of them."""
    given: str | None = (click.get_current_context().find_root().obj or {}).get("namespace")
    named = settings_of().namespace
    return given or (None if named == Settings().namespace else named)

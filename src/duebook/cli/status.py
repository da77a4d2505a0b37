"""The command that tells whether the books are worked on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from duebook.book.readiness import unreachable
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, wrapped
from duebook.errors import Conflict, Unavailable, printable
from duebook.model.forms import readiness_form

if TYPE_CHECKING:
    from duebook.model.readiness import Readiness

__all__ = ["status_command"]


@click.command("status")
@click.option(
    "--grace", default="1m", show_default=True, help="By how much a schedule may be overdue."
)
@json_option
def status_command(grace: str, as_json: bool) -> None:
    """Tell whether everything that is due can run; exit code 1 when not.

    The books must answer, a scheduler live, every queue with work be served,
    every task be known to a worker, and no schedule be overdue.
    """
    readiness = _ask(grace)
    if as_json:
        print_json(readiness_form(readiness))
    else:
        for problem in readiness.problems:
            click.echo(wrapped(printable(f"problem {problem.code}: {problem.message}")))
        click.echo("ready" if readiness.ready else "not ready")
    if not readiness.ready:
        click.get_current_context().exit(1)


def _ask(grace: str) -> Readiness:
    try:
        with open_book() as book:
            return book.readiness(grace)
    except (Conflict, Unavailable) as error:
        return unreachable(error)

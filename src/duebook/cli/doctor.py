"""The command that examines a database and its nodes, and repairs what is safe to repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from duebook.book.doctor import unreachable
from duebook.cli.commands import command
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, wrapped
from duebook.cli.terminal import painted
from duebook.errors import Conflict, Unavailable, counted, printable
from duebook.model.codec import encode

if TYPE_CHECKING:
    from duebook.model.diagnosis import Checkup, Diagnosis

__all__ = ["doctor_command"]


@command("doctor")
@click.option("--fix", is_flag=True, help="Repair what is safe to repair, then check again.")
@json_option
def doctor_command(fix: bool, as_json: bool) -> None:
    """Check nodes, schedules and the database.

    One line for each check: ok, warning or problem, and what to do. It checks all
    namespaces. The exit code is 1 if there is a problem; warnings do not change it.

    --fix plans schedules again whose stored times are missing or wrong. It
    changes nothing else, and duebook audit lists what it did.

    \b
    Examples:
      duebook doctor
      duebook doctor --fix
      duebook doctor --json
    """
    found = _ask(fix)
    if as_json:
        print_json(encode(found))
    else:
        _print(found, fix)
    if not found.healthy:
        click.get_current_context().exit(1)


def _ask(fix: bool) -> Diagnosis:
    try:
        with open_book() as book:
            return book.doctor.repair() if fix else book.doctor.examine()
    except (Conflict, Unavailable) as error:
        return unreachable(error)


def _print(found: Diagnosis, fix: bool) -> None:
    for told in found.repaired:
        click.echo(wrapped(printable(f"fixed: {told}")))
    if fix and not found.repaired:
        click.echo("nothing to fix")
    width = max(len(checkup.check) for checkup in found.checkups)
    for checkup in found.checkups:
        _print_checkup(checkup, width)
    levels = [checkup.level for checkup in found.checkups]
    problems, warnings = levels.count("problem"), levels.count("warning")
    click.echo(f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}")


def _print_checkup(checkup: Checkup, width: int) -> None:
    level = checkup.level.ljust(len("problem"))
    text = f"{level}  {checkup.check.ljust(width)}  {printable(checkup.message)}"
    if checkup.remedy:
        text += f" → {printable(checkup.remedy)}"
    click.echo(painted(level) + wrapped(text, indent=4).removeprefix(level))

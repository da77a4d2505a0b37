"""The commands that compare schedules in files with the database: diff and apply."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from duebook.cli.bulk import agreed
from duebook.cli.commands import command
from duebook.cli.declaration_files import read_files
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, when, wrapped
from duebook.errors import Conflict, Invalid, counted, printable, shorten
from duebook.model.codec import encode
from duebook.model.declaration import DEFAULT_OWNER
from duebook.model.schedule import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from duebook.cli.declaration_files import DeclaredFiles
    from duebook.client import Client
    from duebook.model.declaration import (
        ControlMoves,
        Declaration,
        DeclaredCalendar,
        DeclaredSchedule,
        FieldChange,
    )

__all__ = ["apply_command", "diff_command"]

Command = TypeVar("Command", bound="Callable[..., Any]")
LONGEST: Final = 200
MANY: Final = 1_000
"""From this many schedules on, diff and apply take more than a moment."""
FLAGS: Final = {"adopt": ("use adopt", "add --adopt"), "left": ("prune deletes", "--prune deletes")}
"""By the code of a note: phrases to replace by the option here."""
MARKS: Final = {
    "create": ("+", "create", "green"),
    "change": ("~", "change", "yellow"),
    "follow": ("~", "follows its calendar", "yellow"),
    "remove": ("-", "remove", "red"),
    "leave": ("!", "no longer declared", "yellow"),
}


def _file_options(command: Command) -> Command:
    for decorate in (
        click.option(
            "--days",
            type=click.IntRange(0, 366),
            metavar="N",
            default=7,
            show_default=True,
            help="Compare the due times of so many days.",
        ),
        click.option(
            "--adopt", is_flag=True, help="Also change schedules that this owner did not declare."
        ),
        click.option(
            "--prune", is_flag=True, help="Delete schedules of this owner that no file has."
        ),
        click.option(
            "--owner",
            metavar="NAME",
            help="Who declares the schedules. [default: `owner` in the files, else default]",
        ),
        click.argument("files", nargs=-1, required=True, metavar="FILE..."),
    ):
        command = decorate(command)
    return command


@command("diff")
@_file_options
@click.option("--check", is_flag=True, help="Exit with 1 if anything would change.")
@json_option
def diff_command(files: tuple[str, ...], check: bool, as_json: bool, **options: Any) -> None:
    """Show what apply would change, and which due times move.

    FILE is YAML, TOML or JSON, such as export prints; - is stdin. Nothing is
    changed.

    \b
    Examples:
      duebook diff schedules.yaml
      duebook diff schedules/*.yaml --owner billing --prune --days 30
      duebook diff schedules.toml --check
    """
    declared = _read(files, options["owner"])
    with open_book(create=True) as book:
        planned = _declare(book, declared, options, dry_run=True)
    print_json(encode(planned)) if as_json else _print_plan(planned)
    if check and planned.changes:
        click.get_current_context().exit(1)


@command("apply")
@_file_options
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--expect",
    metavar="TEXT",
    help="Apply only what diff --json showed with this `fingerprint`.",
)
@json_option
def apply_command(
    files: tuple[str, ...], yes: bool, expect: str | None, as_json: bool, **options: Any
) -> None:
    """Make schedules and calendars match the files.

    Shows the changes and asks before it applies them, all in one transaction.
    Schedules that already match stay unchanged, and so do pauses, skips and moves.
    If a schedule has changed since the changes were shown, nothing is applied.

    \b
    Examples:
      duebook apply schedules.yaml
      duebook apply schedules/*.yaml --owner billing --prune --yes
    """
    if as_json and not yes:
        raise click.UsageError("--json does not ask for confirmation; add --yes")
    declared = _read(files, options["owner"])
    with open_book(create=True) as book:
        planned = _declare(book, declared, options, dry_run=True, expect=expect)
        if not as_json:
            _print_plan(planned)
        if planned.changes:
            _refuse_others(planned, options["adopt"])
            if not yes and not agreed():
                click.echo("cancelled; nothing was changed", err=True)
                click.get_current_context().exit(1)
            options["days"] = 0
            _declare(book, declared, options, expect=planned.fingerprint)
    if as_json:
        print_json(encode(replace(planned, applied=True)))
    elif planned.changes:
        click.echo("applied")


def _read(files: Sequence[str], owner: str | None) -> DeclaredFiles:
    declared = read_files(files)
    if owner is None and len(declared.owners) > 1:
        names = shorten(", ".join(name or "nobody" for name in declared.owners), LONGEST)
        told = f"declared by {printable(names)} before; all will be declared by {DEFAULT_OWNER}"
        click.echo(wrapped(f"note: {told}, unless you name another --owner"), err=True)
    if declared.completed:
        names = shorten(", ".join(declared.completed), LONGEST)
        number = counted(len(declared.completed), "completed schedule")
        click.echo(wrapped(f"note: {number} left out: {printable(names)}"), err=True)
    return declared


def _declare(
    book: Client, declared: DeclaredFiles, options: dict[str, Any], **how: Any
) -> Declaration:
    owner = options["owner"]
    if owner is None:
        owner = declared.owner or DEFAULT_OWNER
    given = {key: value for key, value in options.items() if key != "owner"}
    if options["prune"] and owner == DEFAULT_OWNER:
        raise Invalid(
            "--prune deletes what an owner no longer declares; name the owner with --owner, or "
            "with `owner:` in the file"
        )
    try:
        given["calendars"] = declared.calendars
        with _progress(len(declared.definitions)):
            return book.schedules.declare(declared.definitions, owner, **given, **how)
    except InvalidSchedule as error:
        raise declared.placed(error) from None


@contextmanager
def _progress(number: int) -> Iterator[None]:
    """Print on a terminal what takes so long."""
    shown = number >= MANY and sys.stderr.isatty()
    if shown:
        click.echo(f"comparing {counted(number, 'schedule')} …", err=True, nl=False)
    try:
        yield
    finally:
        if shown:
            click.echo("\r\x1b[K", err=True, nl=False)


def _refuse_others(planned: Declaration, adopt: bool) -> None:
    """Do not ask for confirmation of what would be rejected."""
    others = [
        one.name for one in planned.schedules if any(note.code == "adopt" for note in one.notes)
    ]
    if others and not adopt:
        names = shorten(", ".join(others), LONGEST)
        told = f"{counted(len(others), 'schedule')} not declared by {planned.owner}"
        raise Conflict(f"{told}: {names}; to take over, add --adopt")


# -- printing a plan


def _print_plan(planned: Declaration) -> None:
    days = (planned.until - planned.at).days
    for calendar in planned.calendars:
        _print_calendar(calendar)
    for one in planned.schedules:
        if one.action == "follow" and not (one.appear or one.disappear or one.move or one.notes):
            continue
        mark, word, colour = MARKS[one.action]
        title = f"{mark} {one.name}"
        version = "" if one.version is None else f" (version {one.version})"
        click.echo(f"{click.style(title, fg=colour)}: {word}{version}")
        for line in (*_fields(one), *_due_times(one, days), *_notes(one)):
            click.echo(f"    {line}")
    if not planned.compared:
        click.echo("note: too many due times change; not all were compared", err=True)
    if not (planned.created or planned.changed or planned.unchanged):
        click.echo("note: the files declare no schedules", err=True)
    click.echo(_counts(planned))


def _print_calendar(one: DeclaredCalendar) -> None:
    mark, word, colour = MARKS[one.action]
    version = "" if one.version is None else f" (version {one.version})"
    word = "follows another" if one.action == "follow" else word
    click.echo(f"{click.style(f'{mark} calendar {one.name}', fg=colour)}: {word}{version}")
    days = [f"+ {day}" for day in one.added] + [f"- {day}" for day in one.removed]
    more = [f"and {one.more:,} more"] if one.more else []
    for line in (*_fields(one), *days, *more):
        click.echo(f"    {line}")


def _counts(planned: Declaration) -> str:
    new = sum(one.action == "create" for one in planned.calendars)
    other = len(planned.calendars) - new
    calendars = [(new, "to create"), (other, "to change")]
    told = [f"{counted(number, 'calendar')} {word}" for number, word in calendars if number]
    found = [
        (len(planned.created), "to create"),
        (len(planned.changed), "to change"),
        (len(planned.following), "to follow their calendars"),
        (len(planned.removed), "to remove"),
        (len(planned.left), "no longer declared"),
        (len(planned.unchanged), "unchanged"),
    ]
    told += [f"{number:,} {word}" for number, word in found if number]
    return f"owner {planned.owner}: {', '.join(told) or 'nothing declared'}"


def _fields(one: DeclaredSchedule | DeclaredCalendar) -> Iterator[str]:
    width = max((len(field.field) for field in one.fields), default=0)
    for field in one.fields:
        yield f"{field.field.ljust(width)}  {_values(one, field)}"


def _values(one: DeclaredSchedule | DeclaredCalendar, field: FieldChange) -> str:
    if one.action == "create":
        return _value(field.after)
    if field.before == field.after:
        return "a hidden value changes"
    return f"{_value(field.before)} → {_value(field.after)}"


def _value(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return "-" if value is None else printable(shorten(text, LONGEST))


def _due_times(one: DeclaredSchedule, days: int) -> Iterator[str]:
    least = "at least " if one.compared_until else ""
    if one.action == "create" and one.appear:
        count = len(one.appear) + one.more
        number = f"{least}{counted(count, 'due time')} in {counted(days, 'day')}"
        yield f"first due {when(one.appear[0])}; {number}"
    else:
        yield from _listed(one, least=least)
    if one.compared_until and one.action == "change":
        yield f"compared until {when(one.compared_until)}; use fewer --days"
    for control in one.controls:
        if one.action == "create":
            yield f"first {control.kind} {when(control.appear[0])}"
        else:
            yield from _listed(control, f"{control.kind} ")


def _listed(one: DeclaredSchedule | ControlMoves, kind: str = "", least: str = "") -> Iterator[str]:
    """Due times that disappear and appear, in order, each with `kind`."""
    listed = [(at, f"- {kind}{when(at)}") for at in one.disappear]
    listed += [(at, f"+ {kind}{when(at)}") for at in one.appear]
    listed += [
        (move.was, f"~ {kind}{when(move.was)} → {_clock(move.becomes)}") for move in one.move
    ]
    for _, line in sorted(listed):
        yield line
    if one.more:
        yield f"and {least}{counted(one.more, f'more {kind}due time')}"


def _clock(at: datetime) -> str:
    """Without the distance, which is printed before the arrow."""
    return when(at).rpartition(" (")[0]


def _notes(one: DeclaredSchedule) -> Iterator[str]:
    for note in one.notes:
        message = note.message.replace(*FLAGS.get(note.code, ("", "")))
        yield wrapped(f"warning: {printable(message)}", indent=6)

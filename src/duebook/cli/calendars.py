"""The commands about calendars: add, ls, show, days, rm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.commands import group
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_pairs, print_table, when, wrapped
from duebook.errors import Invalid, counted, shorten
from duebook.model.calendar import definition_text, first_of
from duebook.model.codec import encode
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.model.calendar import CalendarEdit

__all__ = ["calendar_group"]

MOST_DAYS: Final = 10
_SOURCES: Final[dict[str, tuple[str, str]]] = {
    "date": ("DAYS", "A day, or a range such as 2026-12-24/2027-01-02; repeatable."),
    "weekdays": ("DAYS", "Weekdays such as SAT,SUN or MON-FRI; repeatable."),
    "rrule": ("RULE", "A recurrence rule, such as FREQ=MONTHLY;BYDAY=-1FR; repeatable."),
    "holidays": ("PLACE", "Public holidays of a country or part, such as BE or DE-BY; repeatable."),
    "ical": ("FILE", "The days of the events of an iCal file."),
    "calendar": ("NAME", "The days of another calendar; repeatable."),
}
_KEYS: Final = {"date": "dates", "calendar": "calendars"}


def _source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for prefix, verb in (("without-", "Leave out: "), ("", "")):
        for name, (metavar, text) in reversed(_SOURCES.items()):
            told = f"{verb}{text[0].lower()}{text[1:]}" if verb else text
            many = name != "ical"
            kind = None if many else click.Path(exists=True, dir_okay=False, path_type=Path)
            flag = f"--{prefix}{name}"
            command = click.option(flag, metavar=metavar, multiple=many, type=kind, help=told)(
                command
            )
    return command


@group("calendar")
def calendar_group() -> None:
    """Define named sets of days, such as holidays, for schedules.

    A schedule refers to one: duebook add report --calendar except:holidays:next.
    """


@calendar_group.command("add")
@click.argument("name")
@_source_options
@click.option("--dry-run", is_flag=True, help="Show what would change, without saving it.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@json_option
def add_command(name: str, dry_run: bool, yes: bool, as_json: bool, **options: Any) -> None:
    """Create a calendar, or replace the definition of one.

    It has all days that the options name, except those of the --without options.
    The days from 2000 to 2099 are computed now and stored. If schedules use the
    calendar, the due times that move are shown, and --yes is needed to save it.

    \b
    Examples:
      duebook calendar add closing-days --date 2026-12-24/2027-01-02 --weekdays SUN
      duebook calendar add workdays --weekdays MON-FRI --without-calendar closing-days
      duebook calendar add belgian-workdays --weekdays MON-FRI --without-holidays BE
    """
    definition = _definition(options)
    with open_book(create=True) as book:
        edit = book.calendars.preview(name, **definition)
        if dry_run:
            _print_edit(edit, as_json)
            return
        if (edit.moved or edit.compared < edit.schedules) and not yes:
            _print_edit(edit, as_json=False)
            raise Invalid(f"{_warning(edit)}; repeat the command with --yes to save the calendar")
        version = edit.version or None
        saved = book.calendars.save(name, version=version, **definition)
    if as_json:
        print_json(encode(saved))
    else:
        days = counted(saved.day_count, "day")
        click.echo(wrapped(f"saved {name}, version {saved.version}: {days} from 2000 to 2099"))


@calendar_group.command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List the calendars."""
    with open_book() as book:
        found = book.calendars.list()
    if as_json:
        print_json([encode(calendar) for calendar in found])
    elif found:
        rows = [
            (c.name, str(c.version), f"{c.day_count:,}", definition_text(c.definition))
            for c in found
        ]
        print_table(("CALENDAR", "VERSION", "DAYS", "DEFINITION"), rows)
    else:
        click.echo("no calendars yet; add one: duebook calendar add weekends --weekdays SAT,SUN")


@calendar_group.command("show")
@click.argument("name")
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show a calendar and its next days."""
    with open_book() as book:
        found, days = book.calendars.get(name), book.calendars.days(name)
    if as_json:
        print_json(encode(found))
        return
    by = f" by {found.created_by}" if found.created_by else ""
    print_pairs(
        [
            ("name", found.name),
            ("version", f"{found.version}, saved {when(found.created_at)}{by}"),
            ("definition", definition_text(found.definition)),
            ("days", f"{found.day_count:,} from 2000 to 2099"),
            ("next", ", ".join(days[:MOST_DAYS]) or "none within a year"),
        ]
    )


@calendar_group.command("days")
@click.argument("name")
@click.option("--from", "start", metavar="DAY", help="The first day. [default: today]")
@click.option("--to", "end", metavar="DAY", help="The last day. [default: a year later]")
@json_option
def days_command(name: str, start: str | None, end: str | None, as_json: bool) -> None:
    """Print the days of a calendar."""
    with open_book() as book:
        days = book.calendars.days(name, start, end)
    if as_json:
        print_json(days)
    else:
        click.echo("\n".join(days) or "no days in this range")


@calendar_group.command("rm")
@click.argument("name")
@json_option
def rm_command(name: str, as_json: bool) -> None:
    """Delete a calendar that no schedule uses."""
    with open_book() as book:
        found = book.calendars.get(name)
        book.calendars.remove(name)
    if as_json:
        print_json(encode(found))
    else:
        click.echo(f"deleted {name}")


def _definition(options: dict[str, Any]) -> dict[str, Any]:
    definition: dict[str, Any] = {}
    without: dict[str, Any] = {}
    for name in _SOURCES:
        for form, value in (
            (definition, options[name]),
            (without, options[f"without_{name}"]),
        ):
            if value:
                form[_KEYS.get(name, name)] = _read_file(value) if name == "ical" else list(value)
    return definition | {"without": without} if without else definition


def _read_file(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"--ical {shorten(str(path))} is not UTF-8 text") from None
    except OSError as error:
        told = error.strerror or error
        raise Invalid(f"--ical {shorten(str(path))} cannot be read: {told}") from None
    if not text.strip():
        raise Invalid(f"--ical {shorten(str(path))} is empty; export the calendar again")
    return text


def _print_edit(edit: CalendarEdit, as_json: bool) -> None:
    if as_json:
        print_json(encode(edit))
        return
    verb = "changes" if edit.version else "creates"
    click.echo(f"{verb} calendar {edit.name}, used by {counted(edit.schedules, 'schedule')}")
    for sign, days in (("+", edit.added), ("-", edit.removed)):
        if days:
            click.echo(wrapped(f"{sign} {first_of(list(days))}"))
    if edit.schedules:
        click.echo(wrapped(_compared(edit)))
    for moved in edit.moved:
        click.echo(f"{moved.schedule}:")
        for sign, times in (("+", moved.new), ("-", moved.gone)):
            if times:
                click.echo(wrapped(f"  {sign} {first_of([_time(at) for at in times])}", 4))


def _warning(edit: CalendarEdit) -> str:
    if edit.moved:
        return f"saving moves due times of {counted(len(edit.moved), 'schedule')}"
    return "saving may move due times of schedules that were not compared"


def _compared(edit: CalendarEdit) -> str:
    """How far due times were compared, and for how many schedules."""
    some = f"{edit.compared:,} of " if edit.compared < edit.schedules else ""
    schedules, until = counted(edit.schedules, "schedule"), format_instant(edit.until)
    found = "" if edit.moved else "; none moves"
    return f"compared the due times of {some}{schedules} up to {until}{found}"


def _time(at: datetime) -> str:
    return format_instant(at)

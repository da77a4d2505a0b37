"""The command that prints schedules and their calendars as a file."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.book import Book
from duebook.book.schedule_files import file_of, write_yaml
from duebook.cli.commands import command
from duebook.cli.declaration_files import write_toml
from duebook.cli.filters import filter_options, gather, read_filter
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, wrapped
from duebook.errors import Invalid, NotFound, counted, shorten
from duebook.model.calendar import referred
from duebook.model.codec import encode
from duebook.model.secret import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from duebook.client import Client
    from duebook.model.schedule import Schedule

__all__ = ["export_command"]

EVERY: Final = 1_000_000
LONGEST: Final = 200


@command("export")
@filter_options
@click.option("--owner", metavar="NAME", help="Only schedules that this owner declares.")
@click.option(
    "--all", "everything", is_flag=True, help="Also those of programs and flow directories."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["yaml", "toml", "json"]),
    default="yaml",
    show_default=True,
    help="The format of the file.",
)
@click.option(
    "--secrets", is_flag=True, help="Print hidden values too; needs the database, not a server."
)
@json_option
def export_command(
    owner: str | None, everything: bool, kind: str, secrets: bool, as_json: bool, **options: Any
) -> None:
    """Print schedules and their calendars as a file for diff and apply.

    Programs and flow directories declare theirs themselves, so these are left out,
    and so are completed schedules, which would start again.

    \b
    Examples:
      duebook export > schedules.yaml
      duebook export --owner billing --format toml > billing.toml
      duebook export --label team=sales --json
    """
    wanted = read_filter(options)
    with open_book() as book:
        if secrets and not isinstance(book, Book):
            raise Invalid("--secrets needs the database itself; a server hides these values")
        found = gather(
            lambda place, most: book.schedules.list(cursor=place, limit=min(most, 1_000), **wanted),
            None,
            EVERY,
        )
        chosen = [one for one in found if _is_wanted(one, owner, everything)]
        if owner is not None and not chosen:
            known = ", ".join(sorted({one.owner for one in found if one.owner})) or "none"
            raise NotFound(
                f'owner "{shorten(owner)}" declares no such schedule; known owners: '
                f"{shorten(known, LONGEST)}"
            )
        calendars = _calendars(book, chosen)
        rules = _alert_rules(book, chosen)
    if as_json:
        print_json(_listed(chosen, calendars, secrets))
    else:
        _print_export(chosen, calendars, kind, owner, secrets)
    for note in (*_left_out(found, chosen, owner, secrets), *rules):
        click.echo(wrapped(f"note: {note}"), err=True)


def _alert_rules(book: Client, chosen: Sequence[Schedule]) -> list[str]:
    """That alert rules of these schedules are not part of the file."""
    exported = {one.name for one in chosen}
    names = [rule.name for rule in book.alerts.list() if rule.schedule in exported]
    if not names:
        return []
    told = f"{counted(len(names), 'alert rule')} of these schedules left out"
    return [f"{told}: {_names(names)}; see duebook alert ls"]


def _is_wanted(one: Schedule, owner: str | None, everything: bool) -> bool:
    if one.spec is None or one.status == "completed":
        return False
    if owner is not None:
        return one.owner == owner
    return everything or ":" not in one.owner


def _calendars(book: Client, chosen: Sequence[Schedule]) -> dict[str, dict[str, Any]]:
    """The definitions of the calendars that schedules need, by name."""
    read = cache(lambda name: book.calendars.get(name).definition)
    return {name: read(name) for name in sorted(_needed(chosen, read))}


def _needed(chosen: Iterable[Schedule], read: Callable[[str], dict[str, Any]]) -> set[str]:
    """The calendars that schedules use, and those that these refer to; `read` knows their
    definitions."""
    found = set[str]()
    more = {one.spec.calendar.name for one in chosen if one.spec and one.spec.calendar}
    while more:
        found |= more
        more = {other for name in more for other in referred(read(name))} - found
    return found


def _listed(
    chosen: Sequence[Schedule], calendars: Mapping[str, dict[str, Any]], secrets: bool
) -> list[dict[str, Any]]:
    """As `ls --json` prints them; the first schedule that needs a calendar also has its
    definition."""
    carried = set[str]()
    forms = []
    for one in chosen:
        form = encode(one) | _definition(one, secrets)
        if names := sorted(_needed([one], calendars.__getitem__) - carried):
            form["calendars"] = _named(calendars, names)
            carried.update(names)
        forms.append(form)
    return forms


def _named(calendars: Mapping[str, dict[str, Any]], names: Iterable[str]) -> list[dict[str, Any]]:
    return [{"name": name, **calendars[name]} for name in names]


def _print_export(
    chosen: Sequence[Schedule],
    calendars: Mapping[str, dict[str, Any]],
    kind: str,
    owner: str | None,
    secrets: bool,
) -> None:
    forms = [
        {"name": one.name, **_definition(one, secrets)}
        | ({"enabled": False} if one.status == "paused" else {})
        for one in chosen
    ]
    owners = {one.owner for one in chosen}
    common = owner or (owners.pop() if len(owners) == 1 else "")
    named = common if common and ":" not in common else None
    content = named, forms, _named(calendars, calendars)
    if kind == "json":
        print_json(file_of(*content))
        return
    write = write_toml if kind == "toml" else write_yaml
    click.echo(write(*content), nl=False)


def _definition(one: Schedule, secrets: bool) -> dict[str, Any]:
    assert one.spec is not None  # noqa: S101 - others were left out
    return one.spec.to_json() if secrets else one.spec.to_shown()


def _left_out(
    found: Sequence[Schedule], chosen: Sequence[Schedule], owner: str | None, secrets: bool
) -> Iterator[str]:
    """What the file does not have, and matters."""
    owners = sorted({one.owner for one in chosen if ":" not in one.owner})
    if len(owners) > 1:
        names = _names([name or "nobody" for name in owners])
        yield (
            f"declared by {names}, but a file has one owner: to keep them apart, export each with "
            "--owner"
        )
    if owner is None:
        yield from _not_chosen(found, chosen)
    if unread := [one.name for one in found if one.spec is None]:
        yield f"{counted(len(unread), 'unreadable schedule')} left out: {_names(unread)}"
    if ending := [one.name for one in chosen if one.paused_until is not None]:
        number = counted(len(ending), "schedule")
        yield f"where you apply it, {number} will be paused without an end: {_names(ending)}"
    shown = [] if secrets else [json.dumps(_definition(one, secrets)) for one in chosen]
    if hidden := [text for text in shown if HIDDEN in text]:
        yield (
            f"{counted(len(hidden), 'schedule')} with hidden values ({HIDDEN}), which apply "
            "leaves as they are; elsewhere they must be filled in: see --secrets"
        )


def _not_chosen(found: Sequence[Schedule], chosen: Sequence[Schedule]) -> Iterator[str]:
    if done := [one.name for one in found if one.status == "completed" and one.spec]:
        yield f"{counted(len(done), 'completed schedule')} left out: {_names(done)}"
    kept = {one.id for one in chosen}
    others = [one.name for one in found if ":" in one.owner and one.id not in kept and one.spec]
    if others := [name for name in others if name not in done]:
        number = counted(len(others), "schedule")
        yield f"{number} of programs and flow directories left out; --all includes them"


def _names(found: Sequence[str]) -> str:
    return shorten(", ".join(found), LONGEST)

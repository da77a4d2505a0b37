"""The command that lists the audit log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from duebook.cli.commands import command
from duebook.cli.filters import gather, limit_option
from duebook.cli.instants import read_past
from duebook.cli.opening import open_book
from duebook.cli.output import cut, json_option, print_json, print_table
from duebook.model.change import KINDS
from duebook.model.codec import encode

if TYPE_CHECKING:
    from duebook.model.change import Change

__all__ = ["audit_command"]


@command("audit")
@click.argument("subject", required=False)
@click.option(
    "--kind",
    metavar="KIND",
    type=click.Choice(KINDS),
    help=f"Only changes to: {', '.join(KINDS)}.",
)
@click.option("--by", metavar="WHO", help="Only changes by WHO, such as cli:alice or token:ci.")
@click.option(
    "--since",
    metavar="TIME",
    help="Only changes since then: 1d ago, a date, or a time (in your time zone).",
)
@click.option("--until", metavar="TIME", help="Only changes until then.")
@limit_option(20, "How many changes to list.")
@click.option(
    "--all", "everywhere", is_flag=True, help="All namespaces, including tokens and queues."
)
@json_option
def audit_command(
    subject: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    everywhere: bool,
    as_json: bool,
    **filters: str | None,
) -> None:
    """List who changed what, newest first.

    SUBJECT is the name of a schedule, template, queue, token or namespace, or the
    owner of a declaration.

    \b
    Examples:
      duebook audit backup
      duebook audit --by cli:alice --since 1d
      duebook audit --all --kind token --json
    """
    wanted: dict[str, Any] = {
        **filters,
        "subject": subject,
        "since": since and read_past("--since", since),
        "until": until and read_past("--until", until),
        "everywhere": everywhere,
    }
    with open_book() as book:
        changes = gather(
            lambda place, most: book.audit.list(cursor=place, limit=most, **wanted), None, limit
        )
    if as_json:
        print_json([encode(change) for change in changes])
    elif changes:
        head = ("AT", "BY", "ACTION", "SUBJECT", "CHANGED")
        print_table(head, [_row(change) for change in changes], shrinks=3)
        if changes.next_cursor is not None:
            click.echo("note: there are more; use --limit or --until", err=True)
    else:
        click.echo("no matching changes")


def _row(change: Change) -> tuple[str, ...]:
    at = f"{change.at.astimezone():%Y-%m-%d %H:%M:%S}"
    subject = f"{change.kind} {change.subject}"
    return at, cut(change.by or "-", 16), change.action, subject, _words(change)


def _words(change: Change) -> str:
    """The changed fields, or all of them."""
    before, after = change.before or {}, change.after or {}
    if change.kind == "declaration":
        return ", ".join(f"{number:,} {done}" for done, number in after.items())
    if change.before is None or change.after is None:
        return ", ".join(before or after)
    return ", ".join(
        f"{key}: {_short(before.get(key))} → {_short(after.get(key))}"
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ) or ", ".join(after)


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 24)

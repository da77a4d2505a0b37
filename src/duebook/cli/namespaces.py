"""The commands about namespaces: ls, limit, free, keep, recount."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from duebook.cli.bulk import agreed
from duebook.cli.commands import group
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table, wrapped
from duebook.errors import counted
from duebook.model.access import EVERYWHERE
from duebook.model.codec import encode
from duebook.model.history import read_keep
from duebook.settings import RETENTION
from duebook.timetext import parse_duration

if TYPE_CHECKING:
    from datetime import timedelta

    from duebook.client import Client
    from duebook.model.quota import NamespaceUse

__all__ = ["namespace_group"]


@group("namespace")
def namespace_group() -> None:
    """List namespaces, set their quotas and how long runs are kept."""


@namespace_group.command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List the namespaces that have schedules, a quota or a keep."""
    with open_book() as book:
        uses = book.namespaces.list()
    if as_json:
        print_json([encode(use) for use in uses])
    elif uses:
        head = ("NAMESPACE", "SCHEDULES", "BYTES", "FIRES/MIN", "PAYLOAD", "PRIORITY", "KEEP")
        print_table(head, [_row(use) for use in uses], shrinks=0)
    else:
        click.echo("no namespaces have schedules, a quota or a keep")


@namespace_group.command("limit")
@click.argument("name")
@click.option("--schedules", type=int, metavar="N", help="At most N schedules.")
@click.option(
    "--fires-per-minute", type=float, metavar="N", help="At most N due times a minute on average."
)
@click.option(
    "--payload-bytes", type=int, metavar="N", help="At most N bytes in a payload, as JSON."
)
@click.option(
    "--definition-bytes", type=int, metavar="N", help="At most N bytes in all definitions, as JSON."
)
@click.option(
    "--max-priority", type=int, metavar="N", help="The highest priority of schedules and runs."
)
@json_option
def limit_command(name: str, as_json: bool, **limits: Any) -> None:
    """Set the quota of a namespace; replaces its former quota.

    NAME is a namespace, or '*' for all that have no such limit of their own.
    Existing schedules stay. The rate of a schedule is its average over the next
    hundred due times.

    \b
    Examples:
      duebook namespace limit shop --schedules 500 --fires-per-minute 60
      duebook namespace limit shop --payload-bytes 65536 --max-priority 10
      duebook namespace limit '*' --definition-bytes 100000000
    """
    if not any(value is not None for value in limits.values()):
        raise click.UsageError(
            "give --schedules, --fires-per-minute, --payload-bytes, --definition-bytes or "
            f"--max-priority; to remove the quota: duebook namespace free {shlex.quote(name)}"
        )
    with open_book(create=True) as book:
        use = book.namespaces.limit(name, **limits)
    if as_json:
        print_json(encode(use))
        return
    click.echo(wrapped(f"limited {_whom(name)}: {', '.join(_limits(use))}"))


def _whom(name: str, what: str = "limit") -> str:
    return f"all namespaces without a {what} of their own" if name == EVERYWHERE else name


def _limits(use: NamespaceUse) -> list[str]:
    quota, everywhere = use.quota, use.quota.namespace == EVERYWHERE
    limits = []
    if quota.schedules is not None:
        most = counted(quota.schedules, "schedule")
        limits.append(f"at most {most}" + ("" if everywhere else f" (has {use.schedules:,})"))
    if quota.fires_per_minute is not None:
        has = f"{use.fires_per_minute or 0:,.4g}"
        limits.append(f"at most {quota.fires_per_minute:,g} due times a minute (has {has})")
    if quota.payload_bytes is not None:
        limits.append(f"payloads of at most {quota.payload_bytes:,} bytes")
    if quota.definition_bytes is not None:
        has = "" if everywhere else f" (has {use.definition_bytes:,})"
        limits.append(f"definitions of at most {quota.definition_bytes:,} bytes{has}")
    if quota.max_priority is not None:
        limits.append(f"a priority of at most {quota.max_priority}")
    return limits


@namespace_group.command("free")
@click.argument("name")
def free_command(name: str) -> None:
    """Remove the quota of a namespace."""
    with open_book() as book:
        book.namespaces.free(name)
    then = "; the built-in limits apply" if name == EVERYWHERE else ""
    click.echo(f"removed the quota of {_whom(name)}{then}")


@namespace_group.command("keep")
@click.argument("name")
@click.argument("length", required=False)
@click.option("--default", "unset", is_flag=True, help="Keep runs as long as the others do.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def keep_command(name: str, length: str | None, unset: bool, yes: bool, as_json: bool) -> None:
    """Set how long a namespace keeps its runs.

    NAME is a namespace, or '*' for all that have no keep of their own; they keep
    runs for 90 days. Older runs are deleted within minutes, with their logs and
    outputs. A schedule can keep its runs longer or shorter (--keep), or only the
    newest (--keep-last).

    \b
    Examples:
      duebook namespace keep shop 30d
      duebook namespace keep '*' 365d
      duebook namespace keep shop --default
    """
    if (length is None) != unset:
        raise click.UsageError("give either a LENGTH, such as 30d, or --default")
    keep = None if length is None else read_keep("LENGTH", length)
    with open_book(create=True) as book:
        if not yes and _shortens(book, name, keep):
            than = length or "the default"
            question = f"delete runs of {_whom(name, 'keep')} that are older than {than}?"
            if not agreed(question):
                click.echo("cancelled; nothing was changed", err=True)
                return
        use = book.namespaces.keep(name, keep)
    if as_json:
        print_json(encode(use))
        return
    click.echo(f"runs of {_whom(name, 'keep')} are kept for {use.keep}")


def _shortens(book: Client, name: str, keep: timedelta | None) -> bool:
    """Whether runs would be deleted that would otherwise stay."""
    known = {use.quota.namespace: parse_duration(use.keep) for use in book.namespaces.list()}
    default = known.get(EVERYWHERE, RETENTION)
    now = known.get(name, default)
    return (default if keep is None else keep) < now


@namespace_group.command("recount")
@click.argument("name")
def recount_command(name: str) -> None:
    """Recount what a namespace holds.

    Needed only when `duebook db check --deep` reports wrong counts. Writers wait
    until it is done.
    """
    with open_book() as book:
        schedules, size = book.namespaces.recount(name)
    click.echo(f"recounted {name}: {counted(schedules, 'schedule')}, {size:,} bytes")


def _row(use: NamespaceUse) -> tuple[str, ...]:
    quota, schedules, fires = use.quota, f"{use.schedules:,}", "-"
    if quota.schedules is not None:
        schedules += f" of {quota.schedules:,}"
    if quota.fires_per_minute is not None:
        fires = f"{use.fires_per_minute or 0:,.4g} of {quota.fires_per_minute:,g}"
    payload = "-" if quota.payload_bytes is None else f"up to {quota.payload_bytes:,} bytes"
    size = f"{use.definition_bytes:,}"
    if quota.definition_bytes is not None:
        size += f" of {quota.definition_bytes:,}"
    priority = "-" if quota.max_priority is None else f"up to {quota.max_priority}"
    return quota.namespace, schedules, size, fires, payload, priority, use.keep

"""The commands about namespaces: ls, limit, free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table, wrapped
from duebook.errors import counted
from duebook.model.forms import namespace_form

if TYPE_CHECKING:
    from duebook.model.quota import NamespaceUse

__all__ = ["namespace_group"]


@click.group("namespace")
def namespace_group() -> None:
    """Look at namespaces, and limit how much they hold."""


@namespace_group.command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List the namespaces that have schedules or a quota."""
    with open_book() as book:
        uses = book.namespaces.list()
    if as_json:
        print_json([namespace_form(use) for use in uses])
    elif uses:
        head = ("NAMESPACE", "SCHEDULES", "FIRES/MIN", "PAYLOAD")
        print_table(head, [_row(use) for use in uses], shrinks=0)
    else:
        click.echo("no namespace has schedules or a quota")


@namespace_group.command("limit")
@click.argument("name")
@click.option("--schedules", type=int, help="Most schedules.")
@click.option("--fires-per-minute", type=float, help="Most due times a minute, in the mean.")
@click.option("--payload-bytes", type=int, help="Most bytes of one payload as JSON.")
@json_option
def limit_command(
    name: str,
    schedules: int | None,
    fires_per_minute: float | None,
    payload_bytes: int | None,
    as_json: bool,
) -> None:
    """Limit a namespace; these limits replace the ones it had.

    What is there already stays. A schedule counts with its mean rate over its
    next hundred due times.

    \b
    Examples:
      duebook namespace limit shop --schedules 500 --fires-per-minute 60
      duebook namespace limit shop --payload-bytes 65536
    """
    if schedules is None and fires_per_minute is None and payload_bytes is None:
        raise click.UsageError(
            "give --schedules, --fires-per-minute or --payload-bytes; to lift the quota: "
            f"duebook namespace free {name}"
        )
    with open_book(create=True) as book:
        use = book.namespaces.limit(name, schedules, fires_per_minute, payload_bytes)
    if as_json:
        print_json(namespace_form(use))
        return
    quota = use.quota
    limits = []
    if quota.schedules is not None:
        most = counted(quota.schedules, "schedule")
        limits.append(f"at most {most} (has {use.schedules:,})")
    if quota.fires_per_minute is not None:
        has = f"{use.fires_per_minute or 0:,.4g}"
        limits.append(f"due at most {quota.fires_per_minute:,g} times a minute (is {has})")
    if quota.payload_bytes is not None:
        limits.append(f"payloads of at most {quota.payload_bytes:,} bytes")
    click.echo(wrapped(f"limited {name}: {', '.join(limits)}"))


@namespace_group.command("free")
@click.argument("name")
def free_command(name: str) -> None:
    """Lift the quota of a namespace."""
    with open_book() as book:
        book.namespaces.free(name)
    click.echo(f"freed {name}: it has no quota")


def _row(use: NamespaceUse) -> tuple[str, ...]:
    quota, schedules, fires = use.quota, f"{use.schedules:,}", "-"
    if quota.schedules is not None:
        schedules += f" of {quota.schedules:,}"
    if quota.fires_per_minute is not None:
        fires = f"{use.fires_per_minute or 0:,.4g} of {quota.fires_per_minute:,g}"
    payload = "-" if quota.payload_bytes is None else f"up to {quota.payload_bytes:,} bytes"
    return quota.namespace, schedules, fires, payload

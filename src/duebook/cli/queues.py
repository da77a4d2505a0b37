"""The commands about queues: ls, limit, free."""

from __future__ import annotations

import click

from duebook.cli.commands import group
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table
from duebook.model.codec import encode

__all__ = ["queue_group"]


@group("queue")
def queue_group() -> None:
    """List queues and limit how many runs they start."""


@queue_group.command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List the queues that have limits or work."""
    with open_book() as book:
        loads = book.queues.list()
    if as_json:
        print_json([encode(load) for load in loads])
    elif loads:
        head = ("QUEUE", "QUEUED", "RUNNING", "CONCURRENCY", "RATE")
        print_table(
            head,
            [
                (
                    load.queue.name,
                    f"{load.queued:,}",
                    f"{load.running:,}",
                    "-" if load.queue.concurrency is None else f"{load.queue.concurrency:,}",
                    "-" if load.queue.rate is None else str(load.queue.rate),
                )
                for load in loads
            ],
            shrinks=0,
        )
    else:
        click.echo("no queues have limits or work")


@queue_group.command("limit")
@click.argument("name")
@click.option(
    "--concurrency", type=int, metavar="N", help="At most N runs at once on all nodes; 0 stops it."
)
@click.option(
    "--rate", metavar="RATE", help="At most this many starts in any period: 10/s, 100/m, 5/10s."
)
def limit_command(name: str, concurrency: int | None, rate: str | None) -> None:
    """Limit a queue; replaces its former limits.

    \b
    Examples:
      duebook queue limit reports --concurrency 4
      duebook queue limit mail --rate 10/s
    """
    if concurrency is None and rate is None:
        raise click.UsageError(
            f"give --concurrency, --rate or both; to remove all limits: duebook queue free {name}"
        )
    with open_book(create=True) as book:
        queue = book.queues.limit(name, concurrency, rate)
    limits = []
    if queue.concurrency is not None:
        limits.append(f"at most {queue.concurrency:,} at once")
    if queue.rate is not None:
        limits.append(f"at most {queue.rate} started")
    click.echo(f"limited {queue.name}: {', '.join(limits)}")


@queue_group.command("free")
@click.argument("name")
def free_command(name: str) -> None:
    """Remove the limits of a queue."""
    with open_book() as book:
        book.queues.free(name)
    click.echo(f"removed the limits of {name}")

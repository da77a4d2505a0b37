"""The command about nodes: nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from duebook.cli.commands import command
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table
from duebook.cli.terminal import show_page, watch_option
from duebook.clock import utc_now
from duebook.model.codec import encode
from duebook.timetext import relative

if TYPE_CHECKING:
    from duebook.model.node import LiveNode

__all__ = ["nodes_command"]

RIGHT: Final = timedelta(seconds=1)
"""A clock that is off by less than this is shown as right."""


@command("nodes")
@watch_option
@json_option
def nodes_command(watch: bool, as_json: bool) -> None:
    """List the running nodes, with their roles, namespaces and clocks."""
    with open_book() as book:

        def render() -> None:
            nodes = book.nodes.list()
            if as_json:
                print_json([encode(node) for node in nodes])
            elif nodes:
                head = ("NODE", "PID", "ROLES", "SERVES", "VERSION", "STARTED", "RUNS", "CLOCK")
                print_table(head, [_row(node) for node in nodes], shrinks=0)
            else:
                click.echo("no node is running; start one: duebook up")

        show_page(render, watch, as_json)


def _row(node: LiveNode) -> tuple[str, ...]:
    roles = ",".join(node.roles) + (" (leader)" if node.leads else "")
    started = relative(node.started_at - utc_now())
    about = (node.node, str(node.pid), roles, _serves(node), node.version)
    return (*about, started, f"{node.running}", _clock(node))


def _serves(node: LiveNode) -> str:
    return ",".join(node.namespaces.to_json()) if "worker" in node.roles else "-"


def _clock(node: LiveNode) -> str:
    if abs(node.clock_ahead) < RIGHT:
        return "right"
    off = abs(node.clock_ahead).total_seconds()
    return f"{off:,.0f} s {'ahead' if node.clock_ahead > timedelta() else 'behind'}"

"""The commands about nodes: nodes, drain, undrain."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from duebook.cli.commands import command
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table
from duebook.cli.terminal import show_page, watch_option
from duebook.clock import utc_now
from duebook.errors import counted, printable
from duebook.model.codec import encode
from duebook.timetext import relative

if TYPE_CHECKING:
    from duebook.model.node import LiveNode

__all__ = ["drain_command", "nodes_command", "undrain_command"]

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


@command("drain")
@click.argument("node")
@click.option("--stop", is_flag=True, help="Stop the node when its last run has finished.")
@json_option
def drain_command(node: str, stop: bool, as_json: bool) -> None:
    """Let a node start no more runs, and finish those it is running.

    NODE is a name, or NAME:PID or an id if several live nodes have that name; see
    duebook nodes. Other nodes take over the queued work. The node continues to
    plan and to serve the dashboard; with --stop it exits once it is idle.

    \b
    Examples:
      duebook drain worker-3
      duebook drain worker-3:4711 --stop
    """
    with open_book() as book:
        found = book.nodes.drain(node, stop)
    if as_json:
        print_json(encode(found))
        return
    then = "; it stops when idle" if stop else ""
    click.echo(f"draining {_named(found)}: {counted(found.running, 'run')} running{then}")
    click.echo(f"undo: duebook undrain {_named(found)}")


@command("undrain")
@click.argument("node")
@json_option
def undrain_command(node: str, as_json: bool) -> None:
    """Let a node that is draining start runs again."""
    with open_book() as book:
        found = book.nodes.undrain(node)
    if as_json:
        print_json(encode(found))
        return
    click.echo(f"{_named(found)} starts runs again")


def _named(node: LiveNode) -> str:
    return printable(f"{node.node}:{node.pid}")


def _row(node: LiveNode) -> tuple[str, ...]:
    roles = ",".join(node.roles) + (" (leader)" if node.leads else "")
    started = relative(node.started_at - utc_now())
    about = (node.node, str(node.pid), roles, _serves(node), node.version)
    return (*about, started, f"{node.running}", _clock(node))


def _serves(node: LiveNode) -> str:
    if "worker" not in node.roles:
        return "-"
    if node.draining_at is not None:
        return "draining, stops" if node.stops_when_idle else "draining"
    return ",".join(node.namespaces.to_json())


def _clock(node: LiveNode) -> str:
    if abs(node.clock_ahead) < RIGHT:
        return "right"
    off = abs(node.clock_ahead).total_seconds()
    return f"{off:,.0f} s {'ahead' if node.clock_ahead > timedelta() else 'behind'}"

"""The commands about the log of events."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json
from duebook.errors import printable
from duebook.model.event import event_form

if TYPE_CHECKING:
    from duebook.model.event import Event

__all__ = ["events_group"]


@click.group("events")
def events_group() -> None:
    """The log of events: what due times, tasks and people told."""


@events_group.command("tail")
@click.argument("topic", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes.")
@click.option("--after", type=click.IntRange(0), metavar="POSITION", help="From there on.")
@click.option("--since", metavar="INSTANT", help="What was written then or later.")
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=20, show_default=True)
@json_option
def tail_command(
    topic: str | None,
    follow: bool,
    after: int | None,
    since: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show the latest events, of all topics or of TOPIC; or those from a place on.

    With --follow and --json one object per line.
    """
    with open_book() as book:
        if after is None and since is None:
            events = book.events.latest(topic, limit)
        else:
            events = book.events.list(topic, after, since, limit)
        if follow:
            place = events[-1].position if events else book.events.position()
            for event in events:
                _print(event, as_json)
            for event in book.events.tail(topic, after=place, pause=time.sleep):
                _print(event, as_json)
        if as_json:
            print_json([event_form(event) for event in events])
            return
        for event in events:
            _print(event, as_json)
        if not events:
            click.echo("no events")


def _print(event: Event, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(event_form(event), ensure_ascii=False))
        return
    data = json.dumps(event.data, ensure_ascii=False)
    line = f"{event.position} {event.at:%Y-%m-%dT%H:%M:%SZ} {event.topic} {event.type}"
    click.echo(printable(f"{line} {event.key} {data}"))

"""The commands about the log of events."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from duebook.cli.arguments import read_pair
from duebook.cli.filters import gather, tell_more
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table, when
from duebook.clock import utc_now
from duebook.errors import counted, printable
from duebook.model.codec import encode
from duebook.model.secret import show_payload
from duebook.model.sink import ATTEMPTS
from duebook.timetext import relative

if TYPE_CHECKING:
    from duebook.model.consumer import DeadLetter, Partition
    from duebook.model.event import Event

__all__ = ["events_group"]

OWNER: Final = 18
"""Characters of an owner's id that a table shows."""


@click.group("events")
def events_group() -> None:
    """The log of events: what due times, tasks and people told."""


@events_group.command("tail")
@click.argument("topic", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes.")
@click.option("--after", type=click.IntRange(0), metavar="POSITION", help="From there on.")
@click.option("--since", metavar="INSTANT", help="What was written then or later.")
@click.option("--type", "type_", metavar="TEXT", help="Of this type only.")
@click.option("--key", metavar="TEXT", help="Of this key only.")
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=20, show_default=True)
@json_option
def tail_command(
    topic: str | None,
    follow: bool,
    after: int | None,
    since: str | None,
    type_: str | None,
    key: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show the latest events, of all topics or of TOPIC; or those from a place on.

    With --follow and --json one object per line. What is secret in the data, by its name, is
    hidden; those who receive the events get it.
    """
    with open_book() as book:
        end = book.events.position() if follow else 0
        if after is None and since is None:
            events = book.events.latest(topic, limit, type=type_, key=key)
        else:
            events = book.events.list(topic, after, since, limit, type=type_, key=key)
        if follow:
            place = events[-1].position if events else max(end, after or 0)
            for event in events:
                _print(event, as_json)
            for event in book.events.tail(topic, place, None, time.sleep, type=type_, key=key):
                _print(event, as_json)
        if as_json:
            print_json([encode(event) for event in events])
            return
        for event in events:
            _print(event, as_json)
        if not events:
            click.echo("no events")


@events_group.command("topics")
@json_option
def topics_command(as_json: bool) -> None:
    """List the topics at the end of the log: its last 50,000 positions."""
    with open_book() as book:
        topics = book.events.topics()
        if as_json:
            print_json([encode(topic) for topic in topics])
        elif not topics:
            click.echo("no events")
        else:
            rows = [(one.topic, f"{one.events:,}", when(one.at)) for one in topics]
            print_table(("TOPIC", "EVENTS", "LATEST"), rows, shrinks=0)


@events_group.command("groups")
@click.argument("name", required=False)
@json_option
def groups_command(name: str | None, as_json: bool) -> None:
    """List who reads the log, groups and sinks, and how far each is behind; or the partitions of
    NAME."""
    with open_book() as book:
        if name is not None:
            _print_partitions(book.events.partitions(name), as_json)
            return
        lags = book.events.lags()
        if as_json:
            print_json([lag._asdict() for lag in lags])
        elif not lags:
            click.echo("nobody reads the log")
        else:
            rows = [
                (lag.consumer, lag.kind, str(lag.behind), str(lag.failing), str(lag.dead))
                for lag in lags
            ]
            print_table(("NAME", "KIND", "BEHIND", "FAILING", "DEAD LETTERS"), rows)


@events_group.group("sink")
def sink_group() -> None:
    """Where relays publish events: Kafka, or webhooks."""


@sink_group.command("add")
@click.argument("name")
@click.option("--webhook", metavar="URL", help="CloudEvents as JSON, signed.")
@click.option("--secret", metavar="whsec_…", help="Of the signature. [default: a new one]")
@click.option("--kafka", metavar="HOST:PORT,…", help="Messages with the keys of the events.")
@click.option("--prefix", metavar="TEXT", help="Before each topic, for Kafka.")
@click.option("--config", metavar="NAME=VALUE", multiple=True, help="A setting of librdkafka.")
@click.option("--topic", metavar="NAME", multiple=True, help="[default: all topics]")
@click.option("--start", default="end", show_default=True, help="beginning, end or a position.")
@click.option("--attempts", type=int, default=ATTEMPTS, show_default=True)
@json_option
def sink_add_command(
    name: str,
    webhook: str | None,
    secret: str | None,
    kafka: str | None,
    prefix: str | None,
    config: tuple[str, ...],
    topic: tuple[str, ...],
    start: str,
    attempts: int,
    as_json: bool,
) -> None:
    """Publish events from now on, or change how: the sink goes on where it is.

    \b
    Examples:
      duebook events sink add hooks --webhook https://example.com/hooks
      duebook events sink add bus --kafka kafka-1:9092,kafka-2:9092 --topic orders
    """
    if (webhook is None) == (kafka is None):
        raise click.UsageError("give either --webhook URL or --kafka HOST:PORT")
    place: str | int = int(start) if start.isdecimal() else start
    options: dict[str, Any] = {"url": webhook, "secret": secret}
    kind: Literal["kafka", "webhook"] = "webhook"
    if kafka is not None:
        kind = "kafka"
        settings = dict(read_pair(item, "--config") for item in config)
        options = {"servers": kafka, "prefix": prefix, "config": settings or None}
    given = {key: value for key, value in options.items() if value is not None}
    with open_book(create=True) as book:
        known = {one.name for one in book.events.sinks()}
        sink, made = book.events.add_sink(
            name, kind, topic or None, start=place, attempts=attempts, **given
        )
        if as_json:
            print_json(encode(sink) | ({} if made is None else {"secret": made}))
            return
        click.echo(f"{name} {'was changed' if name in known else 'is published from now on'}")
        if made is not None:
            click.echo(f"its secret, shown once: {made}")


@sink_group.command("ls")
@json_option
def sink_ls_command(as_json: bool) -> None:
    """List the sinks."""
    with open_book() as book:
        sinks = [encode(sink) for sink in book.events.sinks()]
        if as_json:
            print_json(sinks)
        elif not sinks:
            click.echo("no sinks")
        else:
            rows = [
                (
                    sink["name"],
                    sink["kind"],
                    ", ".join(sink["topics"] or ["all topics"]),
                    sink["options"].get("url") or sink["options"].get("servers") or "",
                )
                for sink in sinks
            ]
            print_table(("NAME", "KIND", "TOPICS", "WHERE"), rows)


@events_group.command("rm")
@click.argument("name")
def rm_command(name: str) -> None:
    """Forget the group or sink NAME: where it was, and its dead letters."""
    with open_book() as book:
        book.events.remove(name)
        click.echo(f"{name} is forgotten")


@events_group.command("replay")
@click.argument("name")
@click.option("--after", type=click.IntRange(0), metavar="POSITION", help="From there on.")
@click.option("--since", metavar="INSTANT", help="What was written then or later.")
def replay_command(name: str, after: int | None, since: str | None) -> None:
    """Have the group or sink NAME get again what it got, marked as a replay.

    What is no longer kept does not come again.
    """
    if (after is None) == (since is None):
        raise click.UsageError("give either --after POSITION or --since INSTANT")
    with open_book() as book:
        place, parts = book.events.replay(name, after, since)
        click.echo(f"{name} goes back to position {place}, in {parts} partitions")
        if after is not None and place > after:
            click.echo("what comes before is no longer kept", err=True)


@events_group.command("dlq")
@click.argument("name", required=False)
@click.argument("event", required=False)
@click.option("--replay", is_flag=True, help="Deliver EVENT, or all of NAME, once more.")
@click.option("--drop", is_flag=True, help="Give EVENT, or all of NAME, up.")
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option("--cursor", metavar="TEXT", help="Go on where a list ended.")
@json_option
def dlq_command(
    name: str | None,
    event: str | None,
    replay: bool,
    drop: bool,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List the dead letters, of all or of the group or sink NAME; or decide about them."""
    if (replay or drop) and (name is None or replay == drop):
        raise click.UsageError("give a NAME, and either --replay or --drop")
    with open_book() as book:
        if replay:
            number = book.events.replay_dead(name or "", event)
            click.echo(f"{counted(number, 'dead letter')} will be delivered once more")
        elif drop:
            number = book.events.drop_dead(name or "", event)
            click.echo(f"discarded {counted(number, 'dead letter')}")
        else:
            letters = gather(
                lambda place, most: book.events.dead_letters(name, most, cursor=place),
                cursor,
                limit,
            )
            _print_letters(letters, as_json)
            tell_more(letters)


def _print_letters(letters: list[DeadLetter], as_json: bool) -> None:
    if as_json:
        print_json([encode(letter) for letter in letters])
    elif not letters:
        click.echo("no dead letters")
    else:
        now = utc_now()
        rows = [
            (letter.event.id, letter.consumer, relative(letter.at - now), letter.error)
            for letter in letters
        ]
        print_table(("EVENT", "OF", "SINCE", "WHY"), rows, shrinks=1)


def _print_partitions(partitions: list[Partition], as_json: bool) -> None:
    if as_json:
        print_json([encode(partition) for partition in partitions])
        return
    rows = [
        (
            str(one.part),
            str(one.position),
            str(one.behind),
            (one.owner or "nobody")[:OWNER],
            str(one.held),
            one.error or "",
        )
        for one in partitions
    ]
    print_table(("PARTITION", "POSITION", "BEHIND", "OWNER", "WAITING KEYS", "WHY"), rows)


def _print(event: Event, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(encode(event), ensure_ascii=False))
        return
    data = json.dumps(show_payload(event.data), ensure_ascii=False)
    line = f"{event.position} {event.at:%Y-%m-%dT%H:%M:%SZ} {event.topic} {event.type}"
    click.echo(printable(f"{line} {event.key} {data}"))

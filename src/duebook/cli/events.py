"""The commands about the event log."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from duebook.cli.arguments import read_pair
from duebook.cli.commands import group
from duebook.cli.filters import cursor_option, gather, limit_option, print_more
from duebook.cli.instants import read_past
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table, when
from duebook.clock import utc_now
from duebook.errors import counted, printable
from duebook.model.codec import encode
from duebook.model.hook_url import show_url
from duebook.model.secret import show_payload
from duebook.model.sink import ATTEMPTS
from duebook.timetext import relative

if TYPE_CHECKING:
    from duebook.model.consumer import DeadLetter, Partition
    from duebook.model.event import Event

__all__ = ["events_group"]

OWNER: Final = 18
"""Characters of an owner's id that a table shows."""


_since_option = click.option(
    "--since",
    metavar="TIME",
    help="Only events since then: 1h ago, a date, or a time (in your time zone).",
)


@group("events")
def events_group() -> None:
    """Read and publish the event log."""


@events_group.command("tail")
@click.argument("topic", required=False)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new events until Ctrl-C.")
@click.option(
    "--after", type=click.IntRange(0), metavar="POSITION", help="Only events after this position."
)
@_since_option
@click.option("--type", "type_", metavar="TEXT", help="Only events of this type.")
@click.option("--key", metavar="TEXT", help="Only events with this key.")
@limit_option(20, "How many events to print.")
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
    """Print the latest events, of all topics or of TOPIC.

    With --after or --since, prints the first events from there on. With --follow
    and --json, prints one object per line. Values with secret names are hidden
    here, but not from consumers.

    \b
    Examples:
      duebook events tail orders --follow
      duebook events tail --since 1h
    """
    begin = None if since is None else read_past("--since", since)
    with open_book() as book:
        end = book.events.position() if follow else 0
        if after is None and since is None:
            events = book.events.latest(topic, limit, type=type_, key=key)
        else:
            events = book.events.list(topic, after, begin, limit, type=type_, key=key)
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
    """List the topics of the last 50,000 events."""
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
    """List consumers and how far behind they are.

    Consumers are groups and sinks. With NAME, lists the partitions of one.
    """
    with open_book() as book:
        if name is not None:
            _print_partitions(book.events.partitions(name), as_json)
            return
        lags = book.events.lags()
        if as_json:
            print_json([lag._asdict() for lag in lags])
        elif not lags:
            click.echo("no consumers")
        else:
            rows = [
                (lag.consumer, lag.kind, str(lag.behind), str(lag.failing), str(lag.dead))
                for lag in lags
            ]
            print_table(("NAME", "KIND", "BEHIND", "FAILING", "DEAD LETTERS"), rows)


@events_group.group("sink")
def sink_group() -> None:
    """Publish events to Kafka or webhooks."""


@sink_group.command("add")
@click.argument("name")
@click.option("--webhook", metavar="URL", help="Send CloudEvents as signed JSON to this URL.")
@click.option("--secret", metavar="whsec_…", help="The secret for signatures. [default: a new one]")
@click.option(
    "--kafka", metavar="HOST:PORT,…", help="Send messages to Kafka, with the events' keys."
)
@click.option("--prefix", metavar="TEXT", help="A prefix for Kafka topics.")
@click.option(
    "--config", metavar="NAME=VALUE", multiple=True, help="A librdkafka setting; repeatable."
)
@click.option(
    "--topic", metavar="NAME", multiple=True, help="Only this topic; repeatable. [default: all]"
)
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="Only events of this type, such as run.failed; repeatable. [default: all]",
)
@click.option(
    "--label",
    "labels",
    metavar="NAME=VALUE",
    multiple=True,
    help="Only events of schedules with this label; repeatable.",
)
@click.option(
    "--start",
    default="end",
    show_default=True,
    metavar="PLACE",
    help="Where a new sink starts: beginning, end or a position.",
)
@click.option(
    "--attempts",
    type=int,
    metavar="N",
    default=ATTEMPTS,
    show_default=True,
    help="Delivery attempts, counting the first, before an event becomes a dead letter.",
)
@json_option
def sink_add_command(
    name: str,
    webhook: str | None,
    secret: str | None,
    kafka: str | None,
    prefix: str | None,
    config: tuple[str, ...],
    topic: tuple[str, ...],
    types: tuple[str, ...],
    labels: tuple[str, ...],
    start: str,
    attempts: int,
    as_json: bool,
) -> None:
    """Add or change a sink; an existing one keeps its position.

    \b
    Examples:
      duebook events sink add hooks --webhook https://example.com/hooks
      duebook events sink add failures --webhook https://example.com/failed \\
          --type run.failed --label team=data
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
    labelled = dict(read_pair(label, "--label") for label in labels)
    with open_book(create=True) as book:
        known = {one.name for one in book.events.sinks()}
        sink, made = book.events.add_sink(
            name,
            kind,
            topic or None,
            start=place,
            attempts=attempts,
            types=types or None,
            labels=labelled or None,
            **given,
        )
        if as_json:
            print_json(encode(sink) | ({} if made is None else {"secret": made}))
            return
        click.echo(f"{'changed' if name in known else 'added'} {name}")
        if made is not None:
            click.echo(f"its secret, which is shown only once: {made}")


@sink_group.command("ls")
@json_option
def sink_ls_command(as_json: bool) -> None:
    """List sinks."""
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
                    _filters(sink),
                    _address(sink["options"]),
                )
                for sink in sinks
            ]
            if any(row[3] for row in rows):
                print_table(("NAME", "KIND", "TOPICS", "ONLY", "ADDRESS"), rows)
            else:
                fewer = [(name, kind, topics, place) for name, kind, topics, _, place in rows]
                print_table(("NAME", "KIND", "TOPICS", "ADDRESS"), fewer)


def _filters(sink: dict[str, Any]) -> str:
    """The types and labels that a sink filters by."""
    labels = [f"{name}={value}" for name, value in sink["labels"].items()]
    return ", ".join([*(sink["types"] or []), *labels])


def _address(options: dict[str, Any]) -> str:
    if "urls" in options:
        return counted(len(options["urls"]), "schedule")
    return options.get("url") or options.get("servers") or ""


@events_group.command("ping")
@click.argument("schedule", required=False)
@click.argument("address", metavar="[URL]", required=False)
@click.option("--off", is_flag=True, help="Send no more pings about SCHEDULE.")
@json_option
def ping_command(schedule: str | None, address: str | None, off: bool, as_json: bool) -> None:
    """Ping URL whenever a run of SCHEDULE ends.

    For services such as Healthchecks, which alert people when no ping comes: a
    success is sent to URL, a failure to URL/fail with the error. Without
    arguments, lists the schedules that have a ping. URLs are secret: only their
    hosts are shown.

    \b
    Examples:
      duebook events ping backup https://hc-ping.com/eb095278-…
      duebook events ping backup --off
    """
    if schedule is not None and (address is None) != off:
        raise click.UsageError("give either URL or --off")
    with open_book() as book:
        if schedule is None:
            _print_pings(_pings(book), as_json)
        elif address is None:
            book.events.remove_ping(schedule)
            click.echo(f"no more pings about {schedule}")
        else:
            book.events.set_ping(schedule, address)
            click.echo(f"{schedule} pings {show_url(address)}")


def _pings(book: Any) -> dict[str, str]:
    """The URLs by schedule, without secrets."""
    shown = [encode(sink)["options"] for sink in book.events.sinks() if sink.kind == "ping"]
    return {name: url for options in shown for name, url in options["urls"].items()}


def _print_pings(urls: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json([{"schedule": name, "url": url} for name, url in sorted(urls.items())])
    elif not urls:
        click.echo("no pings")
    else:
        print_table(("SCHEDULE", "URL"), sorted(urls.items()))


@events_group.command("rm")
@click.argument("name")
def rm_command(name: str) -> None:
    """Delete a group or sink, its position and its dead letters."""
    with open_book() as book:
        book.events.remove(name)
        click.echo(f"deleted {name}")


@events_group.command("replay")
@click.argument("name")
@click.option(
    "--after", type=click.IntRange(0), metavar="POSITION", help="Only events after this position."
)
@_since_option
def replay_command(name: str, after: int | None, since: str | None) -> None:
    """Deliver past events again to a group or sink.

    They are marked as a replay. Events past their retention are not delivered.
    """
    if (after is None) == (since is None):
        raise click.UsageError("give either --after POSITION or --since TIME")
    begin = None if since is None else read_past("--since", since)
    with open_book() as book:
        place, parts = book.events.replay(name, after, begin)
        click.echo(f"{name} continues from position {place} in {counted(parts, 'partition')}")
        if after is not None and place > after:
            click.echo("note: earlier events are past their retention", err=True)


@events_group.command("dlq")
@click.argument("name", required=False)
@click.argument("event", required=False)
@click.option("--replay", is_flag=True, help="Deliver EVENT, or all of NAME, again.")
@click.option("--drop", is_flag=True, help="Discard EVENT, or all of NAME.")
@limit_option(100, "How many dead letters to list.")
@cursor_option
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
    """List, replay or discard dead letters.

    Lists those of all consumers, or of the group or sink NAME.
    """
    if (replay or drop) and (name is None or replay == drop):
        raise click.UsageError("give NAME, and either --replay or --drop")
    with open_book() as book:
        if replay:
            number = book.events.replay_dead(name or "", event)
            click.echo(f"{counted(number, 'dead letter')} will be delivered again")
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
            print_more(letters)


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
        print_table(("EVENT", "CONSUMER", "SINCE", "ERROR"), rows, shrinks=1)


def _print_partitions(partitions: list[Partition], as_json: bool) -> None:
    if as_json:
        print_json([encode(partition) for partition in partitions])
        return
    rows = [
        (
            str(one.part),
            str(one.position),
            str(one.behind),
            (one.owner or "-")[:OWNER],
            str(one.held),
            one.error or "",
        )
        for one in partitions
    ]
    print_table(("PARTITION", "POSITION", "BEHIND", "OWNER", "WAITING KEYS", "ERROR"), rows)


def _print(event: Event, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(encode(event), ensure_ascii=False))
        return
    data = json.dumps(show_payload(event.data), ensure_ascii=False)
    line = f"{event.position} {event.at:%Y-%m-%dT%H:%M:%SZ} {event.topic} {event.type}"
    click.echo(printable(f"{line} {event.key} {data}"))

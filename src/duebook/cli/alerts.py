"""The commands about alerts: add, ls, show, rm, test, history, silence."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import click

from duebook.cli.arguments import read_pair
from duebook.cli.commands import group
from duebook.cli.filters import cursor_option, gather, limit_option, print_more
from duebook.cli.instants import read_future
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table, when
from duebook.clock import utc_now
from duebook.errors import Conflict, Invalid, NotFound, counted, shorten
from duebook.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.client import Client
    from duebook.model.alert import Alert, AlertRule, AlertTest

__all__ = ["alert_group"]

WAIT: Final = 20.0
"""Seconds for a test message to arrive."""
POLL: Final = 0.2


@group("alert")
def alert_group() -> None:
    """Send alerts when runs fail, are missed or are late."""


@alert_group.command("add")
@click.argument("name")
@click.option(
    "--on",
    "conditions",
    metavar="CONDITION",
    multiple=True,
    default=("failure", "recovered"),
    help="failure, failures:3, recovered, missed, late:10m, running:1h, slow, no_success:26h or "
    "unattended; repeatable. The default is failure and recovered.",
)
@click.option(
    "--to",
    "channels",
    metavar="CHANNEL",
    multiple=True,
    help="A URL such as https://…, mailto:ops@example.com, pagerduty:KEY or apprise:…, or a JSON "
    "object; repeatable.",
)
@click.option("--schedule", metavar="NAME", help="Only this schedule.")
@click.option(
    "--label", "labels", metavar="NAME=VALUE", multiple=True, help="Only these; repeatable."
)
@click.option(
    "--group",
    "group_",
    metavar="DURATION",
    default="1m",
    show_default=True,
    help="Problems within this time become one message.",
)
@click.option(
    "--repeat",
    metavar="DURATION",
    default="1d",
    show_default=True,
    help="Send a problem that persists again after this time, or never.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000),
    default=20,
    show_default=True,
    help="The most messages about problems in an hour.",
)
@click.option("--disabled", is_flag=True, help="Find no problems for now.")
@click.option("--replace", is_flag=True, help="Replace the rule if it exists.")
@json_option
def add_command(
    name: str,
    conditions: tuple[str, ...],
    channels: tuple[str, ...],
    schedule: str | None,
    labels: tuple[str, ...],
    group_: str,
    repeat: str,
    limit: int,
    disabled: bool,
    replace: bool,
    as_json: bool,
) -> None:
    """Add an alert rule.

    Without --schedule and --label it applies to everything in the namespace. With
    --replace, an existing rule keeps its channels unless you pass --to; everything else
    is set to what you pass, or to the default.

    \b
    Examples:
      duebook alert add ops --to https://hooks.slack.com/services/…
      duebook alert add nightly --schedule backup --on failure --on recovered \\
        --on no_success:26h --to mailto:ops@example.com
      duebook alert add fleet --on unattended --on late:10m --to pagerduty:KEY
    """
    with open_book(create=True) as book:
        former = _former(book, name)
        if former is not None and not replace:
            raise Conflict(
                f"alert rule {name} exists: {_about(former)}; choose another name, or replace it "
                "with --replace"
            )
        rule = book.alerts.save(
            name,
            conditions,
            [_channel(text) for text in channels] or None,
            schedule,
            dict(read_pair(item, "--label") for item in labels) or None,
            group_,
            None if repeat == "never" else repeat,
            limit,
            not disabled,
        )
    if as_json:
        print_json(encode(rule))
        return
    click.echo(f"rule {rule.name}: {_about(rule)}")
    for line in [] if former is None else _changes(former, rule):
        click.echo(line)
    click.echo(f"test it: duebook alert test {rule.name}")


def _former(book: Client, name: str) -> AlertRule | None:
    try:
        return book.alerts.get(name)
    except NotFound:
        return None


def _changes(former: AlertRule, rule: AlertRule) -> Iterator[str]:
    """The changes of a rule that was replaced."""
    before, after = _described(former), _described(rule)
    for what, text in after.items():
        if text != before[what]:
            yield f"  {what}: {before[what]} → {text}"


def _described(rule: AlertRule) -> dict[str, str]:
    return {
        "of": _selected(rule),
        "on": ", ".join(rule.on),
        "to": ", ".join(channel.address for channel in rule.channels),
        "group": rule.group,
        "repeat": rule.repeat or "never",
        "limit": str(rule.limit),
        "enabled": "yes" if rule.enabled else "no",
    }


def _channel(text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        raise Invalid(f"--to {shorten(text, 20)} is not valid JSON") from None


@alert_group.command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List alert rules, with the number of open alerts."""
    with open_book() as book:
        rules = book.alerts.list()
        found = gather(
            lambda place, most: book.alerts.history(most, only_open=True, cursor=place), None, 1_000
        )
    if as_json:
        print_json([encode(rule) for rule in rules])
        return
    if not rules:
        click.echo("no alert rules; add one: duebook alert add NAME --to URL")
        return
    rows = [
        (
            rule.name,
            _state(rule),
            _selected(rule),
            ", ".join(rule.on),
            ", ".join(channel.address for channel in rule.channels),
            str(sum(alert.rule == rule.name for alert in found)),
        )
        for rule in rules
    ]
    print_table(("RULE", "STATE", "OF", "ON", "TO", "OPEN"), rows, shrinks=4, states=1)


@alert_group.command("show")
@click.argument("name")
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show an alert rule and the state of its channels."""
    with open_book() as book:
        rule = book.alerts.get(name)
    if as_json:
        print_json(encode(rule))
        return
    click.echo(f"{rule.name}: {_state(rule)}")
    click.echo(f"of {_selected(rule)}")
    click.echo(f"on {', '.join(rule.on)}")
    again = f"sent again after {rule.repeat}" if rule.repeat else "sent once"
    click.echo(f"grouped within {rule.group}, {again}, at most {rule.limit} messages an hour")
    for channel in rule.channels:
        click.echo(f"to {channel.address} ({channel.name})")
        if channel.unserved:
            click.echo(f"  no live node can send to it: {channel.unserved}")
        if channel.error:
            click.echo(f"  failing: {channel.error}")
        if channel.dead:
            told = counted(channel.dead, "refused message")
            click.echo(f"  {told}; list them: duebook events dlq {channel.name}")


@alert_group.command("rm")
@click.argument("name")
@json_option
def rm_command(name: str, as_json: bool) -> None:
    """Delete an alert rule and close its open alerts.

    No message is sent about these.
    """
    with open_book() as book:
        book.alerts.remove(name)
    if as_json:
        print_json({"name": name})
    else:
        click.echo(f"deleted {name}")


@alert_group.command("silence")
@click.argument("name")
@click.option("--until", metavar="TIME", help="When to send again; 2h: in 2 hours.")
@click.option("--off", is_flag=True, help="End the silence now.")
@json_option
def silence_command(name: str, until: str | None, off: bool, as_json: bool) -> None:
    """Send no messages of a rule for a while.

    Problems are still recorded. One that persists is sent when the silence ends.
    """
    if (until is None) == (not off):
        raise click.UsageError("give either --until TIME or --off")
    moment = None if until is None else read_future("--until", until)
    with open_book() as book:
        rule = book.alerts.silence(name, moment)
    if as_json:
        print_json(encode(rule))
    elif rule.silenced_until is None:
        click.echo(f"{name} sends messages")
    else:
        click.echo(f"{name} is silenced until {when(rule.silenced_until)}")


@alert_group.command("test")
@click.argument("name")
@click.option("--no-wait", is_flag=True, help="Do not wait until it has arrived.")
@json_option
def test_command(name: str, no_wait: bool, as_json: bool) -> None:
    """Send a test message to the channels of a rule.

    Waits until all of them accept it; exit code 1 if one does not.
    Like any alert, it goes through the event log and a node with the role relay.
    """
    with open_book() as book:
        rule = book.alerts.get(name)
        test = book.alerts.test(name)
        if not no_wait:
            test = _wait(book, test)
    if as_json:
        print_json(encode(test))
    else:
        _print_test(rule, test, _NOT_WAITED if no_wait else _WAITING)
    if test.waiting and not no_wait:
        raise SystemExit(1)


def _wait(book: Client, test: AlertTest) -> AlertTest:
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        test = book.alerts.delivery(test.event_id)
        if not test.waiting or len(test.errors) == len(test.waiting):
            return test
        time.sleep(POLL)
    return test


_NOT_WAITED: Final = "queued; duebook alert show says whether it was refused"
_WAITING: Final = (
    "waiting; is a node with the role relay running (duebook up), and does its log say that it "
    "cannot serve the channel?"
)


def _print_test(rule: AlertRule, test: AlertTest, otherwise: str) -> None:
    for channel in rule.channels:
        if channel.name in test.delivered:
            told = "accepted"
        elif why := test.errors.get(channel.name):
            told = f"not accepted: {why}"
        else:
            told = otherwise
        click.echo(f"{channel.address}: {told}")


@alert_group.command("history")
@click.argument("name", required=False)
@click.option("--open", "only_open", is_flag=True, help="Only problems that are not over.")
@limit_option(100, "How many problems to list.")
@cursor_option
@json_option
def history_command(
    name: str | None, only_open: bool, limit: int, cursor: str | None, as_json: bool
) -> None:
    """List the problems that rules have found, newest first.

    Those of all rules, or of the rule NAME.
    """
    with open_book() as book:
        found = gather(
            lambda place, most: book.alerts.history(
                most, rule=name, only_open=only_open, cursor=place
            ),
            cursor,
            limit,
        )
        if name is not None and not found:
            book.alerts.get(name)  # reject a name that never existed
    if as_json:
        print_json([encode(alert) for alert in found])
    elif not found:
        click.echo("no alerts")
    else:
        rows = [
            (
                when(alert.opened_at),
                _alert_state(alert),
                alert.rule,
                alert.title,
                str(alert.count),
            )
            for alert in found
        ]
        print_table(("OPENED", "STATE", "RULE", "PROBLEM", "TIMES"), rows, shrinks=3, states=1)
        for line in dict.fromkeys(line for alert in found for line in _undelivered(alert)):
            click.echo(line)
    print_more(found)


def _alert_state(alert: Alert) -> str:
    """What happened to its last message, and whether it is over."""
    if alert.resolved_at is None:
        return alert.state
    return "over" if alert.state in ("delivered", "silenced") else f"over, {alert.state}"


def _undelivered(alert: Alert) -> Iterator[str]:
    """Why its message has not arrived, and how to fix it."""
    for one in alert.deliveries:
        if one.state == "refused":
            look = f"duebook events dlq {one.channel}"
            yield f"refused by {one.address}: {one.error}"
            yield f"  list what it refused: {look}; send it again: {look} --replay"
        elif one.error is not None:
            yield f"not accepted by {one.address} yet: {one.error}"


def _about(rule: AlertRule) -> str:
    to = ", ".join(channel.address for channel in rule.channels)
    return f"{', '.join(rule.on)} of {_selected(rule)} to {to}"


def _selected(rule: AlertRule) -> str:
    if rule.schedule is not None:
        return rule.schedule
    if not rule.labels:
        return "everything"
    return "schedules with " + ", ".join(f"{name}={text}" for name, text in rule.labels.items())


def _state(rule: AlertRule) -> str:
    if not rule.enabled:
        return "disabled"
    if rule.silenced_until is not None and rule.silenced_until > utc_now():
        return "silenced"
    failing = any(channel.failing or channel.unserved for channel in rule.channels)
    return "failing" if failing else "active"

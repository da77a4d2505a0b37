"""The commands about iCal feeds: create, ls, revoke."""

from __future__ import annotations

import click

from duebook.cli.arguments import read_pair
from duebook.cli.commands import group
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, print_table, when
from duebook.model.codec import encode

__all__ = ["feed_group"]


@group("feed")
def feed_group() -> None:
    """Show due times in calendar programs.

    A feed is a token that opens one iCal file and nothing else.
    """


@feed_group.command("create")
@click.argument("name")
@click.option(
    "--label", "labels", metavar="NAME=VALUE", multiple=True, help="Only these; repeatable."
)
@json_option
def create_command(name: str, labels: tuple[str, ...], as_json: bool) -> None:
    """Create a feed; its token is shown only this once."""
    wanted = dict(read_pair(item, "--label") for item in labels)
    with open_book(create=True) as book:
        feed, token = book.feeds.create(name, wanted)
    if as_json:
        print_json(encode(feed) | {"token": token})
    else:
        click.echo(f"/api/v1/schedules.ics?token={token}")
        click.echo("subscribe to this path of the server; it is shown only this once", err=True)


@feed_group.command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List the feeds."""
    with open_book() as book:
        feeds = book.feeds.list()
    if as_json:
        print_json([encode(feed) for feed in feeds])
    elif feeds:
        rows = [
            (
                feed.name,
                ", ".join(f"{k}={v}" for k, v in feed.labels.items()) or "-",
                when(feed.created_at),
            )
            for feed in feeds
        ]
        print_table(("FEED", "LABELS", "CREATED"), rows)
    else:
        click.echo("no feeds yet; create one: duebook feed create team")


@feed_group.command("revoke")
@click.argument("name")
@json_option
def revoke_command(name: str, as_json: bool) -> None:
    """Revoke a feed; its token opens nothing from now on."""
    with open_book() as book:
        book.feeds.revoke(name)
    if as_json:
        print_json({"name": name})
    else:
        click.echo(f"revoked {name}")

"""The commands about tokens: create, ls, revoke; link and rotate for the local token."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from duebook.api.local_token import find_local_token, local_token_path, rotate_local_token
from duebook.api.login_links import LINK_LASTS, LoginLinks
from duebook.cli.commands import group
from duebook.cli.instants import read_future
from duebook.cli.opening import open_book, settings_of
from duebook.cli.output import json_option, print_json, print_table, wrapped
from duebook.clock import utc_now
from duebook.errors import Invalid, NotFound, Unavailable, printable
from duebook.model.access import EVERYWHERE, Role
from duebook.model.codec import encode
from duebook.timetext import relative

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.access import AccessToken

__all__ = ["token_group"]

ANSWER_WITHIN: Final = 2.0
"""Seconds to wait for a node to accept a connection."""


@group("token")
def token_group() -> None:
    """Create and revoke tokens for remote clients.

    `link` prints a link that logs you in to the dashboard of this machine.
    """


@token_group.command("create")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    required=True,
    help="viewer: read; operator: also act, and schedule tasks; admin: everything.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help='A namespace it may use, or "*" for all; repeatable. [default: the current one]',
)
@click.option(
    "--expires",
    metavar="TIME",
    help="When it expires: in 90d, a date, or a time (in your time zone).",
)
@json_option
def create_command(
    name: str, role: str, namespaces: tuple[str, ...], expires: str | None, as_json: bool
) -> None:
    """Create a token and print its secret, once.

    \b
    Examples:
      duebook token create ci --role operator --namespace shop --expires 90d
      TOKEN=$(duebook token create me --role viewer)
    """
    seen = namespaces or (settings_of().namespace,)
    until = None if expires is None else read_future("--expires", expires)
    with open_book(create=True) as book:
        token, secret = book.tokens.create(name, role, seen, until)
    if as_json:
        print_json({**encode(token), "secret": secret})
        return
    click.echo(
        wrapped(f"created {name}: {role} of {_places(token)}; save its secret, shown only once:"),
        err=True,
    )
    click.echo(secret)


@token_group.command("ls")
@json_option
def ls_command(as_json: bool) -> None:
    """List tokens; their secrets are not stored."""
    with open_book() as book:
        tokens = book.tokens.list()
    if as_json:
        print_json([encode(token) for token in tokens])
    elif tokens:
        now = utc_now()
        rows = [
            (token.name, str(token.role), _state(token, now), _last_use(token, now), _places(token))
            for token in tokens
        ]
        print_table(
            ("TOKEN", "ROLE", "STATE", "LAST USED", "NAMESPACES"), rows, shrinks=0, states=2
        )
    else:
        click.echo("no tokens yet; create one: duebook token create NAME --role viewer")


@token_group.command("revoke")
@click.argument("name")
@json_option
def revoke_command(name: str, as_json: bool) -> None:
    """Revoke a token by name or id."""
    with open_book() as book:
        token = book.tokens.revoke(name)
    if as_json:
        print_json(encode(token))
    else:
        click.echo(f"revoked {token.name}")


@token_group.command("link")
@json_option
def link_command(as_json: bool) -> None:
    """Print a one-time login link for the dashboard.

    The link works once, for a minute. Run this on the machine of the node, as the
    user who started it, in the same directory or with the same --database.

    \b
    Example:
      xdg-open "$(duebook token link)"
    """
    settings = settings_of()
    path = local_token_path(settings.database_url).absolute()
    token = find_local_token(path)
    if token is None:
        raise NotFound(
            f"there is no local token at {path}; duebook up creates it. Run this where the "
            "node was started, or with the same --database"
        )
    links = LoginLinks(path, lambda: token)
    address = settings.url or links.address()
    if address is None:
        raise NotFound(f"no node has served the API from {path.parent} yet; start one: duebook up")
    _refuse_unreachable(address)
    link = f"{address.rstrip('/')}/login?code={links.new_code(token)}"
    if as_json:
        print_json({"url": link, "seconds": LINK_LASTS})
        return
    click.echo("this link works once, for a minute:", err=True)
    click.echo(link)


@token_group.command("rotate")
@json_option
def rotate_command(as_json: bool) -> None:
    """Replace the local token; ends its sessions and links.

    Running nodes use the new token from their next request on. Tokens from
    `create` are not affected; use `revoke` for them.
    """
    path = local_token_path(settings_of().database_url).absolute()
    rotate_local_token(path)
    if as_json:
        print_json({"path": str(path)})
    else:
        click.echo(f"replaced the local token in {printable(str(path))}")


def _refuse_unreachable(address: str) -> None:
    """Raises Invalid or Unavailable for an address that the link could not open."""
    from duebook.remote.server import is_loopback_url

    if not is_loopback_url(address):
        raise Invalid(
            f"{address} is not on this machine, so the local token does not work there; log in "
            "with a token: duebook token create NAME --role admin"
        )
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 80), ANSWER_WITHIN).close()
    except OSError:
        raise Unavailable(
            f"nothing answers at {address}; start a node: duebook up, or name a running one: "
            "duebook token link --url http://127.0.0.1:PORT"
        ) from None


def _places(token: AccessToken) -> str:
    return "all namespaces" if EVERYWHERE in token.namespaces else ", ".join(token.namespaces)


def _state(token: AccessToken, now: datetime) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is None:
        return "active"
    return f"expires {relative(token.expires_at - now)}" if token.opens(now) else "expired"


def _last_use(token: AccessToken, now: datetime) -> str:
    return "never" if token.last_used_at is None else relative(token.last_used_at - now)

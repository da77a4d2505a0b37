"""The command that serves assistants over stdin and stdout; opens the client, and checks what its
token may do."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from duebook.cli.commands import command
from duebook.cli.opening import open_book
from duebook.errors import Invalid
from duebook.model.access import Role
from duebook.remote import RemoteBook

if TYPE_CHECKING:
    from duebook.client import Client

__all__ = ["mcp_command"]


@command("mcp")
@click.option("--read-only", is_flag=True, help="No actions, whatever the token may do.")
def mcp_command(read_only: bool) -> None:
    """Serve an assistant over the Model Context Protocol.

    An assistant starts this command and talks to it over stdin and stdout. It
    can list and explain schedules and runs, read logs, and simulate. With --url
    and the token of an operator it can also trigger, pause, skip, cancel and
    retry; with a database it can only read. Needs the extra mcp.

    \b
    Examples:
      duebook --url https://duebook.example.com mcp
      duebook --database books.db mcp
    """
    try:
        from duebook.cli.mcp_tools import new_server
    except ImportError as error:
        raise Invalid(
            f"the Model Context Protocol's SDK cannot be imported ({error}); "
            "run pip install '.[mcp]' in a copy of the repository"
        ) from error
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    with open_book() as book:
        server = new_server(book, acts=not read_only and _may_act(book))
        server.run("stdio")


def _may_act(book: Client) -> bool:
    """Whether this is a server, and its token allows more than reading."""
    return isinstance(book, RemoteBook) and not book.role() < Role.OPERATOR

"""Opens the API: its address, its users, and whether it has its own process.

It has its own process beside a node that plans or works, but not if the node only serves the API.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from duebook.api.local_token import keep_local_token, local_token_path
from duebook.api.login_links import LoginLinks
from duebook.api.server import DEFAULT_PORT, bind
from duebook.errors import Invalid, Unavailable
from duebook.settings import is_file
from duebook.store.opening import open_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.api.server import ListeningSocket
    from duebook.app import Duebook
    from duebook.cli.web_supervisor import WebProcess
    from duebook.engine.measures import Measures
    from duebook.settings import Settings
    from duebook.store.base import Store

__all__ = ["Web", "open_socket", "open_web", "start_web"]


class Web:
    """The API of this node."""

    def __init__(
        self,
        listening: ListeningSocket,
        entrance: Entrance | None,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self._listening = listening
        self._entrance = entrance
        self._begin = begin

    def start(self, announce: Callable[[str], None]) -> None:
        """Serve, and announce the address."""
        if self._listening.moved:
            announce(f"port {DEFAULT_PORT} is in use; using port {self._listening.port}")
        if self._entrance is None:
            announce(f"open: {self._listening.open_address}/login")
        else:
            self._entrance.announce(self._listening.open_address, announce)
        if (elsewhere := self._listening.elsewhere) is not None:
            announce(f"from other machines: {elsewhere}/login")
        self._begin()


class Entrance:
    """How users of this machine log in: by links, based on the local token at a path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        keep_local_token(path)

    def announce(self, address: str, announce: Callable[[str], None]) -> None:
        """Print a link that works once, but only on a terminal: other output may be stored."""
        token = keep_local_token(self.path)
        links = LoginLinks(self.path, lambda: token)
        try:
            links.announce(address)
            code = links.new_code(token) if sys.stdout.isatty() else None
        except Unavailable as error:  # the disk is full or read-only
            announce(f"open: {address}/login")
            announce(f"log in with the token in {self.path}; login links do not work: {error}")
            return
        if code is not None:
            announce(f"open: {address}/login?code={code}")
            announce(f"this link works once, for a minute; for another: {_link_command()}")
        else:
            announce(f"open: {address}/login")
            announce(f"to log in, print a link: {_link_command()}")


def _link_command() -> str:
    """The command that finds the same token file."""
    database = click.get_current_context().find_root().obj.get("database_url")
    if database is None or not is_file(database):
        return "duebook token link"
    return f"duebook token link --database {shlex.quote(database)}"


def open_socket(settings: Settings) -> ListeningSocket:
    """Bind the socket from the settings; raises as `bind`."""
    return bind(settings.host, int(settings.port) if settings.port else None)


def start_web(
    process: WebProcess,
    book: Duebook,
    settings: Settings,
    listening: ListeningSocket,
    measures: Measures,
    level: int,
) -> Web:
    """The API in its own process, which asks this one about its node.

    On loopback the local token works. Elsewhere, raises Invalid unless there is a token.
    """
    entrance = _entrance(book.store, book.database_url, listening)
    hosts = listening.hosts(settings.allowed_hosts, settings.cors_origins)
    told = {
        "database_url": book.database_url,
        "listen_url": settings.listen_url,
        "cwd": str(Path.cwd()),
        "host": listening.host,
        "port": listening.port,
        "hosts": [sorted(hosts.names), hosts.any_address, sorted(hosts.origins)],
        "max_connections": settings.max_connections,
        "local_token_path": None if entrance is None else str(entrance.path),
        "tasks": book.tasks.to_json(),
        "log_level": level,
        "log_format": settings.log_format,
    }
    answers = {"trouble": book.node_trouble, "measures": measures.to_json}
    process.start(told, answers, measures.restarted_web)
    return Web(listening, entrance)


@contextmanager
def open_web(
    book: Duebook, settings: Settings, listening: ListeningSocket, measures: Measures | None = None
) -> Iterator[Web]:
    """The API in this process, with its own connections; otherwise as `start_web`."""
    from duebook.api.authenticator import authenticator_of
    from duebook.api.limits import limits_for
    from duebook.api.server import Server
    from duebook.web.site import create_site

    store = open_beside(book.store, book.database_url, settings.listen_url)
    try:
        entrance = _entrance(store, book.database_url, listening)
        app = create_site(
            store,
            authenticator_of(store, None if entrance is None else entrance.path),
            tasks=book.tasks,
            measures=None if measures is None else lambda: measures,
            trouble=book.node_trouble,
            hosts=listening.hosts(settings.allowed_hosts, settings.cors_origins),
        )
        with Server(app, listening, limits_for(settings.max_connections)) as server:
            yield Web(listening, entrance, server.start)
    finally:
        store.close()


def _entrance(store: Store, database_url: str, listening: ListeningSocket) -> Entrance | None:
    """None if only stored tokens work; raises Invalid if there are none."""
    if listening.local:
        return Entrance(local_token_path(database_url).absolute())
    _refuse_without_token(store, listening)
    return None


def _refuse_without_token(store: Store, listening: ListeningSocket) -> None:
    tokens, now = store.read(lambda tx: (tx.access.list_tokens(), tx.now))
    if not any(token.opens(now) for token in tokens):
        raise Invalid(
            f"--host {listening.host}: other machines could reach the API, and there are no tokens "
            "yet; create one: duebook token create NAME --role admin"
        )

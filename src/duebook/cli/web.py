"""Opens the API for a node: its place, its own way to the books, and who may come in."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from duebook.api.local_token import keep_local_token, local_token_path
from duebook.api.server import DEFAULT_PORT, bind
from duebook.errors import Invalid
from duebook.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.api.server import Place, Server
    from duebook.app import Duebook
    from duebook.engine.measures import Measures
    from duebook.settings import Settings
    from duebook.store.base import Store

__all__ = ["Web", "open_web", "take_place"]


class Web:
    """The API of this process, which begins with `start`."""

    def __init__(self, server: Server, place: Place, token: str | None) -> None:
        self._server = server
        self._place = place
        self._token = token

    def start(self) -> None:
        """Serve, and say where."""
        if self._place.moved:
            click.echo(f"port {DEFAULT_PORT} is in use; the API is at {self._place.port}")
        entrance = "/login" if self._token is None else f"/login?token={self._token}"
        click.echo(f"open: {self._place.open_address}{entrance}")
        if (elsewhere := self._place.elsewhere) is not None:
            click.echo(f"from other machines: {elsewhere}{entrance}")
        self._server.start()


def take_place(settings: Settings) -> Place:
    """The socket that the settings name, bound; raises as `bind`."""
    return bind(settings.host, int(settings.port) if settings.port else None)


@contextmanager
def open_web(
    book: Duebook, settings: Settings, place: Place, measures: Measures | None
) -> Iterator[Web]:
    """The API with connections of its own: neither it nor the scheduler waits for the other.

    On loopback the local token opens it. Beyond, raises Invalid unless there is a token.
    """
    from duebook.api.authenticator import BookAuthenticator
    from duebook.api.server import Server
    from duebook.web.site import create_site

    store = open_store(book.database_url, settings.listen_url)
    try:
        local = None
        if place.local:
            local = keep_local_token(local_token_path(book.database_url))
        else:
            _refuse_without_token(store, place)
        app = create_site(
            store,
            BookAuthenticator(store, local),
            tasks=book.tasks,
            measures=measures,
            trouble=book.node_trouble,
            hosts=place.hosts(settings.allowed_hosts, settings.cors_origins),
        )
        with Server(app, place) as server:
            yield Web(server, place, local)
    finally:
        store.close()


def _refuse_without_token(store: Store, place: Place) -> None:
    tokens, now = store.read(lambda tx: (tx.list_tokens(), tx.now))
    if not any(token.opens(now) for token in tokens):
        raise Invalid(
            f"--host {place.host}: others could reach the API, and there is no token yet; make one "
            "with: duebook token create NAME --role admin"
        )

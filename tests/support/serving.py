"""A server in this process, on a free port, for the database that a test has at the moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.api.app import create_app
from duebook.api.asking import Services
from duebook.api.server import Server, bind
from duebook.api.watching import Watch
from duebook.store.sqlite import SqliteStore
from duebook.targets.task import Tasks
from tests.support.api import FixedTokens

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Served"]


class Served:
    """One app and one port for all tests; the database is exchanged."""

    def __init__(self, folder: Path) -> None:
        self._first = SqliteStore(folder / "first.db")
        self._app = create_app(self._first, FixedTokens())
        place = bind("127.0.0.1", 0)
        self.url = place.address
        self._server = Server(self._app, place)
        self._server.start()

    def use(self, path: Path) -> SqliteStore:
        """Serve the database of a file from now on."""
        store = SqliteStore(path)
        self._app.state.services = Services(store, Tasks())
        self._app.state.watch = Watch(store)
        return store

    @property
    def open_streams(self) -> int:
        opened: int = self._app.state.streams.open
        return opened

    @property
    def is_answering(self) -> bool:
        """Whether a request is in progress, even one that no client waits for any more."""
        return self._server.is_answering

    def close(self) -> None:
        self._server.close()
        self._first.close()

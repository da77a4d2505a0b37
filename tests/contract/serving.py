"""A server in this process, on a free port, for whichever books a test has at the moment."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import uvicorn

from duebook.api.app import create_app
from duebook.api.asking import Services
from duebook.api.server import bind
from duebook.api.watching import Watch
from duebook.store.sqlite import SqliteStore
from duebook.targets.task import Tasks
from tests.contract.api.conftest import FixedTokens
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Served"]


class Served:
    """One app and one port for all tests; the books change hands."""

    def __init__(self, folder: Path) -> None:
        self._first = SqliteStore(folder / "first.db")
        self._app = create_app(self._first, FixedTokens())
        place = bind("127.0.0.1", 0)
        self.url = place.address
        config = uvicorn.Config(self._app, log_config=None, lifespan="off", ws="none")
        self._uvicorn = uvicorn.Server(config)
        self._socket = place.socket
        self._thread = threading.Thread(
            target=self._uvicorn.run, kwargs={"sockets": [place.socket]}, daemon=True
        )
        self._thread.start()
        eventually(lambda: self._uvicorn.started)

    def use(self, path: Path) -> SqliteStore:
        """Serve the books of a file from now on."""
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
        """Whether a request is under way, also one that nobody waits for any more."""
        return bool(self._uvicorn.server_state.tasks)

    def close(self) -> None:
        self._uvicorn.should_exit = True
        self._thread.join(10)
        self._socket.close()
        self._first.close()

"""The event loop that serves the API: uvicorn's, with Duebook's connections."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from uvicorn import Server

from duebook.api.connections import Connections, HttpConfig

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from duebook.api.app import App
    from duebook.api.limits import Limits

__all__ = ["EventLoop"]


class EventLoop(Server):
    """Checks its connections regularly; other threads may schedule work in it."""

    def __init__(self, app: App, limits: Limits, stop_within: int, backlog: int) -> None:
        self.connections = Connections(limits)
        self._backlog = backlog
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: list[Callable[[], None]] = []
        super().__init__(
            HttpConfig(
                app,
                self.connections,
                log_config=None,
                access_log=False,  # URLs may contain a token
                proxy_headers=False,
                server_header=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=stop_within,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(self._backlog)  # in asyncio, one number sets this and the accept rate
        with self._lock:
            self._loop = asyncio.get_running_loop()
        for work in self._early:
            self._loop.call_soon(work)

    async def on_tick(self, counter: int) -> bool:
        self.connections.look()
        return await super().on_tick(counter)

    @property
    def is_answering(self) -> bool:
        return bool(self.server_state.tasks)

    def call_soon(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self._loop is None:
                self._early.append(work)
                return
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(work)

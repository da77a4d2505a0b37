"""A route to a database that can be cut, silenced, or made to lose the response to a COMMIT; it
knows only enough of the protocol to recognise one."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from psycopg.conninfo import conninfo_to_dict

from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Loss = Literal["", "request", "reply"]

T = TypeVar("T")
COMMIT: Final = b"COMMIT\0"
CHUNK: Final = 65_536


class Link:
    """One connection through the proxy."""

    def __init__(self, client: asyncio.StreamWriter) -> None:
        self.client = client
        self.server: asyncio.StreamWriter | None = None
        self.audible = asyncio.Event()
        self.audible.set()
        self.loses_reply = False

    def abort(self) -> None:
        for side in filter(None, (self.client, self.server)):
            side.transport.abort()


class Proxy:
    """Listens on its own port in its own thread.

    `lose` is called at each COMMIT and returns what to lose: nothing, the request, or the response.
    """

    def __init__(self, url: str, lose: Callable[[], Loss] | None = None) -> None:
        self._to = conninfo_to_dict(url)
        self.lose: Callable[[], Loss] = lose or (lambda: "")
        self.lost = 0
        """how many COMMITs or responses to them it has lost"""
        self._silent = False
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._ask(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        """The URL of the database through this proxy."""
        there = {**self._to, "host": "127.0.0.1", "port": self.port, "connect_timeout": None}
        return "postgresql://?" + "&".join(
            f"{name}={value}" for name, value in there.items() if value is not None
        )

    def cut(self) -> None:
        """End every connection, as when a firewall is restarted."""
        self._loop.call_soon_threadsafe(self._each, Link.abort)

    def silence(self) -> None:
        """Connections stay and new ones are accepted, but nothing passes: a black hole."""
        self._loop.call_soon_threadsafe(self._set_silent, True)

    def let_through(self) -> None:
        """Let held-up data pass, late."""
        self._loop.call_soon_threadsafe(self._set_silent, False)

    def forget(self) -> None:
        """Silence the present connections forever; new ones work."""
        self._loop.call_soon_threadsafe(self._each, lambda link: link.audible.clear())
        self._loop.call_soon_threadsafe(self._links.clear)

    def close(self) -> None:
        self._ask(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ask(self, work: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def _each(self, do: Callable[[Link], None]) -> None:
        for link in self._links:
            do(link)

    def _set_silent(self, silent: bool) -> None:
        self._silent = silent
        self._each(lambda link: link.audible.clear() if silent else link.audible.set())

    async def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        link = Link(client)
        if self._silent:
            link.audible.clear()
        self._links.add(link)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._connect(link, reader)
        finally:
            link.abort()
            self._links.discard(link)
            self._tasks.discard(task)

    async def _connect(self, link: Link, from_client: asyncio.StreamReader) -> None:
        await link.audible.wait()
        host, port = str(self._to["host"]), int(str(self._to["port"]))
        from_server, link.server = await asyncio.open_connection(host, port)
        pumps = [
            asyncio.ensure_future(self._requests(link, from_client, link.server)),
            asyncio.ensure_future(self._replies(link, from_server)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _requests(
        self, link: Link, from_client: asyncio.StreamReader, server: asyncio.StreamWriter
    ) -> None:
        while chunk := await from_client.read(CHUNK):
            await link.audible.wait()
            loss = self.lose() if COMMIT in chunk else ""
            self.lost += bool(loss)
            if loss == "request":
                return
            link.loses_reply = loss == "reply"
            server.write(chunk)
            await server.drain()

    async def _replies(self, link: Link, from_server: asyncio.StreamReader) -> None:
        while chunk := await from_server.read(CHUNK):
            await link.audible.wait()
            if link.loses_reply:
                return
            link.client.write(chunk)
            await link.client.drain()

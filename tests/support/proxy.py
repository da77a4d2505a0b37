"""A TCP proxy for tests: passes bytes on, swallows them, or resets connections; ignores the
protocol.

`pass` passes everything on. `blackhole` keeps connections open, and accepts new ones, but passes
nothing on in either direction: bytes are acknowledged and dropped, so TCP's own timeouts notice
nothing. `reset` ends every connection, new ones too, with RST. `forget()` turns the connections
that are open into black holes, like a firewall that lost its table; new connections pass.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from contextlib import suppress
from typing import Final, Literal

Mode = Literal["pass", "blackhole", "reset"]
LOOK: Final = 0.01
"""Seconds within which a change of mode takes effect."""
_RST: Final = struct.pack("ii", 1, 0)


class Proxy:
    """Listens on its own port of 127.0.0.1; `mode` may be set at any time."""

    def __init__(self, port: int, mode: Mode = "pass") -> None:
        self.target = port
        self.mode: Mode = mode
        self.accepted = 0
        self._forgotten = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join(10)
        self._server.close()

    def forget(self) -> None:
        self._forgotten = self.accepted

    def _accept(self) -> None:
        self._server.settimeout(LOOK)
        while not self._closing.is_set():
            with suppress(TimeoutError):
                client, _ = self._server.accept()
                self.accepted += 1
                words = (client, self.accepted)
                thread = threading.Thread(target=self._carry, args=words, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _carry(self, client: socket.socket, number: int) -> None:
        """Serve one connection until either side ends it; connects to the server once the mode
        allows it."""
        with client:
            while self.mode == "blackhole" and not self._closing.wait(LOOK):
                pass
            if self.mode == "reset" or self._closing.is_set():
                _reset(client)
                return
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as server:
                self._hand_on(client, server, number)

    def _hand_on(self, client: socket.socket, server: socket.socket, number: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            while not self._closing.is_set():
                if self.mode == "reset":
                    _reset(client, server)
                    return
                for key, _ in selector.select(LOOK):
                    source, goal = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    if not (data := source.recv(65_536)):
                        return
                    if self.mode == "pass" and number > self._forgotten:
                        goal.sendall(data)


def _reset(*ends: socket.socket) -> None:
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
        end.close()

"""A TCP proxy for tests: passes bytes on, swallows them, or resets connections; knows no protocol.

`pass` hands everything on. `blackhole` keeps connections open, and takes new ones, but hands
nothing on in either direction: bytes are acknowledged and gone, so TCP's own timeouts see nothing.
`reset` ends every connection, new ones too, with RST. `forget()` makes a black hole of what is open
by then, as a firewall does that lost its table; new connections pass.
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
"""How soon a change of mode is seen, in seconds."""
_RST: Final = struct.pack("ii", 1, 0)


class Proxy:
    """Listens on a port of 127.0.0.1 of its own; `mode` may be set at any time."""

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
        """One connection, until either side ends it; the server is called when it may be."""
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

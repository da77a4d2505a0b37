"""Serves the API from a thread with its own event loop, beside a node or alone."""

from __future__ import annotations

import logging
import socket
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from duebook.api.origins import Hosts, is_loopback
from duebook.closing import Closing
from duebook.errors import Invalid, Unavailable
from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.api.app import App
    from duebook.api.limits import Limits

__all__ = ["DEFAULT_PORT", "ListeningSocket", "Server", "bind"]

log = logging.getLogger(__name__)

DEFAULT_PORT: Final = 7420
TRIED: Final = 20
"""Ports that are tried, starting with the default one, if none was requested."""
STOP_WITHIN: Final = 5
"""Seconds that running requests have when the server stops."""
BACKLOG: Final = 512


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """A bound socket, with its address."""

    socket: socket.socket
    host: str
    port: int
    moved: bool = False
    """whether the default port was taken"""

    @property
    def address(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{self.port}"

    @property
    def open_address(self) -> str:
        """A URL that a browser on this machine can open."""
        everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104
        return replace(self, host=everywhere.get(self.host, self.host)).address

    @property
    def elsewhere(self) -> str | None:
        """A URL for other machines, if the socket is bound to all addresses of this one."""
        return None if self.open_address == self.address else replace(self, host=_machine()).address

    @property
    def local(self) -> bool:
        return is_loopback(self.host)

    def hosts(self, names: str, origins: str) -> Hosts:
        """The accepted host names; `names` and `origins` are the settings."""
        own = {"localhost", self.host.lower()} if self.local else {"localhost", _machine()}
        return Hosts(frozenset(own | _words(names)), not self.local, frozenset(_words(origins)))


def bind(host: str, port: int | None) -> ListeningSocket:
    """A socket at an address; without a port, the default one, or the next free one.

    Port 0 means any free one. Raises Invalid for an invalid address, and Unavailable for a port
    that is taken.
    """
    if port is not None:
        return _bind(host, port)
    for candidate in range(DEFAULT_PORT, DEFAULT_PORT + TRIED):
        try:
            return _bind(host, candidate, candidate != DEFAULT_PORT)
        except Unavailable:
            continue
    raise Unavailable(
        f"ports {DEFAULT_PORT} to {DEFAULT_PORT + TRIED - 1} of {host} are in use; choose "
        "another with --port"
    )


def _bind(host: str, port: int, moved: bool = False) -> ListeningSocket:
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise Invalid(f'--host "{host}" is not an address of this machine: {error}') from None
    opened = socket.socket(family, kind, number)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise Unavailable(
            f"port {port} of {host} cannot be used: {error.strerror}; choose another --port, or "
            "0 for any free one"
        ) from error
    return ListeningSocket(opened, host, opened.getsockname()[1], moved)


class Server(Closing):
    """Serves requests from `start` until `close`, within `limits`."""

    def __init__(self, app: App, listening: ListeningSocket, limits: Limits | None = None) -> None:
        from duebook.api.event_loop import EventLoop
        from duebook.api.limits import Limits

        limits = limits or Limits()
        app.state.streams.connections = limits.connections
        self._app = app
        self._listening = listening
        self._uvicorn = EventLoop(app, limits, STOP_WITHIN, BACKLOG)
        self._thread = threading.Thread(target=self._run, name="duebook-web", daemon=True)
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Returns at once: early connections wait in the socket's queue until the loop runs."""
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._uvicorn.run(sockets=[self._listening.socket])
        except BaseException as error:
            log.exception("the web server has stopped")
            self._failure = error

    def call_soon(self, work: Callable[[], None]) -> None:
        """Run it in the event loop, once that runs; does nothing if the loop has ended."""
        self._uvicorn.call_soon(work)

    @property
    def is_answering(self) -> bool:
        """Whether a request is in progress, even if its client is gone."""
        return self._uvicorn.is_answering

    @property
    def refused(self) -> dict[str, int]:
        """How many connections were rejected or closed, by reason."""
        return dict(self._uvicorn.connections.counts)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Lets running requests finish; streams are told to end."""
        self._app.state.streams.ending = True
        self._uvicorn.should_exit = True
        if self._thread.is_alive():
            self._thread.join(STOP_WITHIN + 5)
        self._listening.socket.close()


def _machine() -> str:
    return socket.gethostname().lower()


def _words(text: str) -> set[str]:
    return {word.strip().lower() for word in text.split(",") if word.strip()}

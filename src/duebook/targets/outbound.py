"""Connections of one request: each wait ends when the run is stopped or its time is over, and only
addresses that were checked are connected to. The only place that opens sockets to other hosts."""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import ssl
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import httpcore2

from duebook.lazy_dataclasses import dataclass
from duebook.targets.addresses import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duebook.targets.addresses import Network
    from duebook.targets.processes import Stop

    Endpoint = tuple[int, tuple[Any, ...]]
    """family and address of a socket"""
    Resolver = Callable[[str, int], list[Endpoint]]

__all__ = ["Interrupted", "OutboundConnections", "Refused", "resolve"]

T = TypeVar("T")

CONNECT_WITHIN: Final = 10.0
"""Timeout in seconds for each address of a host."""


class Interrupted(Exception):
    """The run was asked to stop, or its time is over (`timeout`)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Refused(Exception):
    """A host without any address that may be connected to."""


def resolve(host: str, port: int) -> list[Endpoint]:
    """The addresses of a host, as the machine resolves it; raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(int(family), address) for family, _, _, _, address in found]


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """How much time is left."""

    stop: Stop
    deadline: float
    """by time.monotonic()"""

    def wait(self, fd: int, events: int, within: float = math.inf) -> bool:
        """Wait until `fd` is ready; False if it is not after `within` seconds. Raises
        Interrupted."""
        left = self.check()
        poll = select.poll()
        poll.register(fd, events)
        poll.register(self.stop, select.POLLIN)
        ready = poll.poll(min(left, within) * 1000)
        if not ready and left <= within:
            raise Interrupted("timeout")
        self.check()
        return bool(ready)

    def check(self) -> float:
        """The seconds that are left; raises Interrupted if there are none."""
        if self.stop.reason is not None:
            raise Interrupted(self.stop.reason)
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Interrupted("timeout")
        return left


class OutboundConnections(httpcore2.NetworkBackend):
    """Connects only to checked addresses, for one request with its `stop` and `deadline`."""

    def __init__(
        self,
        stop: Stop,
        deadline: float,
        allowed: tuple[Network, ...] = (),
        resolver: Resolver = resolve,
    ) -> None:
        self._time_left = TimeLeft(stop, deadline)
        self._allowed = allowed
        self._resolver = resolver

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the deadline is ours
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore2.NetworkStream:
        """The first address that answers; raises Refused, Interrupted and ConnectError."""
        refused, failed = [], []
        for family, address in self._resolve(host, port):
            if why := refusal(address[0].partition("%")[0], self._allowed):
                refused.append(f"{address[0]} is {why}")
                continue
            try:
                return _Stream(self._connect(family, address), self._time_left)
            except OSError as error:
                failed.append(f"{address[0]}: {error.strerror or error}")
        if failed or not refused:
            raise httpcore2.ConnectError("; ".join(failed) or "the name has no address")
        raise Refused("; ".join(refused))

    def _resolve(self, host: str, port: int) -> list[Endpoint]:
        """In a thread, as there is no other way to abandon a resolver that does not answer."""
        answers: list[list[Endpoint] | OSError] = []
        here, there = socket.socketpair()

        def ask() -> None:
            with there:
                try:
                    answers.append(self._resolver(host, port))
                except (OSError, UnicodeError) as error:
                    answers.append(error if isinstance(error, OSError) else OSError(str(error)))

        with here:
            threading.Thread(target=ask, name="duebook-resolver", daemon=True).start()
            self._time_left.wait(here.fileno(), select.POLLIN)
        answer = answers[0]
        if isinstance(answer, OSError):
            raise httpcore2.ConnectError(answer.strerror or str(answer))
        return list(dict.fromkeys(answer))

    def _connect(self, family: int, address: tuple[Any, ...]) -> socket.socket:
        with contextlib.ExitStack() as undo:
            sock = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.connect(address)
            if not self._time_left.wait(sock.fileno(), select.POLLOUT, CONNECT_WITHIN):
                raise TimeoutError(f"no response within {CONNECT_WITHIN:.0f} s")
            if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(code, os.strerror(code))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            undo.pop_all()
            return sock


class _Stream(httpcore2.NetworkStream):
    """A non-blocking socket."""

    def __init__(self, sock: socket.socket, time_left: TimeLeft) -> None:
        self._sock = sock
        self._time_left = time_left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        try:
            return self._repeat(partial(self._sock.recv, max_bytes), select.POLLIN)
        except OSError as error:
            raise httpcore2.ReadError(error.strerror or str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        rest = memoryview(buffer)
        try:
            while rest:
                sent = self._repeat(partial(self._sock.send, rest), select.POLLOUT)
                rest = rest[sent:]
        except OSError as error:
            raise httpcore2.WriteError(error.strerror or str(error)) from error

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore2.NetworkStream:
        """Raises ssl.SSLError unchanged, as it tells what is wrong with a certificate."""
        with contextlib.ExitStack() as undo:
            undo.enter_context(self._sock)
            try:
                sock = ssl_context.wrap_socket(
                    self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
                )
                secure = _Stream(undo.enter_context(sock), self._time_left)
                secure._repeat(sock.do_handshake, select.POLLIN)
            except ssl.SSLError:
                raise
            except (OSError, ValueError) as error:  # ValueError: no name for a certificate
                raise httpcore2.ConnectError(str(error)) from error
            undo.pop_all()
            return secure

    def close(self) -> None:
        self._sock.close()

    def _repeat(self, work: Callable[[], T], events: int) -> T:
        """Do `work` as soon as it needs no waiting.

        A peer that always has data must not keep us longer than a silent one.
        """
        while True:
            self._time_left.check()
            try:
                return work()
            except ssl.SSLWantReadError:
                self._time_left.wait(self._sock.fileno(), select.POLLIN)
            except ssl.SSLWantWriteError:
                self._time_left.wait(self._sock.fileno(), select.POLLOUT)
            except BlockingIOError:
                self._time_left.wait(self._sock.fileno(), events)

"""Sends Duebook's own requests, with the same checks as http targets; follows no redirect."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import httpcore2
import httpx2

from duebook.errors import Invalid, Unavailable, shorten
from duebook.targets.addresses import refusal
from duebook.targets.http import Failed, read_url, send, verified
from duebook.targets.outbound import Interrupted, OutboundConnections, resolve
from duebook.targets.processes import Stop
from duebook.version import __version__

if TYPE_CHECKING:
    from duebook.targets.addresses import Network
    from duebook.targets.outbound import Resolver

__all__ = ["Poster"]

TIMEOUT: Final = 30.0


class Poster:
    """Posts to addresses that are public, or in `allowed`; `stop` interrupts a request."""

    def __init__(
        self,
        allowed: tuple[Network, ...] = (),
        timeout: float = TIMEOUT,
        resolver: Resolver = resolve,
    ) -> None:
        self._allowed = allowed
        self._timeout = timeout
        self._resolver = resolver
        self._stop = Stop()

    def stop(self) -> None:
        self._stop.set("shutdown")

    def __call__(self, url: str, headers: dict[str, str], body: bytes) -> int:
        """The status of the response; raises Unavailable if there is none."""
        return self.fetch(url, headers, body)[0]

    def refuse(self, servers: str) -> None:
        """Raises Invalid when one of `HOST:PORT,HOST:PORT` has an address that is not allowed.

        For programs that connect by themselves: a name may resolve to another address a moment
        later.
        """
        for server in filter(None, (part.strip() for part in servers.split(","))):
            host, port = _host_of(server)
            try:
                found = self._resolver(host, port)
            except OSError:
                continue  # reported when the connection fails
            for _, address in found:
                if why := refusal(address[0].partition("%")[0], self._allowed):
                    told = f"no connection to {shorten(host)}: {address[0]} is {why}"
                    raise Invalid(f"{told}; the setting http_allow can allow it")

    def fetch(self, url: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """The status and body of the response; raises Unavailable if there is none."""
        ours = {
            "User-Agent": f"duebook/{__version__}",
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        deadline = time.monotonic() + self._timeout
        try:
            request = httpx2.Request("POST", read_url(url), headers=ours | headers, content=body)
            with httpcore2.ConnectionPool(
                ssl_context=verified(),
                network_backend=OutboundConnections(
                    self._stop, deadline, self._allowed, self._resolver
                ),
                max_keepalive_connections=0,
            ) as pool:
                answer = send(pool, request)
                return answer.status, answer.body
        except Interrupted as error:
            told = "it did not respond in time" if error.reason == "timeout" else error.reason
            raise Unavailable(told) from None
        except Failed as error:
            raise Unavailable(str(error)) from None


def _host_of(server: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `[::1]:9092` or `PLAINTEXT://HOST:PORT`."""
    place = server.rpartition("://")[2]
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdecimal() or (":" in host and not host.startswith("[")):
        host, port = place, "9092"
    return host.strip("[]"), int(port[:5])

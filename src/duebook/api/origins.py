"""Which Host and Origin headers are accepted, so that other sites' pages cannot use the API."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from duebook.lazy_dataclasses import dataclass

__all__ = ["Hosts", "is_loopback"]

_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(:[0-9]{1,5})?", re.ASCII)
"""A name or an address, and a port."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The host names of a server.

    A page of another site can make a browser send requests here only under a name of its own, so an
    unknown name is rejected. An address is not a name: with `any_address` every one is accepted.
    """

    names: frozenset[str] = frozenset({"localhost"})
    any_address: bool = False
    """whether the server is bound beyond loopback, where any of its addresses may be used"""
    origins: frozenset[str] = frozenset()
    """other sites whose pages may use the API"""

    def knows(self, host: str | None) -> bool:
        """Whether a Host header names this server."""
        name = _host_name(host or "")
        return name in self.names or is_loopback(name) or (self.any_address and _is_address(name))

    def owns(self, origin: str, host: str) -> bool:
        """Whether a page is from the server that was addressed as `host`."""
        return origin.lower() in {f"http://{host}".lower(), f"https://{host}".lower()}

    def trusts(self, origin: str, host: str) -> bool:
        """Whether a page may use the server: its own pages, and those of allowed sites."""
        return origin in self.origins or self.owns(origin, host)


def is_loopback(name: str) -> bool:
    """Whether an address, or the name `localhost`, always refers to this machine."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host_name(host: str) -> str:
    """Without the port; an IPv6 address without its brackets. Empty if it is not a host."""
    found = _HOST.fullmatch(host.lower())
    return "" if found is None else found[1].strip("[]")

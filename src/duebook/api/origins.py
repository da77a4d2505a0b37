"""Which Host and Origin headers are ours: what keeps other sites' pages from using the API."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

__all__ = ["Hosts", "is_loopback"]


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names by which a server may be called.

    A page of another site can make a browser send requests here only under a name of its own, so
    an unknown name is refused. An address is no name: on `any_address` all of them are right.
    """

    names: frozenset[str] = frozenset({"localhost"})
    any_address: bool = False
    """whether the server is bound beyond loopback, where it may be called by any address"""
    origins: frozenset[str] = frozenset()
    """other sites whose pages may use the API"""

    def knows(self, host: str | None) -> bool:
        """Whether a Host header means this server."""
        name = _host_name(host or "")
        return name in self.names or is_loopback(name) or (self.any_address and _is_address(name))

    def trusts(self, origin: str, host: str) -> bool:
        """Whether a page of that origin may use the server that was called as `host`."""
        if origin in self.origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def is_loopback(name: str) -> bool:
    """Whether an address, or the name `localhost`, leads to this machine only."""
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
    """Without the port; an IPv6 address without its brackets."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""

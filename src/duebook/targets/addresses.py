"""Decides which addresses a request may go to: a pure decision on a resolved address, by own
tables.

Names are not checked, as a name may resolve to another address a moment later. The tables follow
the IANA registries of special addresses; Python's `is_global` differs from version to version.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from duebook.errors import Invalid, shorten

__all__ = ["Network", "read_networks", "refusal"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_V4: Final = [
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a provider's customers"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's own service"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
]
_V6: Final = [
    (IPv6Network(network), what)
    for network, what in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("64:ff9b:1::/48", "NAT64 for local use"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "for documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
]
_V6_GLOBAL: Final = IPv6Network("2000::/3")
_V6_CARRIES_V4: Final = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""IPv4-mapped, and NAT64 with the well-known prefix, which IPv6-only networks use for IPv4."""


def refusal(address: str | Address, allowed: tuple[Network, ...] = ()) -> str | None:
    """Why no request may go to an address, in a word or two; None when it may.

    >>> refusal("169.254.169.254"), refusal("::ffff:10.0.0.1"), refusal("93.184.215.14")
    ('link-local', 'private', None)
    """
    found = _plain(ip_address(address) if isinstance(address, str) else address)
    if any(found in network for network in allowed):
        return None
    if isinstance(found, IPv4Address):
        return next((what for network, what in _V4 if found in network), None)
    special = next((what for network, what in _V6 if found in network), None)
    return special or (None if found in _V6_GLOBAL else "reserved")


def _plain(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one, if there is one; the zone does not matter here."""
    if isinstance(address, IPv6Address):
        if any(address in network for network in _V6_CARRIES_V4):
            return IPv4Address(int(address) & 0xFFFF_FFFF)
        return IPv6Address(int(address))
    return address


def read_networks(text: str) -> tuple[Network, ...]:
    """Networks and addresses from `127.0.0.0/8, fd00::/8`; raises Invalid."""
    found: list[Network] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(ip_network(word))
        except ValueError:
            raise Invalid(
                f'http_allow "{shorten(word)}" is not a network such as 10.0.0.0/8 or 127.0.0.1'
            ) from None
    return tuple(found)

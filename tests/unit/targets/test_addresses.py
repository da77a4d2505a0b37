"""Which addresses a request may go to, over a table and over all of them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.errors import Invalid
from duebook.targets.addresses import read_networks, refusal

TABLE = {
    "8.8.8.8": None,
    "93.184.215.14": None,
    "172.15.255.255": None,
    "172.32.0.0": None,
    "100.63.255.255": None,
    "100.128.0.0": None,
    "223.255.255.255": None,
    "2606:4700:4700::1111": None,
    "2a00:1450:4001:81b::200e": None,
    "::ffff:8.8.8.8": None,
    "64:ff9b::8.8.8.8": None,
    "0.0.0.0": "unspecified",  # noqa: S104
    "0.1.2.3": "unspecified",
    "10.0.0.1": "private",
    "100.64.0.1": "shared by a provider's customers",
    "100.100.100.200": "shared by a provider's customers",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "a cloud's own service",
    "169.254.169.254": "link-local",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.192": "reserved",
    "192.0.2.1": "for documentation",
    "192.88.99.1": "a 6to4 relay",
    "192.168.1.1": "private",
    "198.18.0.1": "for benchmarks",
    "198.51.100.1": "for documentation",
    "203.0.113.1": "for documentation",
    "224.0.0.1": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "::": "unspecified",
    "::1": "loopback",
    "::7f00:1": "reserved",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:169.254.169.254": "link-local",
    "::ffff:0:127.0.0.1": "reserved",
    "64:ff9b::10.0.0.1": "private",
    "64:ff9b:1::10.0.0.1": "NAT64 for local use",
    "100::1": "reserved",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": "Teredo",
    "2001:2::1": "reserved",
    "2001:db8::1": "for documentation",
    "2002:7f00:1::": "6to4",
    "2002:808:808::": "6to4",
    "3fff::1": "for documentation",
    "4000::1": "reserved",
    "5f00::1": "reserved",
    "fc00::1": "private",
    "fd00:ec2::254": "private",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
}


@pytest.mark.parametrize(("address", "why"), TABLE.items())
def test_an_address_is_refused_for_what_it_is(address: str, why: str | None) -> None:
    assert refusal(address) == why


@given(st.ip_addresses(v=4))
def test_whatever_python_calls_special_is_refused(address: IPv4Address) -> None:
    special = (
        *(address.is_private, address.is_loopback, address.is_link_local, address.is_multicast),
        *(address.is_reserved, address.is_unspecified),
    )
    if any(special):
        assert refusal(address) is not None


@given(st.ip_addresses(v=6))
def test_only_global_unicast_passes_of_ipv6(address: IPv6Address) -> None:
    if refusal(address) is None:
        embedded = address.ipv4_mapped is not None or address in ip_network("64:ff9b::/96")
        assert embedded or address.is_global
        assert address.sixtofour is None
        assert address.teredo is None


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "64:ff9b::"]))
def test_an_ipv4_address_inside_another_is_judged_like_itself(
    address: IPv4Address, prefix: str
) -> None:
    wrapped = IPv6Address(int(IPv6Address(prefix)) | int(address))
    assert refusal(wrapped) == refusal(address)


def test_a_setting_allows_networks_and_no_more() -> None:
    allowed = read_networks("127.0.0.0/8, 10.1.2.3,fd00::/8,")
    for address in ("127.0.0.1", "::ffff:127.0.0.1", "10.1.2.3", "fd00::1", "8.8.8.8"):
        assert refusal(address, allowed) is None
    for address in ("10.1.2.4", "169.254.169.254", "::1", "fc00::1"):
        assert refusal(address, allowed) is not None
    assert read_networks("") == ()


@pytest.mark.parametrize("text", ["private", "10.0.0.1/8", "10.0.0.0/33", "localhost", "*"])
def test_what_is_no_network_is_named(text: str) -> None:
    with pytest.raises(Invalid, match="http_allow"):
        read_networks(f"127.0.0.1,{text}")

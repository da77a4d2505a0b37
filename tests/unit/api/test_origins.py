"""Which Host and Origin headers are ours."""

from __future__ import annotations

import pytest

from duebook.api.origins import Hosts, is_loopback

HERE = Hosts()
ABROAD = Hosts(frozenset({"localhost", "books.example"}), any_address=True)


@pytest.mark.parametrize("host", ["localhost", "localhost:7420", "127.0.0.1:1", "[::1]:7420"])
def test_a_server_on_loopback_is_called_by_its_addresses(host: str) -> None:
    assert HERE.knows(host)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "x@localhost.evil",
        "[::1",
        "localhost.:80",
        "x@localhost",
        "localhost/x",
        "localhost?x",
        "localhost:x",
        "localhost:7420:7420",
        "localhost, evil.example",
        "127.1",
        "2130706433",
    ],
)
def test_a_foreign_host_is_not_known(host: str | None) -> None:
    assert not HERE.knows(host)


def test_a_server_beyond_loopback_is_called_by_any_address_and_known_names() -> None:
    assert ABROAD.knows("10.0.0.1:7420")
    assert ABROAD.knows("Books.Example")
    assert not ABROAD.knows("evil.example")


def test_a_page_is_trusted_when_it_comes_from_here() -> None:
    assert HERE.trusts("http://localhost:7420", "localhost:7420")
    assert not HERE.trusts("http://localhost:3000", "localhost:7420")
    assert not HERE.trusts("null", "localhost:7420")
    assert not HERE.trusts("http://[", "localhost:7420")
    assert not HERE.trusts("file://localhost:7420", "localhost:7420")
    assert not HERE.trusts("http://x@localhost:7420", "localhost:7420")
    assert not HERE.trusts("http://localhost:7420/x", "localhost:7420")
    allowed = Hosts(origins=frozenset({"https://board.example"}))
    assert allowed.trusts("https://board.example", "localhost:7420")
    assert not allowed.owns("https://board.example", "localhost:7420")


def test_loopback_is_recognised() -> None:
    assert is_loopback("localhost")
    assert is_loopback("127.9.9.9")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")  # noqa: S104
    assert not is_loopback("example.com")

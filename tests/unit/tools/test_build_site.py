"""What the site may not contain: addresses elsewhere."""

from __future__ import annotations

import pytest
from tools.build_site import outside_addresses


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.html", '<script src="https://cdn.example.com/a.js">', ["https://cdn.example.com/a.js"]),
        ("a.html", "<link href='//fonts.example.com/b.css'>", ["//fonts.example.com/b.css"]),
        ("a.html", '<a href="http://example.com">', ["http://example.com"]),
        ("a.css", "@import url(https://example.com/c.css)", ["https://example.com/c.css"]),
        ("a.css", 'background: url("https://example.com/d.png")', ["https://example.com/d.png"]),
    ],
)
def test_an_address_elsewhere_is_found(name: str, text: str, found: list[str]) -> None:
    assert list(outside_addresses(name, text)) == found


@pytest.mark.parametrize(
    "text",
    [
        '<a href="../how-to/index.html#start">',
        "<code>curl https://example.com</code>",
        '<svg xmlns="http://www.w3.org/2000/svg">',
    ],
)
def test_pages_of_the_site_and_examples_are_no_addresses_elsewhere(text: str) -> None:
    assert list(outside_addresses("a.html", text)) == []

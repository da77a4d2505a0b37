"""URLs that are themselves secret, such as those of hooks and pings; only their scheme and host are
shown."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from duebook.errors import Invalid, quoted
from duebook.model.fields import is_text
from duebook.model.http_target import LONGEST_URL
from duebook.model.secret import HIDDEN

__all__ = ["check_hook_url", "secret_pieces", "show_url"]

SHORTEST_SECRET: Final = 6
"""Minimum characters of a part of a URL to be hidden in responses of a receiver."""


def check_hook_url(part: str, value: object) -> str:
    """Raises Invalid, which repeats no more than scheme and host."""
    if isinstance(value, str) and len(value) > LONGEST_URL:
        raise Invalid(f"{part} is longer than {LONGEST_URL:,} characters")
    if not isinstance(value, str) or not is_text(value, LONGEST_URL) or not value.isprintable():
        raise Invalid(f"{part} is not a URL")
    if HIDDEN in value:
        raise Invalid(
            f"{part} {quoted(show_url(value))} contains {HIDDEN}, a placeholder for a hidden "
            "value, which is kept only while its host stays the same; give the whole URL"
        )
    try:
        parts = urlsplit(value)
        right = bool(parts.hostname) and parts.port != 0 and parts.scheme in ("http", "https")
    except ValueError:
        right = False
    told = f"{part} {quoted(show_url(value))}"
    if not right:
        raise Invalid(f"{told} does not start with http:// or https:// and a host")
    if re.search(r"[\s\\<>\"|^`]", value):
        raise Invalid(f"{told} contains a character that is not allowed in URLs, such as a space")
    if parts.username is not None:
        raise Invalid(f"{part} contains a user name or password; use a URL without them")
    return value


def show_url(url: str) -> str:
    """Scheme and host of a URL; the rest is hidden.

    >>> show_url("https://hooks.example.com/services/abc")
    'https://hooks.example.com/***'
    """
    scheme, separator, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}{separator}{host}" + (f"/{HIDDEN}" if rest.strip("/") != host else "")


def secret_pieces(text: str) -> set[str]:
    """Parts that must not be repeated: the whole secret part of the URL, and its longer pieces."""
    pieces = {text, *re.split(r"[/?&=#@:]", text)}
    return {piece for piece in pieces if len(piece) >= SHORTEST_SECRET}

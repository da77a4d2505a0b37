"""Decides which responses are compressed: only long JSON for programs that request it.

Never pages and streams: an attacker who can put text into a page that also contains a secret, and
sees its compressed size, can guess the secret. A browser can be made to load such pages with its
cookie.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

__all__ = ["accepts_gzip", "compress"]

LEAST: Final = 4_096
"""Bytes from which compression is worthwhile: a smaller response takes only a few packets."""
LEVEL: Final = 1
"""This level also shrinks JSON to a tenth of its size, in a fraction of the time."""


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding names gzip without refusing it."""
    for part in header.lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "x-gzip"):
            _, _, quality = weight.replace(" ", "").partition("q=")
            return quality.strip("0.") != "" if quality else True
    return False


def compress(
    content: bytes, request: Request, headers: Mapping[str, str]
) -> tuple[bytes, dict[str, str]]:
    """The body of a JSON response, with its headers; compressed if it is long, and the response to
    a GET with a token that accepts it.

    A response with an entity tag is never compressed: the tag would have two different bodies.
    """
    long = len(content) >= LEAST and request.method == "GET"
    if not long or "ETag" in headers or "authorization" not in request.headers:
        return content, dict(headers)
    told = {**headers, "Vary": "Accept-Encoding"}
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return content, told
    return gzip.compress(content, LEVEL, mtime=0), told | {"Content-Encoding": "gzip"}

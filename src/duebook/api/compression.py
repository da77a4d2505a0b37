"""Which answers are compressed: long JSON for programs that ask for it, and nothing else.

Pages and streams never are. Whoever can put text into a page that also holds a secret, and sees its
compressed size, can guess the secret; and a browser can be made to ask for pages with its cookie.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

__all__ = ["accepts_gzip", "compress"]

LEAST: Final = 4_096
"""Bytes of an answer that is worth it: less takes a few packets anyway."""
LEVEL: Final = 1
"""JSON becomes a tenth of its size also at this level, in a fraction of the time."""


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding names gzip, and does not refuse it."""
    for part in header.lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "x-gzip"):
            _, _, quality = weight.replace(" ", "").partition("q=")
            return quality.strip("0.") != "" if quality else True
    return False


def compress(
    content: bytes, request: Request, headers: Mapping[str, str]
) -> tuple[bytes, dict[str, str]]:
    """The body of an answer in JSON, with its headers; compressed if it is long, and the answer to
    a GET with a token that accepts it.

    An answer with an entity tag stays as it is: the tag would stand for two different bodies.
    """
    long = len(content) >= LEAST and request.method == "GET"
    if not long or "ETag" in headers or "authorization" not in request.headers:
        return content, dict(headers)
    told = {**headers, "Vary": "Accept-Encoding"}
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return content, told
    return gzip.compress(content, LEVEL, mtime=0), told | {"Content-Encoding": "gzip"}

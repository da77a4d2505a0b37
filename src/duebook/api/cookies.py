"""Reads one cookie of a request in linear time: the standard library's parser takes seconds for
a long cookie with many backslashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.datastructures import Headers

__all__ = ["read_cookie"]


def read_cookie(headers: Headers, name: str) -> str | None:
    """Its value, without quotes; None if it was not sent. If there are several, the last counts.

    Values are not unescaped: Duebook's cookies contain no character that needs an escape.
    """
    found = None
    for header in headers.getlist("cookie"):
        for part in header.split(";"):
            key, _, value = part.partition("=")
            if key.strip() == name:
                found = value.strip().strip('"')
    return found

"""Lists in pages: a Listing, and the cursor at which the next page starts.

A cursor is sealed: it holds the position of the last row, which may be in another namespace, and a
fingerprint of the query. It cannot be read or created without the key of the database.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from duebook.errors import Invalid, shorten
from duebook.sealing import seal, unseal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["BadCursor", "Found", "Listing", "PagePosition", "read_cursor", "write_cursor"]

T = TypeVar("T")
PagePosition = tuple[str | int, ...]
"""A position in an order: the values it sorts by, with instants as microseconds since 1970."""

LONGEST: Final = 1_000
NUMBERS: Final = range(-62_135_596_800_000_000, 253_402_214_400_000_001)
"""Microseconds of the years 1 to 9999."""
_PLAIN: Final = re.compile(r"[a-z0-9._-]{0,128}")


class BadCursor(Invalid):
    """A cursor that did not come from this list."""

    code = "bad_cursor"


class Found(NamedTuple, Generic[T]):
    """The rows a store found, and the position after which there may be more; None: these are all.

    There may be fewer than requested, or none: a request looks at a bounded number of rows.
    """

    rows: Sequence[T]
    last: PagePosition | None


class Listing(list[T]):
    """A page of a list; `next_cursor` is where the next one starts, None at the end.

    A page may be short, and even empty, while there is a next one.
    """

    def __init__(self, items: Iterable[T] = (), next_cursor: str | None = None) -> None:
        super().__init__(items)
        self.next_cursor = next_cursor


def write_cursor(key: bytes, asked: Any, last: PagePosition | None) -> str | None:
    """The cursor of a page that ends at `last`; `asked` is the query of the list."""
    if last is None:
        return None
    return seal(key, json.dumps([_fingerprint(asked), *last], separators=(",", ":")))


def read_cursor(key: bytes, asked: Any, cursor: str | None, *shapes: str) -> PagePosition | None:
    """The position of a cursor; None without one.

    A shape has, for each value of a position, s for text or i for a number. Raises BadCursor for a
    cursor of a different query.
    """
    if cursor is None:
        return None
    fingerprint, *place = _decoded(key, cursor)
    if "".join(map(_kind, place)) not in shapes:
        raise _bad(cursor)
    if fingerprint != _fingerprint(asked):
        raise BadCursor(
            f'cursor "{shorten(cursor)}" belongs to a list with another filter, sort order or '
            "namespace; "
            "leave it out to start from the beginning"
        )
    return tuple(place)


def _decoded(key: bytes, cursor: object) -> list[Any]:
    if not isinstance(cursor, str) or not cursor.isascii() or len(cursor) > LONGEST:
        raise _bad(cursor)
    text = unseal(key, cursor)
    if text is None:
        raise _bad(cursor)
    place: list[Any] = json.loads(text)
    return place


def _bad(cursor: object) -> BadCursor:
    return BadCursor(
        f'cursor "{shorten(cursor)}" is not valid here; pass the next_cursor of the previous page '
        "unchanged, or leave it out to start from the beginning"
    )


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "s" if _PLAIN.fullmatch(value) else "?"
    return "i" if type(value) is int and value in NUMBERS else "?"


def _fingerprint(asked: Any) -> str:
    return sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:16]

"""Lists a page at a time: a Listing, and the cursor that says where the next page begins.

A cursor is sealed: the place of the last row, which may be a row of another namespace, and a
fingerprint of what was asked for. Nobody without the key of the database can read or make one.
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
"""A place in an order: what the rows are ordered by, instants as microseconds since 1970."""

LONGEST: Final = 1_000
NUMBERS: Final = range(-62_135_596_800_000_000, 253_402_214_400_000_001)
"""Microseconds of the years 1 to 9999."""
_PLAIN: Final = re.compile(r"[a-z0-9._-]{0,128}")


class BadCursor(Invalid):
    """A cursor that this list did not give."""

    code = "bad_cursor"


class Found(NamedTuple, Generic[T]):
    """What a store found of a list, and after which place there may be more; None: these are all.

    It may be fewer than were asked for, even none: a request looks at a bounded number of rows.
    """

    rows: Sequence[T]
    last: PagePosition | None


class Listing(list[T]):
    """A page of a list; `next_cursor` is where the next one begins, None at the end.

    A page may be short, and even empty, while there is a next one.
    """

    def __init__(self, items: Iterable[T] = (), next_cursor: str | None = None) -> None:
        super().__init__(items)
        self.next_cursor = next_cursor


def write_cursor(key: bytes, asked: Any, last: PagePosition | None) -> str | None:
    """The cursor of a page whose last place is `last`; `asked` is what the list was asked for."""
    if last is None:
        return None
    return seal(key, json.dumps([_fingerprint(asked), *last], separators=(",", ":")))


def read_cursor(key: bytes, asked: Any, cursor: str | None, *shapes: str) -> PagePosition | None:
    """The place that a cursor means; None for none.

    A shape says of each value of a place whether it is text (s) or a number (i). Raises BadCursor
    for one that was not given for the same question.
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

"""Creates ids: uuid7 texts that sort roughly by the node's clock (never rely on that order)."""

from __future__ import annotations

import re
from time import time_ns
from typing import Final

from uuid_utils import uuid7

from duebook.errors import Invalid, shorten

__all__ = ["SHORT_ID", "check_name", "is_name", "looks_like_id", "looks_like_prefix", "new_id"]

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
SHORTEST_PREFIX: Final = 8
SHORT_ID: Final = 13
"""Characters of an id that hold its millisecond; ids of the same millisecond need more."""
_AN_ID: Final = "00000000-0000-0000-0000-000000000000"
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def new_id() -> str:
    # without an explicit time, uuid7 counts up from the previous id; with it, two ids of the same
    # millisecond differ in earlier characters
    return str(uuid7(nanoseconds=time_ns()))


def looks_like_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def looks_like_prefix(text: str) -> bool:
    """Whether it may be the beginning of an id, and is long enough to identify one."""
    return len(text) >= SHORTEST_PREFIX and _ID.fullmatch(text + _AN_ID[len(text) :]) is not None


def is_name(text: object) -> bool:
    return isinstance(text, str) and bool(_NAME.fullmatch(text)) and not looks_like_id(text)


def check_name(name: object, what: str = "name") -> str:
    """Return a valid name unchanged; raises Invalid for anything else, ids included."""
    if isinstance(name, str) and is_name(name):
        return name
    if name is None:
        raise Invalid(f"{what} is missing")
    if not isinstance(name, str):
        raise Invalid(f"invalid {what} {shorten(name)}: it must be text; put it in quotes")
    raise Invalid(
        f'invalid {what} "{shorten(name)}": use 1 to 128 characters of a-z, 0-9, ".", "_" and "-", '
        "starting with a letter or digit, and not an id"
    )

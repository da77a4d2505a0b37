"""Makes ids: uuid7 texts that sort roughly by the node's clock (never rely on that order)."""

from __future__ import annotations

import re
from typing import Final

from uuid_utils import uuid7

from duebook.errors import Invalid, shorten

__all__ = ["check_name", "looks_like_id", "new_id"]

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def new_id() -> str:
    return str(uuid7())


def looks_like_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def check_name(name: object, what: str = "name") -> str:
    """A name as it stands; raises Invalid unless it is one (an id never is)."""
    if isinstance(name, str) and _NAME.fullmatch(name) and not looks_like_id(name):
        return name
    raise Invalid(
        f'{what} "{shorten(name)}" is not 1 to 128 of a-z, 0-9, ".", "_", "-", '
        "beginning with a letter or digit, and no id"
    )

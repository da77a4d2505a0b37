"""What answers of receivers mean, and texts as they take them; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.errors import DuebookError, Unavailable, shorten
from duebook.sinks.webhook import LATER

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MessageRefused", "cut", "judge", "plain"]

LONGEST_REASON: Final = 200


class MessageRefused(DuebookError):
    """The receiver does not accept a message; trying again will not change that."""

    code = "refused"


def judge(status: int, body: bytes, hide: Callable[[str], str]) -> None:
    """Raises Unavailable when the receiver is busy, MessageRefused when it does not accept."""
    if 200 <= status < 300:
        return
    said = shorten(hide(body[:2_000].decode("utf-8", "replace")).strip(), LONGEST_REASON)
    told = f"it returned {status}" + (f": {said}" if said else "")
    raise Unavailable(told) if status in LATER else MessageRefused(told)


def plain(text: str) -> str:
    """Text without what could steer whoever shows it; lines stay."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def cut(text: str, most: int) -> str:
    """At most so many characters, with a sign where the rest is missing."""
    return text if len(text) <= most else text[: most - 1] + "…"

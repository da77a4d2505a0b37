"""Interprets responses of receivers, and prepares texts for them; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.errors import DuebookError, Unavailable, shorten
from duebook.sinks.webhook import LATER

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MessageRefused", "cut", "judge", "plain"]

LONGEST_REASON: Final = 200


class MessageRefused(DuebookError):
    """The receiver does not accept a message; retrying will not change that."""

    code = "refused"


def judge(status: int, body: bytes, hide: Callable[[str], str]) -> None:
    """Raises Unavailable if the receiver is busy, MessageRefused if it does not accept it."""
    if 200 <= status < 300:
        return
    said = shorten(hide(body[:2_000].decode("utf-8", "replace")).strip(), LONGEST_REASON)
    told = f"it returned {status}" + (f": {said}" if said else "")
    raise Unavailable(told) if status in LATER else MessageRefused(told)


def plain(text: str) -> str:
    """Text without control characters that could affect a display; line breaks stay."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def cut(text: str, most: int) -> str:
    """At most so many characters, with a mark if the rest was cut off."""
    return text if len(text) <= most else text[: most - 1] + "…"

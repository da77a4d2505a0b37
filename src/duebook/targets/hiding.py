"""Hides what is secret in whatever a run prints or answers; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.model.http_target import HIDDEN
from duebook.model.target import CommandTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duebook.model.target import Target

__all__ = ["hiding", "hiding_env"]

SHORTEST_VALUE: Final = 8
"""Characters; shorter ones are in too many words."""


def hiding(secrets: Iterable[str]) -> Callable[[str], str]:
    """What replaces every secret in a text, the longest first."""
    words = sorted(set(secrets), key=len, reverse=True)

    def hide(text: str) -> str:
        for word in words:
            text = text.replace(word, HIDDEN)
        return text

    return hide


def hiding_env(target: Target) -> Callable[[str], str]:
    """Hides the values of a command's variables, line by line as they are printed."""
    values = target.env if isinstance(target, CommandTarget) else ()
    lines = (line for _, value in values for line in (value, *value.splitlines()))
    return hiding(line for line in lines if len(line) >= SHORTEST_VALUE)

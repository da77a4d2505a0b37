"""Checks conditions that have their values filled in, and reports one that does not hold; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from duebook.errors import shorten
from duebook.flows.patterns import is_as_expected
from duebook.flows.variables import readable
from duebook.model.secret import HIDDEN, is_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.flow import Condition

    Ask = Callable[[str], tuple[int, str]]
    """executes the command of a condition: its exit code and what it printed"""

__all__ = ["unmet"]

LONGEST: Final = 100
"""Characters of a condition, or of a value, in a message."""


def unmet(written: Sequence[Condition], filled: Sequence[Condition], ask: Ask) -> str | None:
    """Why the first unmet condition does not hold; None when all hold.

    `written` has the conditions as in the file, `filled` the same ones with their values. Raises
    Invalid for a value that is too long for a pattern.
    """
    for as_written, condition in zip(written, filled, strict=True):
        code, value = 0, condition.text
        if condition.is_command:
            code, printed = ask(condition.text)
            value = printed.strip()
        asks_code = condition.is_command and condition.expected is None
        holds = code == 0 if asks_code else _is_as_expected(value, condition)
        if holds == condition.negate:
            name = f"its condition `{_shown(as_written.text)}`"
            return f"{name} {_failed(code) if asks_code else _was(as_written, value)}"
    return None


def _is_as_expected(value: str, condition: Condition) -> bool:
    expected = condition.expected or ""
    return value == expected if condition.is_data else is_as_expected(value, expected)


def _failed(code: int) -> str:
    return f"was not met: exit code {code}" if code else "was met, but must not be"


def _was(condition: Condition, value: str) -> str:
    hides = any(is_secret(name) for name in re.findall(r"\w+", condition.text))
    found = f"was `{HIDDEN if hides else shorten(value, LONGEST)}`"
    if condition.negate:
        return f"{found}, but must not be"
    expected = condition.expected or ""
    like = "like " if expected.startswith("re:") else ""
    return f"{found}, not {like}`{_shown(expected.removeprefix('re:'))}`"


def _shown(text: str) -> str:
    return shorten(readable(text), LONGEST)

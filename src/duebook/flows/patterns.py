"""Expected strings: literal, or patterns after `re:`, limited in the work that they may take."""

from __future__ import annotations

import re
from functools import lru_cache
from math import factorial, inf
from typing import Final

from duebook.errors import Invalid, shorten
from duebook.lazy_dataclasses import dataclass

__all__ = ["check_pattern", "is_as_expected", "is_in_output"]

_MARK: Final = "re:"
LONGEST_PATTERN: Final = 500
MOST_REPEATS: Final = 5
MOST_WAYS: Final = 1_000
"""The largest number of ways to combine the choices of a pattern."""
MOST_TRIED: Final = 50_000_000
"""Starts and ends of repetitions that a search may try: half a second of work."""
LONGEST: Final = 65_536
"""Characters of a value that a pattern searches."""
_TOKEN: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\(\??)|(?P<close>\))|(?P<choice>\|)"
    r"|(?P<times>\{(?P<count>[0-9]+)\})|(?P<repeat>[*+]|\{[0-9]*,[0-9]*\})[?+]?|(?P<maybe>\?)[?+]?",
    re.DOTALL,
)


@dataclass(slots=True)
class _Group:
    """A group in parentheses, or the whole pattern."""

    choices: int = 1
    varies: bool = False
    """whether it may match the same text in several ways"""


def check_pattern(text: str) -> str:
    """The text; raises Invalid for a pattern that is malformed, or whose search may never end."""
    if not text.startswith(_MARK):
        return text
    pattern = text.removeprefix(_MARK)
    if len(pattern) > LONGEST_PATTERN:
        raise Invalid(f'pattern "{shorten(text)}" is longer than {LONGEST_PATTERN} characters')
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise Invalid(f'pattern "{shorten(text)}" cannot be read: {error}') from None
    if re.search(r"\\[1-9]|\(\?P=", pattern):
        raise Invalid(f'pattern "{shorten(text)}" has a backreference, which is not supported')
    if re.search(r"\(\?[a-zA-Z]*x", pattern):
        raise Invalid(f'pattern "{shorten(text)}" has the flag x, which is not supported')
    if _repeats(pattern) > MOST_REPEATS or _ways(pattern) > MOST_WAYS:
        raise Invalid(
            f'pattern "{shorten(text)}" is too complex: it nests repetitions, has more than '
            f"{MOST_REPEATS} of them, or has too many alternatives; simplify it"
        )
    return text


def _repeats(pattern: str) -> int:
    return sum(1 for token in _TOKEN.finditer(pattern) if token["repeat"])


def _ways(pattern: str) -> float:
    """In how many ways a text could be matched, not counting repetitions of one character.

    Infinite if a group is repeated that itself may match in several ways.
    """
    ways, groups = 1.0, [_Group()]
    closed, ended = groups[0], -1
    for token in _TOKEN.finditer(pattern):
        here, is_group = groups[-1], token.start() == ended
        if token["open"]:
            groups.append(_Group())
        elif token["close"] and len(groups) > 1:
            closed, ended = groups.pop(), token.end()
            ways *= closed.choices
            groups[-1].varies |= closed.varies
        elif token["choice"]:
            here.choices, here.varies = here.choices + 1, True
        elif token["maybe"]:
            ways, here.varies = ways * 2, True
        elif token["repeat"] or token["times"]:
            if is_group and closed.varies:
                return inf
            ways *= int(token["count"] or 1) if is_group else 1
            here.varies |= bool(token["repeat"])
    return ways


def is_as_expected(value: str, expected: str) -> bool:
    """Whether a value equals a string, or contains a match of a pattern; raises Invalid for a value
    that is too long to search."""
    if not expected.startswith(_MARK):
        return value == expected
    pattern, most = _compiled(expected)
    if len(value) > most:
        raise Invalid(
            f'a value has {len(value):,} characters; pattern "{shorten(expected)}" can search at '
            f"most {most:,}, and more if it has fewer repetitions"
        )
    return pattern.search(value) is not None


def is_in_output(printed: str, wanted: tuple[str, ...]) -> bool:
    """Whether any line contains one of these; a line that is too long for a pattern does not."""
    return any(
        _is_found(line, text) if text.startswith(_MARK) else text in line
        for line in printed.splitlines()
        for text in wanted
    )


def _is_found(line: str, expected: str) -> bool:
    pattern, most = _compiled(expected)
    return len(line) <= most and pattern.search(line) is not None


@lru_cache(maxsize=200)
def _compiled(expected: str) -> tuple[re.Pattern[str], int]:
    """A pattern, and how many characters it can search in time."""
    pattern = expected.removeprefix(_MARK)
    power = _repeats(pattern) + 1
    most = (MOST_TRIED * factorial(power) / _ways(pattern)) ** (1 / power)
    return re.compile(pattern), min(int(most), LONGEST)

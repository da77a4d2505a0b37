"""Texts that are expected: as they stand, or patterns after `re:`, bounded in what they take."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from duebook.errors import Invalid, shorten

__all__ = ["check_pattern", "is_as_expected", "is_in_output"]

_MARK: Final = "re:"
LONGEST_PATTERN: Final = 500
LONGEST_LINE: Final = 1_000
"""Characters of a line that a pattern looks at."""
MOST_REPEATS: Final = 5
_TOKEN: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(|\)|\||[*+]|\{[0-9]*,[0-9]*\}", re.DOTALL
)


def check_pattern(text: str) -> str:
    """The text; raises Invalid for a pattern that cannot be read, or may take for ever."""
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
        raise Invalid(f'pattern "{shorten(text)}" refers back to a group, which is not supported')
    _check_repeats(text, pattern)
    return text


def _check_repeats(text: str, pattern: str) -> None:
    """A repeated group must not itself have a choice or a repetition: that may take for ever."""
    count, former, groups = 0, "", [False]
    closed_varies = False
    for token in _TOKEN.findall(pattern):
        if token == "(":  # noqa: S105 - no password
            groups.append(False)
        elif token == ")" and len(groups) > 1:  # noqa: S105
            closed_varies = groups.pop()
            groups[-1] = groups[-1] or closed_varies
        elif token[0] in "*+{":
            count += 1
            if (former == ")" and closed_varies) or count > MOST_REPEATS:
                raise Invalid(
                    f'pattern "{shorten(text)}" repeats too much within what it repeats, '
                    f"or more than {MOST_REPEATS} times; make it simpler"
                )
            groups[-1] = True
        elif token == "|":  # noqa: S105
            groups[-1] = True
        former = token


def is_as_expected(value: str, expected: str) -> bool:
    """Whether a value is a text, or has what a pattern looks for."""
    if expected.startswith(_MARK):
        return _found(value, expected)
    return value == expected


def is_in_output(printed: str, wanted: tuple[str, ...]) -> bool:
    """Whether any line has one of these in it."""
    return any(
        _found(line, text) if text.startswith(_MARK) else text in line
        for line in printed.splitlines()
        for text in wanted
    )


def _found(text: str, expected: str) -> bool:
    pattern = _compiled(expected.removeprefix(_MARK))
    return pattern.search(text[:LONGEST_LINE]) is not None


@lru_cache(maxsize=200)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)

"""Numbers in text for a shell: bash executes commands inside the values that it computes with.

A variable with the value `a[$(reboot)]` reboots the machine in `$((X + 1))` and `[[ $X -gt 3 ]]`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn

from duebook.errors import shorten
from duebook.targets.programs import Chosen, Word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["number_operands", "parentheses_end", "refuse_number", "refuse_tests", "subscripts"]

_COMPARISONS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_OF_NAMES: Final = frozenset({"-v", "-R"})
_PARENTHESIS: Final = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|[()]""", re.DOTALL)
_SUBSCRIPT: Final = re.compile(r"\w*\[(.*?)\]\+?=", re.ASCII | re.DOTALL)


def refuse_number(text: str, name: str) -> NoReturn:
    """Raises Chosen, for a value that bash would compute with."""
    raise Chosen(
        f'bash runs commands contained in "{shorten(name)}" when it computes "{shorten(text)}"; '
        f'compare numbers with [ "${shorten(name)}" -gt 3 ], or pass the value as an argument to '
        "a program"
    )


def parentheses_end(text: str, start: int) -> int:
    """Where the parenthesis at `start` is closed; the end of the text if it is not."""
    depth = 0
    for found in _PARENTHESIS.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0:
            return found.end()
    return len(text)


def subscripts(word: str) -> list[str]:
    """The texts in brackets in a word such as a[0]=b or [0]=b."""
    found = _SUBSCRIPT.match(word)
    return [] if found is None else [found[1]]


def number_operands(words: Sequence[Word]) -> Iterator[str]:
    """Words of `let` and `[[` that bash evaluates as arithmetic."""
    if words[0].text == "let":
        yield from (word.text for word in words[1:])
    else:
        for place, word in enumerate(words):
            if word.text in _OF_NAMES:
                yield from (near.text.partition("[")[2] for near in words[place + 1 :][:1])
            if word.text in _COMPARISONS and words[0].text == "[[":
                yield from (
                    near.text for near in (*words[place - 1 : place], *words[place + 1 :][:1])
                )


def refuse_tests(words: Sequence[Word]) -> None:
    """Raises Chosen for a value in `let`, `[[`, `[` or `test` that bash would compute with."""
    first = words[0].text
    for place, word in enumerate(words):
        if word.value is None:
            continue
        before, after = words[place - 1].text, words[place + 1 : place + 2]
        computes = first == "let" or before in _OF_NAMES
        if first == "[[":
            computes |= before in _COMPARISONS or bool(after and after[0].text in _COMPARISONS)
        elif word.splits or (after and after[0].value is not None):
            raise Chosen(
                f'"{shorten(word.text)}" may become an operator of {first} if '
                f'"{shorten(word.value)}" has spaces or starts with "-"; put it in double quotes, '
                'and an operator such as "=" behind it'
            )
        if computes:
            refuse_number(word.text, word.value)

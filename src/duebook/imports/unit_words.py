"""Splits values of unit files into words as systemd does: quotes, C escapes, semicolons; pure.

A shell splits differently: here a backslash also works within single quotes, and a lone `;` starts
another command.
"""

from __future__ import annotations

import re
from typing import Final

from duebook.lazy_dataclasses import dataclass

__all__ = ["Command", "split_commands", "split_words"]

_SIMPLE: Final = {
    **dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)),
    "s": " ",
    "\\": "\\",
    '"': '"',
    "'": "'",
}
_CODE: Final = re.compile(r"x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")
_BASES: Final = (16, 8, 16, 16)
_LONE: Final = re.compile(r"(\\?);(?=\s|$)")
_SIGNS: Final = re.compile(r"[@\-:+!|]*")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of ExecStart= or a similar key."""

    signs: str
    """the signs before it, such as `-`"""
    argv: list[str]
    """its words; with `@`, without the name that the program sees"""


def split_commands(text: str) -> list[Command]:
    """The commands of a line; raises ValueError for lines that systemd refuses."""
    found = []
    for words in _split(text):
        signs = _SIGNS.match(words[0])
        assert signs is not None  # noqa: S101 - it also matches the empty string
        argv = [words[0][signs.end() :], *words[1:]]
        if "@" in signs[0]:
            del argv[1:2]
        if not argv[0]:
            raise ValueError("it has no command")
        found.append(Command(signs[0], argv))
    return found


def split_words(text: str) -> list[str]:
    """The words of a list such as Environment=, in which `;` is a word; raises ValueError."""
    return [word for words in _split(text, separator=False) for word in words]


def _split(text: str, separator: bool = True) -> list[list[str]]:
    lists: list[list[str]] = [[]]
    place = 0
    while (place := _skip_space(text, place)) < len(text):
        lone = _LONE.match(text, place) if separator else None
        if lone is None:
            word, place = _word(text, place)
            lists[-1].append(word)
            continue
        place = lone.end()
        if lone[1]:
            lists[-1].append(";")
        else:
            lists.append([])
    return [words for words in lists if words]


def _skip_space(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _word(text: str, place: int) -> tuple[str, int]:
    """The word at a position, and where it ends."""
    parts: list[str] = []
    quote = ""
    while place < len(text):
        sign = text[place]
        if sign == "\\":
            part, place = _escape(text, place + 1)
            parts.append(part)
            continue
        place += 1
        if sign == quote:
            quote = ""
        elif quote or sign not in "\"'":
            if not quote and sign.isspace():
                break
            parts.append(sign)
        else:
            quote = sign
    if quote:
        raise ValueError("a quotation mark is missing")
    return "".join(parts).encode(errors="surrogateescape").decode(), place


def _escape(text: str, place: int) -> tuple[str, int]:
    """What the characters after a backslash mean; an unknown escape stays as written. A byte that
    is part of a character becomes a surrogate."""
    sign = text[place : place + 1]
    if sign in _SIMPLE and sign:
        return _SIMPLE[sign], place + 1
    if match := _CODE.match(text, place):
        code = int(match[match.lastindex or 0], _BASES[(match.lastindex or 1) - 1])
        if not code or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise ValueError(f"\\{match[0]} is not a character")
        is_byte = code > 0x7F and bool(match[1] or match[2])
        return chr(0xDC00 + code if is_byte else code), match.end()
    return f"\\{sign}", place + 1

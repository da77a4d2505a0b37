"""Turns terminal colours in logs and errors into spans with classes; drops all other escapes."""

from __future__ import annotations

import json
import re
from typing import Final

from markupsafe import Markup, escape

__all__ = ["coloured", "escaped", "stripped"]

_ESCAPE: Final = re.compile(
    r"\x1b\[([0-9;:?]*)[ -/]*([@-~])"  # control sequences
    r"|\x1b[\]P^_X].*?(?:\x1b\\|\x07|$)"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-9;:?]*[@-~]?",
    re.DOTALL,
)
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
"""Characters that move the cursor, are invisible, or reverse the text."""
_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def stripped(text: str) -> str:
    """The text without escape sequences and control characters."""
    return _HIDDEN.sub("", _ESCAPE.sub("", text))


def escaped(text: str) -> str:
    """JSON with its invisible characters written as escapes; its value stays the same."""
    return _HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def coloured(text: str) -> Markup:
    """HTML with a span for each coloured part; the text itself is escaped."""
    if "\x1b" not in text and "\x9b" not in text:
        return escape(_HIDDEN.sub("", text))
    parts: list[Markup] = []
    classes: tuple[str, ...] = ()
    place = 0
    for found in _ESCAPE.finditer(text):
        parts.append(_span(text[place : found.start()], classes))
        place = found.end()
        if found[2] == "m":
            classes = _after(classes, found[1] or "")
    parts.append(_span(text[place:], classes))
    return Markup("").join(parts)


def _span(text: str, classes: tuple[str, ...]) -> Markup:
    clean = escape(_HIDDEN.sub("", text))
    if not clean or not classes:
        return clean
    return Markup('<span class="{}">{}</span>').format(" ".join(classes), clean)


def _after(classes: tuple[str, ...], codes: str) -> tuple[str, ...]:
    kept = list(classes)
    for code in (codes or "0").split(";"):
        number = int(code) if code.isascii() and code.isdecimal() and len(code) < 4 else -1
        if number == 0:
            kept = []
        elif number == 1:
            kept.append("ansi-bold")
        elif number in range(30, 38) or number in range(90, 98):
            kept = [name for name in kept if name == "ansi-bold"]
            kept.append(f"ansi-{_COLOURS[number % 10]}")
        elif number == 39:
            kept = [name for name in kept if name == "ansi-bold"]
        elif number in (38, 48):
            break  # a colour from another palette follows; ignored
    return tuple(dict.fromkeys(kept))

"""Explains invalid YAML: the likely mistake, where it starts, and how to fix it; pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import yaml

from duebook.errors import shorten

__all__ = ["Mistake", "mistake_of"]

_GLUED: Final = re.compile(r"\s*(?:- )?[\w-]+:[^\s:/]")
"""A key without a space after its colon."""
_CONTROL: Final = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BEGINS: Final = {
    "quoted scalar": (
        "a quoted string starts here and is not closed",
        "add the closing quote",
    ),
    "flow sequence": ("a list in brackets starts here and is not closed", "add the `]`, or a `,`"),
    "flow mapping": ("a mapping in braces starts here and is not closed", "add the `}`, or a `,`"),
}
"""Mistakes that are reported at their start, rather than where the parser stopped."""


class Mistake(NamedTuple):
    """Lines and columns count from 1."""

    line: int
    column: int
    message: str
    hint: str = ""


def mistake_of(error: yaml.YAMLError | UnicodeEncodeError, lines: list[str]) -> Mistake:
    """Explain an error in the words of the file's author; an unknown one keeps YAML's words."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return _character(error, lines)
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    told, context = error.problem or "", error.context or ""
    found = _unended(error, told, context) or _without_an_end(lines, line, told, context)
    if found is not None:
        return found
    if "mapping values" in told and (glued := _glued(lines[: line - 1])) is not None:
        return glued
    here = lines[line - 1] if 0 < line <= len(lines) else ""
    message, hint = _told(told, here, column)
    if not message:
        return Mistake(
            line, column, f"invalid YAML: {shorten(f'{told} {context}'.strip(), 200)}", hint
        )
    return Mistake(line, column, f"invalid YAML: {message}", hint)


def _unended(error: yaml.MarkedYAMLError, told: str, context: str) -> Mistake | None:
    mark = error.context_mark
    if mark is None or not ("end of stream" in told or "expected ','" in told):
        return None
    for what, (message, hint) in _BEGINS.items():
        if what in context:
            return Mistake(mark.line + 1, mark.column + 1, f"invalid YAML: {message}", hint)
    return None


def _without_an_end(lines: list[str], line: int, told: str, context: str) -> Mistake | None:
    """Brackets or braces that are never closed; YAML does not report where they start."""
    is_it = "node content" in told and "flow node" in context
    if not is_it or any(text.strip() for text in lines[line - 1 :]):
        return None
    last = max((n for n in range(1, line) if lines[n - 1].strip()), default=1)
    message = "invalid YAML: a list in brackets or a mapping in braces is not closed"
    return Mistake(last, len(lines[last - 1].rstrip()), message, "add the `]` or `}`")


def _glued(lines: list[str]) -> Mistake | None:
    """A key without a space after its colon, in the last line that is not blank."""
    for line in range(len(lines), 0, -1):
        text = lines[line - 1]
        if found := _GLUED.match(text):
            told = f"invalid YAML: `{shorten(text.strip())}` has no space after its colon"
            return Mistake(line, found.end(), told, "add one")
        if text.strip():
            return None
    return None


def _told(told: str, here: str, column: int) -> tuple[str, str]:
    """A message and a hint; an empty message where YAML's own is good enough."""
    first = here[column - 1 : column]
    if "\t" in here[: max(column, len(here) - len(here.lstrip()))] and "token" in told:
        return "the line is indented with a tab", "indent with spaces"
    if "cannot start any token" in told:
        return f"an unquoted string cannot start with {first or 'this'}", "put the string in quotes"
    if "mapping values" in told:
        return "an unquoted string contains `: `", "put the string in quotes"
    if "escape" in told or "hexdecimal" in told:
        return r"`\` has a special meaning in double quotes", "use single quotes"
    if "expected '-' indicator" in told or "expected key" in told or "block end" in told:
        hint = "indent the keys of a mapping, or the dashes of a list, to the same column"
        return "the indentation does not match any line above", hint
    return "", ""


def _character(error: Exception, lines: list[str]) -> Mistake:
    """A character that is not allowed in YAML."""
    for number, text in enumerate(lines, 1):
        if (found := _CONTROL.search(text)) is not None:
            told = f"invalid YAML: character U+{ord(found[0]):04X} is not allowed"
            return Mistake(number, found.start() + 1, told, "delete it")
    return Mistake(0, 0, f"invalid YAML: {shorten(str(error), 200)}")

"""What is wrong with a file, and where: values that a person can act on."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Protocol

from duebook.errors import shorten
from duebook.model.secret import hide_in_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Problem", "Problems", "Refused", "did_you_mean", "lines_of", "with_lines"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; lines and columns count from 1, and 0 is the file as a whole."""

    file: str
    line: int
    column: int
    key: str
    """the path to what is wrong, such as steps[0].retry_policy.limit"""
    message: str
    hint: str = ""
    text: str = ""
    """the line, as it may be shown"""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}" + (f"; {self.hint}" if self.hint else "")

    def excerpt(self, width: int = 80) -> list[str]:
        """The line with a mark below its column; nothing for a file as a whole."""
        if not self.line or not self.text.strip():
            return []
        gutter = len(str(self.line)) + 5
        room, text = width - gutter, self.text.replace("\t", " ")
        first = max(min(self.column - room // 2, len(text) - room), 0)
        lines = [f"  {self.line} | {text[first : first + room]}"]
        place = self.column - 1 - first
        if 0 <= place <= min(len(text) - first, room - 1):
            lines.append(f"{' ' * (gutter - 2)}| {' ' * place}^")
        return lines

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class Refused(Exception):
    """A file, or its text, of which nothing can be taken; has its Problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Placed(Protocol):
    """Anything that knows where it stands."""

    line: int
    column: int


LONGEST_LINE: Final = 500
"""Characters that are kept of a line."""
_BREAK: Final = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")
MOST: Final = 200
"""Problems of a file that are told; whoever has more has one cause."""


class Problems:
    """Collects what is wrong with one file, so that all of it can be told at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: list[Problem] = []

    def add(self, node: Placed, key: str, message: str, hint: str = "") -> None:
        if len(self._found) < MOST:
            self._found.append(Problem(self.file, node.line, node.column, key, message, hint))

    @property
    def is_full(self) -> bool:
        return len(self._found) >= MOST

    def __bool__(self) -> bool:
        return bool(self._found)

    def sorted(self) -> tuple[Problem, ...]:
        """In the order of the file, each once."""
        return tuple(sorted(dict.fromkeys(self._found), key=lambda p: (p.line, p.column)))


def lines_of(text: str) -> list[str]:
    """The lines of a text as YAML counts them."""
    return _BREAK.split(text)


def with_lines(problems: Iterable[Problem], text: str) -> tuple[Problem, ...]:
    """The problems of a text, each with the line where it is; secrets are hidden."""
    lines = lines_of(text)
    shown = hide_in_lines(lines)
    found = []
    for problem in problems:
        if 0 < problem.line <= len(lines):
            line = shown[problem.line - 1][:LONGEST_LINE]
            problem = replace(problem, text=line)  # noqa: PLW2901 - the same, with its line
        found.append(problem)
    return tuple(found)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names what was probably meant; empty when nothing is close."""
    found = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean `{shorten(found[0])}`?" if found else ""

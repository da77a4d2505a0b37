"""What is wrong with a file, and where: values that its author can act on."""

from __future__ import annotations

import re
import time
from difflib import get_close_matches
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

from duebook.errors import Invalid, shorten
from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "LONGEST_LINE",
    "Enough",
    "Misplaced",
    "Problem",
    "Problems",
    "Refused",
    "did_you_mean",
    "lines_of",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; lines and columns count from 1, and line 0 means the whole file."""

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
        """The line with a mark below its column; empty if the problem is with the whole file."""
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
    """A file, or its text, that cannot be used at all; has its Problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Misplaced(Invalid):
    """Something wrong within a string: at which character, and the node of that string."""

    def __init__(
        self, message: str, offset: int, node: Scalar | None = None, text: str = ""
    ) -> None:
        super().__init__(message)
        self.offset = offset
        self.node = node
        self.text = text


class Placed(Protocol):
    """Anything with a place in the file."""

    line: int
    column: int


class Scalar(Placed, Protocol):
    """A string, and whether it is a block on the lines below its key, as after `|`."""

    is_block: bool


@dataclass(slots=True)
class _Place:
    line: int
    column: int


LONGEST_LINE: Final = 500
"""Characters of a line that are kept."""
_BREAK: Final = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")
MOST: Final = 200
"""Problems of one file that are reported; a larger number has one cause."""


MOST_GUESSED: Final = 20
"""Unknown words of a file for which similar words are looked for."""
MOST_KNOWN: Final = 200
"""Words that an unknown word is compared with."""
LONGEST_WORD: Final = 60


class Enough(Exception):
    """Stop checking a file: too much is wrong with it, or it takes too long."""


class Problems:
    """Collects what is wrong with one file, so that all of it is reported at once. `seconds` is the
    processor time that may be spent on it."""

    def __init__(self, file: str, seconds: float | None = None, source: str = "") -> None:
        self.file = file
        self.source = source
        self._found: list[Problem] = []
        self._seconds = seconds
        self._until = inf if seconds is None else time.thread_time() + seconds

    def add(self, node: Placed, key: str, message: str, hint: str = "") -> None:
        """Raises Enough when there are too many problems."""
        if len(self._found) >= MOST:
            raise Enough
        self._found.append(Problem(self.file, node.line, node.column, key, message, hint))

    def within(self, node: Scalar, text: str, offset: int) -> Placed:
        """The place in the file of a character of a string; the node if that cannot be
        determined."""
        number = text.count("\n", 0, offset)
        start = text.rfind("\n", 0, offset) + 1
        written = text[start:].partition("\n")[0]
        if number and not node.is_block:
            return node
        line = node.line + number + node.is_block
        lines = lines_of(self.source)
        shown = lines[line - 1] if line <= len(lines) else ""
        found = shown.find(written, 0 if node.is_block else node.column - 1)
        return node if found < 0 else _Place(line, found + 1 + offset - start)

    def go_on(self) -> None:
        """Raises Enough when too much processor time has been spent."""
        if time.thread_time() > self._until:
            told = f"checking takes more than {self._seconds:g} s; the rest was not checked"
            self._found.append(Problem(self.file, 0, 0, "", told, "split it into several files"))
            raise Enough

    @property
    def may_guess(self) -> bool:
        """Whether to look for the likely meaning of an unknown word."""
        return len(self._found) < MOST_GUESSED

    def __bool__(self) -> bool:
        return bool(self._found)

    def sorted(self) -> tuple[Problem, ...]:
        """In the order of the file, without duplicates."""
        return tuple(sorted(dict.fromkeys(self._found), key=lambda p: (p.line, p.column)))


def lines_of(text: str) -> list[str]:
    """The lines of a text as YAML counts them."""
    return _BREAK.split(text)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint with the likely meaning of a word; empty when nothing is close."""
    if len(word) > LONGEST_WORD:
        return ""
    likely = [name for name in islice(known, MOST_KNOWN) if len(name) <= LONGEST_WORD]
    found = get_close_matches(word, likely, n=1, cutoff=0.6)
    return f"did you mean `{shorten(found[0])}`?" if found else ""

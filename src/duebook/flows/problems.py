"""What is wrong with a file, and where: values that a person can act on."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Protocol

from duebook.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Problem", "Problems", "did_you_mean"]


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

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}" + (f"; {self.hint}" if self.hint else "")

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class Placed(Protocol):
    """Anything that knows where it stands."""

    line: int
    column: int


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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names what was probably meant; empty when nothing is close."""
    found = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean `{shorten(found[0])}`?" if found else ""

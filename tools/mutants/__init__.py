"""Deliberate faults, each of which a test must detect; reads list.toml, changes nothing."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["LIST", "ROOT", "Mutant", "load"]

ROOT: Final = Path(__file__).parents[2]
LIST: Final = Path(__file__).with_name("list.toml")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: a text in one file that is replaced by another."""

    name: str
    area: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    only: str = ""
    """the store that has the fault, if its SQL is not shared"""

    def applied(self, text: str) -> str:
        """The file with the fault; raises ValueError unless the text to replace occurs once."""
        if (times := text.count(self.old)) != 1:
            raise ValueError(f'mutant "{self.name}": its text is in {self.file} {times} times')
        return text.replace(self.old, self.new)


def load() -> list[Mutant]:
    rows = tomllib.loads(LIST.read_text("utf-8"))["mutant"]
    return [Mutant(**row | {"tests": tuple(row["tests"])}) for row in rows]

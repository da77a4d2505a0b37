"""Every public name, read from the pages of docs/reference and the OpenAPI document: commands
with their options, operations with their fields and responses, methods with their parameters,
settings, reasons, events and metrics. `python -m tools.public_names` prints them, for the list of a
release in tests/contract/names."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from tools.reference.writing import ROOT, api_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["called_names", "public_names", "words_of_tables"]

CALLED: Final = ("cli", "python", "rest")
"""Pages with a heading for each callable, followed by its arguments."""
WORDS: Final = ("events", "metrics", "reasons", "settings")
"""Pages with tables of words."""

_HEADING: Final = re.compile(r"#{2,4} (.+)")
_CODE: Final = re.compile(r"`([^`]+)`")
_OPTION: Final = re.compile(r"--?[a-z][\w-]*")
_PARAMETER: Final = re.compile(r"    (\*{0,2}\w+)(?:: .*| = .*)?,")


def public_names() -> list[str]:
    """All of them, sorted, each once."""
    found = {f"answer {name}" for name in _answers()}
    for page in CALLED:
        found.update(f"{page} {name}" for name in called_names(_page(page)))
    for page in WORDS:
        found.update(f"{page} {name}" for name in words_of_tables(_page(page)))
    return sorted(found)


def called_names(lines: Iterable[str]) -> Iterator[str]:
    """The headings, with each option, field or parameter listed below them."""
    heading, fenced = "", False
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
        elif fenced:
            if parameter := _PARAMETER.fullmatch(line):
                yield f"{heading} {parameter[1]}"
        elif found := _HEADING.fullmatch(line):
            heading = found[1]
            yield heading
        elif heading:
            for word in _words(line, cells=1):
                yield from (f"{heading} {name}" for name in _OPTION.findall(word) or [word])


def words_of_tables(lines: Iterable[str]) -> Iterator[str]:
    """The first word of each row, with the second cell if that is nothing but code."""
    for line in lines:
        if words := _words(line, cells=1):
            second = _CODE.fullmatch(line.split("|")[2].strip())
            yield f"{words[0]} {second[1]}" if second else words[0]


def _words(line: str, cells: int) -> list[str]:
    if not line.startswith("| "):
        return []
    return [word for cell in line.split(" | ")[:cells] for word in _CODE.findall(cell)]


def _answers() -> Iterator[str]:
    for shape, schema in api_document()["components"]["schemas"].items():
        yield from (f"{shape}.{field}" for field in schema.get("properties", ()))


def _page(name: str) -> list[str]:
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8").splitlines()


if __name__ == "__main__":
    sys.stdout.writelines(f"{name}\n" for name in public_names())

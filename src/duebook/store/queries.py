"""Reads files of named SQL: `-- name: verb_noun`, a line on its purpose, then one statement.

A text common to several statements is a block `-- part: noun`; they include it as `{noun}`.
"""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["load_queries", "names_of", "numbered", "percent_named", "positional", "repeated"]

_PARAMETER: Final = re.compile(r"(?<!:):(\w+)")
_VALUES: Final = re.compile(r"(?<=VALUES )\(.*?\)", re.DOTALL)
_HEAD: Final = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_PART: Final = re.compile(r"(?<!')\{(\w+)\}")


def load_queries(path: Path) -> dict[str, str]:
    """Name to statement, without comments; a duplicate name raises ValueError, and an unknown part
    KeyError."""
    found = _HEAD.split(path.read_text("utf-8"))[1:]
    blocks = list(zip(found[::3], found[1::3], found[2::3], strict=True))
    if len({name for _, name, _ in blocks}) < len(blocks):
        raise ValueError(f"a query appears twice in {path.name}")
    bodies = {"name": dict[str, str](), "part": dict[str, str]()}
    for kind, name, body in blocks:
        lines = (line for line in body.splitlines() if not line.startswith("--"))
        bodies[kind][name] = "\n".join(lines).strip()
    parts = bodies["part"]
    return {
        name: _PART.sub(lambda part: parts[part[1]], sql) for name, sql in bodies["name"].items()
    }


def positional(sql: str) -> tuple[str, Callable[[Mapping[str, object]], tuple[object, ...]]]:
    """A statement with `?` for its names, and a function that picks their values from a mapping.

    Drivers bind batches considerably faster by position than by name.
    """
    names = _PARAMETER.findall(sql)
    pick = itemgetter(*names) if len(names) > 1 else lambda values: tuple(values[n] for n in names)
    return _PARAMETER.sub("?", sql), pick


def repeated(sql: str, rows: int) -> str:
    """An INSERT of one row, without parentheses inside it, as one of this many rows."""
    return _VALUES.sub(lambda row: ", ".join([row[0]] * rows), sql, count=1)


def percent_named(sql: str) -> str:
    """A statement with `%(name)s` for its names, as psycopg reads it."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


def numbered(sql: str) -> str:
    """A statement with `$1` for the first of its names, and so on, as PREPARE reads it."""
    places = {name: place for place, name in enumerate(names_of(sql), 1)}
    return _PARAMETER.sub(lambda found: f"${places[found[1]]}", sql)


def names_of(sql: str) -> list[str]:
    """The parameters of a statement, in order, each once."""
    return list(dict.fromkeys(_PARAMETER.findall(sql)))

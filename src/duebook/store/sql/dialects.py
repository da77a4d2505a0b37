"""Turns the statements that the databases share into those that one database reads.

They are PostgreSQL's SQL, with three idioms more. From `queries.sql` SQLite gets

    = ANY (:ids::text[])                 IN (SELECT value FROM json_each(:ids))
    unnest(:ids::text[]) AS w (value)    json_each(:ids) AS w
    :now::timestamptz                    :now
    octet_length(data)                   length(CAST(data AS BLOB))
    FOR UPDATE, FOR KEY SHARE            nothing: it has one writer at a time
    VALUES (:id::text[], 1)              VALUES (:id, 1), executed for each row

and PostgreSQL gets

    VALUES (:id::text[], 1)              SELECT v.id, 1 FROM unnest(:id::text[]) AS v (id)
    INDEXED BY runs_active               nothing: it has no such hints
    rowid                                place, which it numbers runs by

Anything else that only one of them understands is an error when the file is loaded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["POSTGRES", "SQLITE", "Dialect"]


@dataclass(frozen=True)
class Dialect:
    """What a database reads instead of each idiom, and what it would not understand."""

    name: str
    idioms: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]
    foreign: str

    def read(self, shared: Mapping[str, str]) -> dict[str, str]:
        """The shared statements in this dialect; what it would not understand is a ValueError."""
        queries = {name: self.translate(sql) for name, sql in shared.items()}
        for name, sql in queries.items():
            if found := re.search(self.foreign, sql):
                raise ValueError(f'{name}: {self.name} does not understand "{found[0]}"')
        return queries

    def translate(self, sql: str) -> str:
        for idiom, own in self.idioms:
            sql = re.sub(idiom, own, sql)
        return sql


def _unnest(row: re.Match[str]) -> str:
    """A row of VALUES that are arrays, as a SELECT of as many rows as these have elements."""
    arrays = dict.fromkeys(re.findall(r":(\w+)(::\w+\[\])", row[1]))
    columns = re.sub(r":(\w+)::\w+\[\]", r"v.\1", row[1])
    values = ", ".join(f":{name}{kind}" for name, kind in arrays)
    names = ", ".join(name for name, _ in arrays)
    return f"SELECT {columns} FROM unnest({values}) AS v ({names})"  # noqa: S608


SQLITE: Final = Dialect(
    "SQLite",
    (
        (r"= ANY \(:(\w+)::\w+\[\]\)", r"IN (SELECT value FROM json_each(:\1))"),
        (r"\bunnest\(:(\w+)::\w+\[\]\) AS (\w+) \(value\)", r"json_each(:\1) AS \2"),
        (r"(:\w+)::\w+(?:\[\])?", r"\1"),
        (r"\boctet_length\(([\w.]+)\)", r"length(CAST(\1 AS BLOB))"),
        (r"\s+FOR (?:UPDATE|KEY SHARE)(?: OF \w+)?(?: SKIP LOCKED)?\b", ""),
    ),
    r"::|\b(?:ANY|unnest|octet_length|least|greatest|extract|split_part|LATERAL)\b"
    r"|\bFOR (?:UPDATE|NO|SHARE|KEY)\b|\b(?:NOWAIT|LOCKED)\b",
)
POSTGRES: Final = Dialect(
    "PostgreSQL",
    (
        (r"\bVALUES \(([^()]*::\w+\[\][^()]*)\)", _unnest),
        (r" INDEXED BY \w+", ""),
        (r"\browid\b", "place"),
    ),
    r"\b(?:json_each|rowid|INDEXED|BLOB|instr)\b|\bVALUES[^;]*?\[\]",
)

"""Converts the statements common to all databases to the dialect of one database.

They are PostgreSQL's SQL, with four additional idioms. From `queries.sql` SQLite gets

    = ANY (:ids::text[])                 IN (SELECT value FROM json_each(:ids))
    unnest(:ids::text[]) AS w (value)    json_each(:ids) AS w
    :now::timestamptz                    :now
    octet_length(data)                   length(CAST(data AS BLOB))
    FOR UPDATE, FOR KEY SHARE            nothing: it has one writer at a time
    VALUES (:id::text[], 1)              VALUES (:id, 1), executed for each row
    active_runs, ended_runs              runs: it has one table for both
    MOVE active_runs TO ended_runs SET   UPDATE runs SET

and PostgreSQL gets

    VALUES (:id::text[], 1)              SELECT v.id, 1 FROM unnest(:id::text[]) AS v (id)
    INDEXED BY runs_active               nothing: it has no such hints
    rowid                                place, which it numbers runs by
    MOVE active_runs TO ended_runs SET   a DELETE from one table whose rows go, with what is set,
                                         into an INSERT into the other

Anything else that only one of them understands raises an error when the file is loaded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["POSTGRES", "RUN_COLUMNS", "SQLITE", "Dialect"]


@dataclass(frozen=True)
class Dialect:
    """What a database reads in place of each idiom, and what it would not understand."""

    name: str
    idioms: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]
    foreign: str

    def read(self, shared: Mapping[str, str]) -> dict[str, str]:
        """The shared statements in this dialect; raises ValueError for what it does not
        understand."""
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
    """A row of VALUES that are arrays, as a SELECT of as many rows as the arrays have elements."""
    arrays = dict.fromkeys(re.findall(r":(\w+)(::\w+\[\])", row[1]))
    columns = re.sub(r":(\w+)::\w+\[\]", r"v.\1", row[1])
    values = ", ".join(f":{name}{kind}" for name, kind in arrays)
    names = ", ".join(name for name, _ in arrays)
    return f"SELECT {columns} FROM unnest({values}) AS v ({names})"  # noqa: S608


_COLUMNS: Final = """
    id place namespace schedule_id version due_at origin trigger parent_run_id step flow needs
    queue priority task exclusive lane max_concurrent wakes max_takeovers payload status attempt
    failures losses early_losses session_id created_at ready_at claimed_at started_at finished_at
    expires_at cancel_requested_at reason error exit_code output output_ref output_size
    output_secrets progress progress_text beat_at key options
    interval_start interval_end requested_by planned_by backfill_limit
"""
RUN_COLUMNS: Final = tuple(_COLUMNS.split())
"""The columns of both tables of runs, in their order."""
_MOVE: Final = (
    r"(?s)\AMOVE (?P<source>\w+)(?P<alias> AS \w+)? TO (?P<target>\w+)\s+SET (?P<changes>.*?)"
    r"(?:\nFROM (?P<using>.*?))?\nWHERE (?P<where>.*?)(?:\nRETURNING (?P<returning>.*))?\Z"
)
_CHANGE: Final = re.compile(r"(?:\A|,\s+)(\w+) = ")


def _move(found: re.Match[str]) -> str:
    """Move rows from one table to another with some columns changed. Columns that `v` mentions are
    returned with them; all others are known where they appear, with their type there."""
    _, *parts = _CHANGE.split(found["changes"])
    changes = dict(zip(parts[::2], parts[1::2], strict=True))
    said = {column: value for column, value in changes.items() if "v." in value}
    alias = found["alias"] or ""
    using = f"\n    USING {found['using']}" if found["using"] else ""
    row = alias.removeprefix(" AS ") or found["source"]
    kept = [f"{row}.{name}" for name in RUN_COLUMNS]
    kept += [f"{value} AS new_{name}" for name, value in said.items()]
    values = dict(zip(RUN_COLUMNS, RUN_COLUMNS, strict=True)) | changes
    values |= {column: f"new_{column}" for column in said}
    returning = f"\nRETURNING {found['returning']}" if found["returning"] else ""
    return f"""WITH moved AS (
    DELETE FROM {found["source"]}{alias}{using}
    WHERE {found["where"]}
    RETURNING {", ".join(kept)})
INSERT INTO {found["target"]}{alias} ({", ".join(RUN_COLUMNS)})
SELECT {", ".join(values.values())}
FROM moved{alias}{returning}"""  # noqa: S608


SQLITE: Final = Dialect(
    "SQLite",
    (
        (r"= ANY \(:(\w+)::\w+\[\]\)", r"IN (SELECT value FROM json_each(:\1))"),
        (r"\bunnest\(:(\w+)::\w+\[\]\) AS (\w+) \(value\)", r"json_each(:\1) AS \2"),
        (r"(:\w+)::\w+(?:\[\])?", r"\1"),
        (r"\boctet_length\(([\w.]+)\)", r"length(CAST(\1 AS BLOB))"),
        (r"\s+FOR (?:UPDATE|KEY SHARE)(?: OF \w+)?(?: SKIP LOCKED)?\b", ""),
        (r"\AMOVE (\w+(?: AS \w+)?) TO \w+", r"UPDATE \1"),
        (r"\b(?:active|ended)_runs\b", "runs"),
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
        (_MOVE, _move),
    ),
    r"\b(?:MOVE|json_each|rowid|INDEXED|BLOB|instr)\b|\bVALUES[^;]*?\[\]",
)

"""A user's own tables in a database file: their types and values in PostgreSQL; pure.

SQLite allows any value in any column. A value that does not fit the declared type is rejected, by
table, column and row, and never converted.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import field
from datetime import date, datetime
from datetime import time as clock_time
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from duebook.errors import Conflict, quoted, shorten
from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["OwnColumn", "OwnObject", "OwnTable", "Reference", "checked_rows", "kind_of", "settled"]


@dataclass(frozen=True, slots=True)
class OwnObject:
    """Something in the file that is not Duebook's, or a part of it that cannot be copied."""

    type: str
    """table, view, trigger, index, virtual table; or which part of a table"""
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


@dataclass(frozen=True, slots=True)
class OwnColumn:
    name: str
    declared: str
    kind: str
    """its type in PostgreSQL; empty until determined from the values"""
    not_null: bool = False
    default: str | None = None
    """as SQL that has the same meaning in both databases"""
    counts: bool = False
    """whether it is the row's number, assigned by the database"""


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key to another copied table, or to the same one."""

    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]
    on_update: str
    on_delete: str


@dataclass(frozen=True, slots=True)
class OwnTable:
    """A table of the user's own, as PostgreSQL is to have it."""

    name: str
    columns: tuple[OwnColumn, ...]
    primary_key: tuple[str, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[tuple[str, bool], ...], ...] = ()
    """columns, and whether each is descending"""
    index_names: tuple[str, ...] = ()
    """the names of the indexes in the file"""
    references: tuple[Reference, ...] = ()
    left: tuple[OwnObject, ...] = field(default=())
    """what of it cannot be copied"""


_KINDS: Final = (
    ("BOOL", "boolean"),
    ("INT", "bigint"),
    ("CHAR", "text"),
    ("CLOB", "text"),
    ("TEXT", "text"),
    ("BLOB", "bytea"),
    ("BYTEA", "bytea"),
    ("REAL", "double precision"),
    ("FLOA", "double precision"),
    ("DOUB", "double precision"),
    ("JSON", "jsonb"),
    ("UUID", "uuid"),
    ("TIMESTAMP", ""),
    ("DATETIME", ""),
    ("DATE", "date"),
    ("TIME", "time"),
)
"""Substrings of declared types, in the order in which they are tried."""


def kind_of(declared: str) -> str:
    """The type in PostgreSQL for one declared in SQLite; empty if the values decide."""
    word = declared.upper()
    if not word.strip() or word.strip() == "ANY":
        return ""
    return next((kind for part, kind in _KINDS if part in word), "numeric")


def settled(column: OwnColumn, values: Iterable[Any]) -> str:
    """The type of a column whose declared type leaves it open, determined by its values."""
    if re.search("TIMESTAMP|DATETIME", column.declared.upper()):
        zoned = {_is_zoned(value) for value in values if value is not None}
        return "timestamp with time zone" if zoned == {True} else "timestamp"
    kinds = {_NATURAL[type(value)] for value in values if value is not None}
    if kinds == {"bigint", "double precision"}:
        return "double precision"
    return kinds.pop() if len(kinds) == 1 else "text"


_NATURAL: Final = {int: "bigint", float: "double precision", str: "text", bytes: "bytea"}


def _is_zoned(value: object) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _as(*types: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, types):
            raise TypeError
        return value

    return read


def _boolean(value: Any) -> bool:
    if value not in (0, 1) or not isinstance(value, int):
        raise ValueError
    return bool(value)


def _numeric(value: Any) -> Decimal:
    if isinstance(value, bytes) or not math.isfinite(float(value)):
        raise ValueError
    return Decimal(repr(value) if isinstance(value, float) else value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    value.encode()  # raises a ValueError for text that was not UTF-8
    return value


def _json(value: Any) -> str:
    json.loads(_text(value), parse_constant=lambda _: _refuse())
    if "\\u0000" in value:
        raise ValueError
    return str(value)


def _refuse() -> Any:
    raise ValueError


def _instant(zoned: bool) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        moment = datetime.fromisoformat(_text(value))
        if (moment.tzinfo is not None) != zoned:
            raise ValueError
        return moment

    return read


def _date(value: Any) -> date:
    return date.fromisoformat(_text(value))


def _time(value: Any) -> clock_time:
    return clock_time.fromisoformat(_text(value))


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "bigint": _as(int),
    "boolean": _boolean,
    "double precision": _as(int, float),
    "numeric": _numeric,
    "text": _text,
    "bytea": _as(bytes),
    "jsonb": _json,
    "uuid": lambda value: UUID(_text(value)),
    "date": _date,
    "time": _time,
    "timestamp": _instant(zoned=False),
    "timestamp with time zone": _instant(zoned=True),
}


def checked_rows(
    table: OwnTable, batches: Iterable[Sequence[tuple[Any, ...]]]
) -> Iterator[list[tuple[Any, ...]]]:
    """Rows as PostgreSQL takes them: the name of the row comes first in each, and is dropped.

    Raises Conflict for the first value that does not fit.
    """
    columns = [(column, _READERS[column.kind]) for column in table.columns]
    for batch in batches:
        yield [_checked(table, columns, row) for row in batch]


def _checked(
    table: OwnTable,
    columns: Sequence[tuple[OwnColumn, Callable[[Any], Any]]],
    row: tuple[Any, ...],
) -> tuple[Any, ...]:
    values: list[Any] = []
    for (column, read), value in zip(columns, row[1:], strict=True):
        try:
            if value is None:
                if column.not_null:
                    raise ValueError  # noqa: TRY301
                values.append(None)
            else:
                values.append(read(value))
        except (ValueError, TypeError, InvalidOperation, OverflowError, RecursionError):
            raise Conflict(_misfit(table, column, row[0], value)) from None
    return tuple(values)


def _misfit(table: OwnTable, column: OwnColumn, row: object, value: object) -> str:
    where = f"table {table.name}, column {column.name}, row {shorten(row)}"
    if value is None:
        return f"{where}: it is NULL, which PostgreSQL does not allow; set a value"
    declared = column.declared or "no type"
    shown = quoted(value) if isinstance(value, str | int | float) else type(value).__name__
    return (
        f"{where}: {shown} is not a valid {column.kind}, the PostgreSQL type for {declared}; "
        "correct the value, or leave the table out"
    )

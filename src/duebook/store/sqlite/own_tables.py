"""A user's own tables in a database file, in their form for PostgreSQL."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.store.own_tables import (
    OwnColumn,
    OwnObject,
    OwnTable,
    Reference,
    kind_of,
    settled,
)
from duebook.store.sqlite.migrate import migrate
from duebook.store.sqlite.statements import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["check_references", "list_own_objects", "read_own_rows", "read_own_tables"]

_BATCH: Final = 2_000
_NOT_WORDS: Final = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | \[[^\]]*\] | --[^\n]* | /\*.*?\*/""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
_TEXT: Final = re.compile(r"'(?:[^']|'')*'")
_NUMBERS: Final = ("bigint", "double precision", "numeric")
_NOW: Final = "timezone('UTC', now())"
_DEFAULTS: Final = {
    ("CURRENT_TIMESTAMP", "timestamp"): _NOW,
    ("CURRENT_TIMESTAMP", "timestamp with time zone"): "now()",
    ("CURRENT_TIMESTAMP", "text"): f"to_char({_NOW}, 'YYYY-MM-DD HH24:MI:SS')",
    ("CURRENT_DATE", "date"): f"({_NOW})::date",
    ("0", "boolean"): "false",
    ("1", "boolean"): "true",
    ("FALSE", "boolean"): "false",
    ("TRUE", "boolean"): "true",
}
"""Defaults of SQLite for types of PostgreSQL."""


@cache
def _ours() -> frozenset[str]:
    """The names of everything that Duebook itself creates in a file."""
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate(connection, 0)
        return frozenset(row[0] for row in connection.execute(QUERIES["list_objects"]))


def list_own_objects(connection: sqlite3.Connection) -> list[OwnObject]:
    """What in the file is not Duebook's, by name."""
    kinds = {name: kind for name, kind, _ in connection.execute(QUERIES["list_tables"])}
    found = []
    for name, type_ in connection.execute(QUERIES["list_objects"]):
        kind = kinds.get(name)
        if name not in _ours() and kind != "shadow":
            found.append(OwnObject("virtual table" if kind == "virtual" else type_, name))
    return found


def read_own_tables(connection: sqlite3.Connection, names: Sequence[str]) -> list[OwnTable]:
    """The tables of these names; raises NotFound and Invalid for what cannot be copied."""
    known = {one.name.casefold(): one for one in list_own_objects(connection)}
    exact = [_find(name, known) for name in dict.fromkeys(names)]
    tables = [_read_table(connection, name) for name in dict.fromkeys(exact)]
    by_name = {table.name.casefold(): table for table in tables}
    return [_with_references(connection, table, by_name) for table in tables]


def _find(name: str, known: dict[str, OwnObject]) -> str:
    if name.casefold() in _ours():
        raise Invalid(f'table "{shorten(name)}" belongs to Duebook and is always copied')
    found = known.get(name.casefold())
    if found is None:
        names = sorted(one.name for one in known.values() if one.type == "table")
        there = ", ".join(names) or "none"
        raise NotFound(
            f'there is no table "{shorten(name)}" in the file; your own tables are: {there}'
        )
    if found.type != "table":
        raise Invalid(f'"{found.name}" is a {found.type}, and only tables can be copied')
    return found.name


def _read_table(connection: sqlite3.Connection, name: str) -> OwnTable:
    columns, left = [], list[OwnObject]()
    keys: dict[int, str] = {}
    info = connection.execute("SELECT * FROM pragma_table_xinfo(?)", [name]).fetchall()
    numbered = _is_numbered(connection, name, info)
    for _, column, declared, not_null, default, key, hidden in info:
        if hidden:
            left.append(OwnObject("generated column", f"{name}.{column}"))
            continue
        if key:
            keys[key] = column
        made = OwnColumn(column, declared, kind_of(declared), bool(not_null or key))
        if not made.kind:
            made = replace(made, kind=settled(made, _values(connection, name, column)))
        read = _default(default, made.kind)
        if default is not None and read is None and default.upper() != "NULL":
            left.append(OwnObject("default", f"{name}.{column}"))
        columns.append(replace(made, default=read, counts=bool(numbered and key)))
    (sql,) = connection.execute(QUERIES["get_table_sql"], {"name": name}).fetchone()
    words = _NOT_WORDS.sub(" ", sql).upper()
    left += [OwnObject(f"{word} of table", name) for word in ("CHECK", "COLLATE") if word in words]
    primary = tuple(keys[place] for place in sorted(keys))
    table = OwnTable(name, tuple(columns), primary, left=tuple(left))
    return _with_indexes(connection, table)


def _is_numbered(connection: sqlite3.Connection, name: str, info: Sequence[Any]) -> bool:
    """Whether the key is the row's number, assigned by SQLite."""
    keys = [row for row in info if row[5]]
    return len(keys) == 1 and keys[0][2].upper() == "INTEGER" and _row_name(connection, name) != ""


def _row_name(connection: sqlite3.Connection, name: str) -> str:
    """The column that identifies rows of the table; empty if it has no row numbers."""
    ((without,),) = connection.execute(
        "SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'", [name]
    )
    columns = {
        row[1].casefold()
        for row in connection.execute("SELECT * FROM pragma_table_xinfo(?)", [name])
    }
    free = [word for word in ("rowid", "_rowid_", "oid") if word not in columns]
    return "" if without or not free else free[0]


def _values(connection: sqlite3.Connection, table: str, column: str) -> Iterator[Any]:
    sql = f"SELECT {_name(column)} FROM {_name(table)}"  # noqa: S608 - quoted
    return (row[0] for row in connection.execute(sql))


def _default(text: str | None, kind: str) -> str | None:
    if text is None:
        return None
    if kind in _NUMBERS and _NUMBER.fullmatch(text):
        return text
    if kind == "text" and _TEXT.fullmatch(text):
        return text
    return _DEFAULTS.get((text.upper(), kind))


def _with_indexes(connection: sqlite3.Connection, table: OwnTable) -> OwnTable:
    carried = {column.name for column in table.columns}
    uniques, indexes, names, left = list[Any](), list[Any](), list[str](), list(table.left)
    for _, index, unique, origin, partial in connection.execute(
        "SELECT * FROM pragma_index_list(?)", [table.name]
    ).fetchall():
        if origin == "pk":
            continue
        keys = [
            row
            for row in connection.execute("SELECT * FROM pragma_index_xinfo(?)", [index])
            if row[5]
        ]
        plain = all(row[2] in carried and row[4].upper() == "BINARY" for row in keys)
        if partial or not plain:
            columns = ", ".join(str(row[2] or "an expression") for row in keys)
            made = OwnObject("unique constraint", f"{table.name} ({columns})")
            left.append(OwnObject("index", index) if origin == "c" else made)
            continue
        names.append(index)
        if unique:
            uniques.append(tuple(row[2] for row in keys))
        else:
            indexes.append(tuple((row[2], bool(row[3])) for row in keys))
    return replace(
        table,
        uniques=tuple(uniques),
        indexes=tuple(indexes),
        index_names=tuple(names),
        left=tuple(left),
    )


def _with_references(
    connection: sqlite3.Connection, table: OwnTable, carried: dict[str, OwnTable]
) -> OwnTable:
    references, left = [], list(table.left)
    for made in _foreign_keys(connection, table.name).values():
        parent = carried.get(made.parent.casefold())
        columns = made.parent_columns or (parent.primary_key if parent else ())
        if parent is None or not _match(table, made.columns, parent, columns):
            name = f"{table.name} ({', '.join(made.columns)}) to {made.parent}"
            left.append(OwnObject("foreign key", name))
        else:
            references.append(replace(made, parent=parent.name, parent_columns=columns))
    return replace(table, references=tuple(references), left=tuple(left))


def _foreign_keys(connection: sqlite3.Connection, name: str) -> dict[int, Reference]:
    found: dict[int, Reference] = {}
    rows = connection.execute("SELECT * FROM pragma_foreign_key_list(?)", [name])
    for number, _, parent, column, target, on_update, on_delete, _ in rows:
        made = found.get(number) or Reference((), parent, (), on_update, on_delete)
        targets = made.parent_columns if target is None else (*made.parent_columns, target)
        found[number] = replace(made, columns=(*made.columns, column), parent_columns=targets)
    return found


def _match(
    table: OwnTable, columns: Sequence[str], parent: OwnTable, targets: Sequence[str]
) -> bool:
    """Whether PostgreSQL can compare the one with the other."""
    ours = {column.name: column.kind for column in table.columns}
    theirs = {column.name: column.kind for column in parent.columns}
    unique = [sorted(key) for key in (parent.primary_key, *parent.uniques)]
    return (
        len(columns) == len(targets)
        and [ours.get(name) for name in columns] == [theirs.get(name, "?") for name in targets]
        and sorted(targets) in unique
    )


def check_references(connection: sqlite3.Connection, table: OwnTable) -> None:
    """Raises Conflict for a row whose parent is missing, as SQLite need not have checked."""
    carried = {(one.columns, one.parent.casefold()) for one in table.references}
    keys = _foreign_keys(connection, table.name)
    rows = connection.execute("SELECT * FROM pragma_foreign_key_check(?)", [table.name])
    for _, row, parent, number in rows:
        if (keys[number].columns, parent.casefold()) in carried:
            columns = ", ".join(keys[number].columns)
            raise Conflict(
                f"table {table.name}, column {columns}, row {row}: the row that it refers "
                f"to in {parent} does not exist, which PostgreSQL would reject; correct it, or "
                "leave the table out"
            )


def read_own_rows(
    connection: sqlite3.Connection, table: OwnTable
) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a table in batches: the name of the row, then its values."""
    names = ", ".join(_name(column.name) for column in table.columns)
    row = _row_name(connection, table.name) or " || ', ' || ".join(
        f"quote({_name(column)})" for column in table.primary_key
    )
    connection.text_factory = _decoded
    try:
        cursor = connection.execute(f"SELECT {row}, {names} FROM {_name(table.name)}")  # noqa: S608
        while batch := cursor.fetchmany(_BATCH):
            yield batch
    finally:
        connection.text_factory = str


def _decoded(text: bytes) -> str:
    """Text that is not UTF-8 is rejected later, with its row."""
    return text.decode(errors="surrogateescape")


def _name(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'

"""Creates a user's own tables in PostgreSQL, inside the transaction that fills the database.

They go into the first schema of the connection's search path that is not Duebook's.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from duebook.errors import Conflict, printable
from duebook.store.postgres.connection import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duebook.store.own_tables import OwnColumn, OwnTable

__all__ = ["check_free", "create", "find_schema", "finish", "list_missing"]

LONGEST_NAME: Final = 63
"""Bytes of a name; PostgreSQL truncates a longer one."""
_SCHEMA: Final = b"""
SELECT s.name, has_schema_privilege(s.name, 'CREATE')
FROM unnest(current_schemas(false)) WITH ORDINALITY AS s (name, place)
WHERE s.name <> %s AND s.name NOT LIKE 'pg\\_%%'
ORDER BY s.place LIMIT 1
"""
_FOUND: Final = b"""
SELECT c.relname FROM pg_class AS c
WHERE c.relnamespace = to_regnamespace(quote_ident(%s)) AND c.relname = ANY (%s)
"""


def find_schema(connection: psycopg.Connection[tuple[Any, ...]], place: str) -> str:
    """The schema for the user's tables; raises Conflict when there is none."""
    row = connection.execute(_SCHEMA, [SCHEMA]).fetchone()
    if row is None:
        raise Conflict(
            f"the search_path at the {place} has only Duebook's schema; create a schema for your "
            "tables, or set the search_path of this user"
        )
    name, may_create = row
    if not may_create:
        raise Conflict(
            f'this user may not create tables in schema "{name}" of the {place}; grant CREATE on it'
        )
    return str(name)


def list_missing(
    connection: psycopg.Connection[tuple[Any, ...]], schema: str, names: Sequence[str]
) -> list[str]:
    """Which of the tables the schema does not have."""
    there = {row[0] for row in connection.execute(_FOUND, [schema, list(names)])}
    return [name for name in names if name not in there]


def check_free(
    connection: psycopg.Connection[tuple[Any, ...]], schema: str, tables: Sequence[OwnTable]
) -> None:
    """Raises Conflict when a name is taken or too long."""
    names = [table.name for table in tables]
    if taken := sorted(set(names) - set(list_missing(connection, schema, names))):
        raise Conflict(
            f'schema "{schema}" already has "{taken[0]}"; rename or drop it there, or leave out '
            f"--with-table {taken[0]}"
        )
    for table in tables:
        for name in (table.name, *(column.name for column in table.columns)):
            if len(name.encode()) > LONGEST_NAME:
                raise Conflict(
                    f'table {table.name}: the name "{name}" is longer than the {LONGEST_NAME} '
                    "bytes that PostgreSQL keeps; rename it"
                )


def create(
    connection: psycopg.Connection[tuple[Any, ...]], schema: str, table: OwnTable
) -> sql.Composed:
    """Create an empty table; returns the statement that fills it."""
    place = sql.Identifier(schema, table.name)
    parts = [_column(column) for column in table.columns]
    if table.primary_key:
        parts.append(sql.SQL("PRIMARY KEY ({})").format(_names(table.primary_key)))
    parts += [sql.SQL("UNIQUE ({})").format(_names(unique)) for unique in table.uniques]
    with _refused(table):
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(place, sql.SQL(", ").join(parts)))
    columns = _names([column.name for column in table.columns])
    return sql.SQL("COPY {} ({}) FROM STDIN").format(place, columns)


def finish(
    connection: psycopg.Connection[tuple[Any, ...]], schema: str, tables: Sequence[OwnTable]
) -> None:
    """Give filled tables their indexes, references and counters."""
    for table in tables:
        place = sql.Identifier(schema, table.name)
        with _refused(table):
            for index in table.indexes:
                columns = [
                    sql.SQL("{} DESC" if down else "{}").format(sql.Identifier(name))
                    for name, down in index
                ]
                connection.execute(
                    sql.SQL("CREATE INDEX ON {} ({})").format(place, sql.SQL(", ").join(columns))
                )
            for column in table.columns:
                if column.counts:
                    _go_on_counting(connection, schema, table, column)
    for table in tables:
        with _refused(table):
            for one in table.references:
                connection.execute(
                    sql.SQL(
                        "ALTER TABLE {} ADD FOREIGN KEY ({}) REFERENCES {} ({})"
                        " ON UPDATE {} ON DELETE {}"
                    ).format(
                        sql.Identifier(schema, table.name),
                        _names(one.columns),
                        sql.Identifier(schema, one.parent),
                        _names(one.parent_columns),
                        sql.SQL(one.on_update),
                        sql.SQL(one.on_delete),
                    )
                )


def _go_on_counting(
    connection: psycopg.Connection[tuple[Any, ...]],
    schema: str,
    table: OwnTable,
    column: OwnColumn,
) -> None:
    place, name = sql.Identifier(schema, table.name), sql.Identifier(column.name)
    connection.execute(
        sql.SQL(
            "SELECT setval(pg_get_serial_sequence({}, {}), greatest(max({}), 1), max({}) >= 1)"
            " FROM {} HAVING max({}) IS NOT NULL"
        ).format(
            sql.Literal(place.as_string(connection)),
            sql.Literal(column.name),
            name,
            name,
            place,
            name,
        )
    )


def _column(column: OwnColumn) -> sql.Composable:
    parts: list[sql.Composable] = [sql.Identifier(column.name), sql.SQL(column.kind)]
    if column.counts:
        parts.append(sql.SQL("GENERATED BY DEFAULT AS IDENTITY"))
    elif column.default is not None:
        # a number or text in SQLite's form, or one of a few expressions of ours
        parts.append(sql.SQL("DEFAULT ") + sql.SQL(column.default))
    if column.not_null:
        parts.append(sql.SQL("NOT NULL"))
    return sql.SQL(" ").join(parts)


def _names(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


@contextmanager
def _refused(table: OwnTable) -> Iterator[None]:
    try:
        yield
    except (psycopg.ProgrammingError, psycopg.DataError, psycopg.IntegrityError) as error:
        text = printable(str(error).splitlines()[0])
        raise Conflict(
            f"PostgreSQL rejected table {table.name}: {text}; correct it, or leave it out"
        ) from error

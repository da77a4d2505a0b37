"""A PostgreSQL database that receives the contents of a file: everything in one transaction.

It learns its tables and columns from the database itself.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import errors, sql

from duebook.closing import Closing
from duebook.errors import Conflict, Unavailable, printable
from duebook.ids import new_id
from duebook.lazy_dataclasses import dataclass
from duebook.store.postgres.connection import SCHEMA, translated
from duebook.store.postgres.hints import hint
from duebook.store.postgres.migrate import migrate
from duebook.store.postgres.own_tables import (
    check_free,
    create,
    find_schema,
    finish,
    list_missing,
)
from duebook.store.postgres.route import Route
from duebook.store.postgres.statements import TEXTS
from duebook.store.sql.rows import from_micros
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from duebook.store.own_tables import OwnTable

__all__ = ["ARRIVING_RUNS", "SPREAD_RUNS", "Column", "Target"]

_BEGIN: Final = f"""
BEGIN;
SET LOCAL search_path = {SCHEMA};
SET LOCAL timezone = 'UTC';
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = '10s';
SET LOCAL idle_in_transaction_session_timeout = 0
"""
_FILLED_BY_NODES: Final = ("migrations", "meta", "secrets", "arrivals", "node_sessions", "leases")
"""Allowed in an empty database: nodes that wait for work there do no harm."""
_TABLES_OF_RUNS: Final = ("active_runs", "ended_runs", "due_keys")
"""The tables for what a file has in one table, runs."""
ARRIVING_RUNS: Final = """
CREATE TEMPORARY TABLE arriving_runs (LIKE active_runs INCLUDING DEFAULTS) ON COMMIT DROP
"""
SPREAD_RUNS: Final = """
INSERT INTO active_runs SELECT * FROM arriving_runs WHERE finished_at IS NULL;
INSERT INTO ended_runs SELECT * FROM arriving_runs WHERE finished_at IS NOT NULL;
INSERT INTO due_keys (schedule_id, due_at, run_id)
SELECT schedule_id, due_at, id FROM arriving_runs WHERE due_at IS NOT NULL;
SELECT setval('run_places', max(place)) FROM arriving_runs
"""
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "timestamp with time zone": from_micros,
    "boolean": lambda value: None if value is None else bool(value),
}


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: str
    identity: bool


class Target(Closing):
    """The new database, created if missing; raises Unavailable, and Conflict like `migrate`."""

    def __init__(self, url: str) -> None:
        route = Route(url)
        self.place = route.place
        with translated(self.place):
            self._connection = route.connect()
        try:
            with translated(self.place):
                migrate(self._connection)
            self._connection.patience = None  # many rows take their time
            self._schema: str | None = None
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def now(self) -> datetime:
        with translated(self.place):
            rows = self._connection.execute("SELECT clock_timestamp()").fetchall()
        now: datetime = rows[0][0]
        return now

    def has_arrived(self, move_id: str) -> bool:
        """Whether that copy was committed; waits for one that is being committed."""
        with translated(self.place):
            self._lock()
            values = {"id": move_id}
            found = self._connection.execute(TEXTS["get_arrival"], values).fetchone()
            self.give_up()
            return found is not None

    def begin(self) -> dict[str, list[Column]]:
        """Lock the database against other copies; returns the columns of each table, in an order in
        which they can be filled. Raises Conflict when it is not empty."""
        with translated(self.place):
            self._lock()
            columns: dict[str, list[Column]] = {}
            for table, name, kind, identity in self._all("list_columns"):
                columns.setdefault(table, []).append(Column(name, kind, identity == "YES"))
            columns = _with_one_table_of_runs(columns)
            order = TopologicalSorter({table: set[str]() for table in columns})
            for table, needed in self._all("list_references"):
                if needed != table:
                    order.add(table, needed)
            tables = {table: columns[table] for table in order.static_order()}
            for table in sorted(tables, key=lambda name: name != "schedules"):
                if table not in _FILLED_BY_NODES and self._any(table):
                    raise Conflict(
                        f"the {self.place} is not empty: it has {table.replace('_', ' ')}; "
                        "copy into an empty database"
                    )
            return tables

    def _lock(self) -> None:
        self._connection.execute(_BEGIN)
        try:
            self._connection.execute(TEXTS["lock_schedules"])
        except errors.LockNotAvailable as error:
            raise Unavailable(
                f"another copy into the {self.place} is in progress, or was just interrupted; "
                "try again soon"
            ) from error

    def fill(
        self,
        table: str,
        columns: Sequence[Column],
        batches: Iterable[list[tuple[Any, ...]]],
        said: Callable[[int], None],
    ) -> int:
        """Insert rows in SQLite's form; returns how many. `said` is called with the number so
        far."""
        if table == "runs":
            return self._fill_runs(columns, batches, said)
        number = self._copy(table, _copy_into(table, columns), _read(batches, columns), said)
        self._go_on_counting(table, columns)
        return number

    def _fill_runs(
        self,
        columns: Sequence[Column],
        batches: Iterable[list[tuple[Any, ...]]],
        said: Callable[[int], None],
    ) -> int:
        """Active and ended runs go into separate tables."""
        with translated(self.place):
            self._connection.execute(ARRIVING_RUNS)
        copy = _copy_into("arriving_runs", columns)
        number = self._copy("runs", copy, _read(batches, columns), said)
        try:
            with translated(self.place):
                self._connection.execute(SPREAD_RUNS)
        except psycopg.IntegrityError as error:
            raise _not_kept("runs", error) from error
        return number

    def _copy(
        self,
        table: str,
        statement: sql.Composed,
        batches: Iterable[list[tuple[Any, ...]]],
        said: Callable[[int], None],
    ) -> int:
        number = 0
        try:
            with translated(self.place), self._connection.cursor() as cursor:
                with cursor.copy(statement) as copy:
                    for batch in batches:
                        for row in batch:
                            copy.write_row(row)
                        number += len(batch)
                        said(number)
                if cursor.rowcount != number:
                    raise Conflict(f"{number} rows of {table} were sent, {cursor.rowcount} arrived")
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            raise _not_kept(table, error) from error
        return number

    def _go_on_counting(self, table: str, columns: Sequence[Column]) -> None:
        for column in columns:
            if column.identity:
                statement = sql.SQL(
                    "SELECT setval(pg_get_serial_sequence({}, {}), max({})) FROM {}"
                ).format(
                    sql.Literal(f"{SCHEMA}.{table}"),
                    sql.Literal(column.name),
                    sql.Identifier(column.name),
                    sql.Identifier(table),
                )
                self._connection.execute(statement)

    # -- a user's own tables

    def find_own_schema(self) -> str:
        """The schema for a user's own tables; call it before `begin`. Raises Conflict when there is
        none."""
        if self._schema is None:
            with translated(self.place):
                self._schema = find_schema(self._connection, self.place)
        return self._schema

    def list_missing(self, names: Sequence[str]) -> list[str]:
        """Which of these tables a user does not have here."""
        schema = self.find_own_schema()
        with translated(self.place):
            return list_missing(self._connection, schema, names)

    def rehearse(self, tables: Sequence[OwnTable]) -> None:
        """Create empty tables and undo that; raises Conflict for what cannot be created."""
        schema = self.find_own_schema()
        with translated(self.place):
            self._connection.execute(_BEGIN)
            try:
                check_free(self._connection, schema, tables)
                for table in tables:
                    create(self._connection, schema, table)
                finish(self._connection, schema, tables)
            finally:
                self.give_up()

    def carry(
        self,
        tables: Sequence[OwnTable],
        rows: Callable[[OwnTable], Iterable[list[tuple[Any, ...]]]],
        said: Callable[[OwnTable], Callable[[int], None]],
    ) -> dict[str, int]:
        """Create and fill a user's own tables, in the transaction of `begin`; returns how many rows
        each has."""
        schema, carried = self.find_own_schema(), {}
        with translated(self.place):
            check_free(self._connection, schema, tables)
            for table in tables:
                statement = create(self._connection, schema, table)
                carried[table.name] = self._copy(table.name, statement, rows(table), said(table))
            finish(self._connection, schema, tables)
        return carried

    def sign(self, move_id: str, source: str, at: datetime) -> None:
        """Leave the proof of this copy."""
        values = {"id": move_id, "place": source, "now": at}
        with translated(self.place):
            self._connection.execute(TEXTS["insert_arrival"], values)

    def keep(self) -> None:
        """Commit what was filled; raises Unavailable if the result is unknown."""
        try:
            done = self._connection.execute("COMMIT").statusmessage
        except psycopg.Error as error:
            raise Unavailable(
                f"the {self.place} disconnected: it is unknown whether the copy was committed; "
                "run duebook db copy again to find out"
            ) from error
        if done != "COMMIT":
            raise Unavailable(
                f"the {self.place} did not commit the copy; run duebook db copy again"
            )

    def give_up(self) -> None:
        """Undo what was filled; an interrupted copy has been undone already."""
        with suppress(psycopg.Error):
            self._connection.execute("ROLLBACK")

    def welcome(self) -> None:
        """Update the database's statistics, and notify nodes that wait there."""
        with translated(self.place):
            self._connection.execute("ANALYZE")
            self._connection.execute(hint(new_id(), ~News(0)))

    def _all(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(TEXTS[query]).fetchall()

    def _any(self, table: str) -> bool:
        statement = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.Identifier(table))
        return self._connection.execute(statement).fetchone() is not None


def _with_one_table_of_runs(columns: dict[str, list[Column]]) -> dict[str, list[Column]]:
    """The tables in the form of a file: runs are in one table, numbered by creation."""
    found = {name: known for name, known in columns.items() if name not in _TABLES_OF_RUNS}
    found["runs"] = [
        replace(column, identity=column.name == "place") for column in columns["active_runs"]
    ]
    return found


def _copy_into(table: str, columns: Sequence[Column]) -> sql.Composed:
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
    return sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)


def _not_kept(table: str, error: psycopg.Error) -> Conflict:
    text = printable(str(error).splitlines()[0])
    return Conflict(f"PostgreSQL cannot store a row of {table}: {text}")


def _read(
    batches: Iterable[list[tuple[Any, ...]]], columns: Sequence[Column]
) -> Iterator[list[tuple[Any, ...]]]:
    """Convert rows of SQLite for PostgreSQL."""
    readers = [(n, _READERS[c.kind]) for n, c in enumerate(columns) if c.kind in _READERS]
    for batch in batches:
        rows = []
        for row in batch:
            values = list(row)
            for place, read in readers:
                values[place] = read(values[place])
            rows.append(tuple(values))
        yield rows

"""Executes named statements of one transaction on a SQLite file, at the file's own time."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from duebook.store.queries import load_queries, positional, repeated
from duebook.store.sql.dialects import SQLITE
from duebook.store.sql.rows import from_micros, micros, moment, to_micros
from duebook.store.sql.statements import COMMON, Cursor, Row, Statements, Values
from duebook.store.sqlite.migrate import available

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta

    from duebook.clock import Ratchet
    from duebook.store.outside import Outside
    from duebook.store.sql.definitions import Definitions

__all__ = ["QUERIES", "SqliteStatements"]

QUERIES: Final = SQLITE.read(COMMON) | load_queries(Path(__file__).with_name("queries.sql"))
QUERIES["get_latest_run_named"] = QUERIES["list_latest_runs"].replace(
    "json_each(:ids)", f"({QUERIES['find_schedule'].replace('SELECT id', 'SELECT id AS value')})"
)
POSITIONAL: Final = {name: positional(sql) for name, sql in QUERIES.items()}
ROWS_AT_ONCE: Final = 100


class SqliteStatements(Statements):
    """Instants are integers, microseconds since 1970; lists are JSON.

    The caller starts and ends the transaction.
    """

    stamp = staticmethod(to_micros)
    time = staticmethod(from_micros)

    def __init__(
        self,
        connection: sqlite3.Connection | Outside,
        clock: Ratchet,
        hook: Callable[[str], None] | None,
        definitions: Definitions,
        nodes: dict[str, str],
    ) -> None:
        super().__init__(hook, definitions, nodes)
        self.connection = connection
        self._clock = clock

    @property
    def newest_schema(self) -> int:
        return available()[-1].number

    def hold_schema(self) -> None:
        """Nothing to do: only one connection writes at a time, a migration as well."""

    @cached_property
    def now(self) -> datetime:
        """The machine's clock, but never earlier than any time recorded in this file."""
        row = self.one("read_high_water")
        now = self._clock()
        return max(now, moment(row[0])) if row else now

    @property
    def behind(self) -> timedelta:
        return self._clock.behind(self.now)

    @property
    def ahead(self) -> timedelta:
        return -self.behind

    def clock_now(self) -> datetime:
        return self._clock.machine()

    def keep_time(self) -> None:
        """Record `now`, so that a clock set back fires nothing twice."""
        self.run("write_high_water", now=self.now)

    def _send(self, query: str, values: Values) -> Cursor:
        return self.connection.execute(QUERIES[query], _bound(values))

    def many(self, query: str, /, rows: Iterable[Values]) -> int:
        pick = POSITIONAL[query][1]
        return self.rows(query, [pick(_bound(row)) for row in rows])

    def rows(self, query: str, /, rows: Iterable[Row]) -> int:
        self._point(f"before:{query}")
        cursor = self.connection.executemany(POSITIONAL[query][0], rows)
        self._point(f"after:{query}")
        return cursor.rowcount

    def insert(self, query: str, /, rows: Sequence[Row]) -> int:
        """Many at a time: half the cost of a row is that of its statement. In their order, which is
        that of the positions of events."""
        self._point(f"before:{query}")
        sql, _ = POSITIONAL[query]
        full = len(rows) - len(rows) % ROWS_AT_ONCE
        inserted = 0
        for start in range(0, full, ROWS_AT_ONCE):
            values = list(chain.from_iterable(rows[start : start + ROWS_AT_ONCE]))
            inserted += self.connection.execute(_several(sql), values).rowcount
        inserted += self.connection.executemany(sql, rows[full:]).rowcount
        self._point(f"after:{query}")
        return inserted


def _bound(values: Values) -> Values:
    """Values in SQLite's form."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return micros(value)
    return json.dumps(value) if isinstance(value, list) else value


@lru_cache
def _several(sql: str) -> str:
    return repeated(sql, ROWS_AT_ONCE)

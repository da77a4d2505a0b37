"""Executes named statements of one transaction on a SQLite file, at the file's own time."""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, NotFound, shorten
from duebook.store.queries import load_queries, positional, repeated
from duebook.store.sqlite.rows import moment, read_run, to_micros

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime, timedelta

    from duebook.clock import Ratchet
    from duebook.model.run import Run
    from duebook.store.sqlite.planning import Definitions

__all__ = ["QUERIES", "Row", "Statements"]

QUERIES: Final = load_queries(Path(__file__).with_name("queries.sql"))
POSITIONAL: Final = {name: positional(sql) for name, sql in QUERIES.items()}
ROWS_AT_ONCE: Final = 100
Row = tuple[Any, ...]


class Statements:
    """What the verbs of a transaction stand on; the caller opens and ends the transaction.

    `hook` is called before and after every statement; `definitions` is what the store has read.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        clock: Ratchet,
        hook: Callable[[str], None] | None,
        definitions: Definitions,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._hook = hook
        self._known = definitions

    @cached_property
    def now(self) -> datetime:
        """The machine's clock, but never earlier than anybody has seen in this file."""
        row = self._one("read_high_water")
        now = self._clock()
        return max(now, moment(row[0])) if row else now

    @property
    def behind(self) -> timedelta:
        return self._clock.behind(self.now)

    def keep_time(self) -> None:
        """Remember `now`, so that a clock set back fires nothing twice."""
        self._run("write_high_water", now=to_micros(self.now))

    def get_run(self, run_id: str) -> Run:
        row = self._one("get_run", id=run_id)
        if row is None:
            raise NotFound(f'run "{shorten(run_id)}" does not exist')
        return read_run(row)

    def _wake(self, wakes: int, schedule_id: str | None) -> None:
        if wakes and schedule_id is not None:
            self._run("wake_schedule", schedule_id=schedule_id, now=to_micros(self.now))

    def _run(self, query: str, /, **parameters: object) -> sqlite3.Cursor:
        self._point(f"before:{query}")
        try:
            cursor = self._connection.execute(QUERIES[query], parameters)
        except UnicodeEncodeError:
            raise Invalid(
                "a text with halves of characters can be neither stored nor found"
            ) from None
        self._point(f"after:{query}")
        return cursor

    def _many(self, query: str, /, parameters: Iterable[dict[str, object]]) -> int:
        """Execute it for each; returns how many rows changed."""
        return self._rows(query, map(POSITIONAL[query][1], parameters))

    def _rows(self, query: str, /, rows: Iterable[Row]) -> int:
        """As `_many`, for rows whose values are in the statement's order."""
        self._point(f"before:{query}")
        cursor = self._connection.executemany(POSITIONAL[query][0], rows)
        self._point(f"after:{query}")
        return cursor.rowcount

    def _insert(self, query: str, /, rows: Sequence[Row]) -> int:
        """As `_rows`, but many at a time: half the cost of a row is that of its statement."""
        self._point(f"before:{query}")
        sql, _ = POSITIONAL[query]
        full = len(rows) - len(rows) % ROWS_AT_ONCE
        inserted = self._connection.executemany(sql, rows[full:]).rowcount
        for start in range(0, full, ROWS_AT_ONCE):
            values = list(chain.from_iterable(rows[start : start + ROWS_AT_ONCE]))
            inserted += self._connection.execute(_several(sql), values).rowcount
        self._point(f"after:{query}")
        return inserted

    def _all(self, query: str, /, **parameters: object) -> list[Row]:
        return self._run(query, **parameters).fetchall()

    def _one(self, query: str, /, **parameters: object) -> Row | None:
        rows = self._all(query, **parameters)
        return rows[0] if rows else None

    def _value(self, query: str, /, **parameters: object) -> Any:
        row = self._one(query, **parameters)
        return row[0] if row else None

    def _point(self, name: str) -> None:
        if self._hook is not None:
            self._hook(name)


@lru_cache
def _several(sql: str) -> str:
    return repeated(sql, ROWS_AT_ONCE)

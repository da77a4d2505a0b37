"""Executes named statements of one transaction in PostgreSQL, at the database's time."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg

from duebook.clock import utc_now
from duebook.store.postgres.arrays import array_text
from duebook.store.postgres.migrate import available
from duebook.store.queries import load_queries, names_of, percent_named
from duebook.store.sql.dialects import POSTGRES
from duebook.store.sql.statements import COMMON, Cursor, Row, Statements, Values
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from duebook.store.outside import Outside
    from duebook.store.sql.definitions import Definitions
    from duebook.store.sql.statements import Asked

__all__ = ["QUERIES", "TEXTS", "Begun", "PostgresStatements", "message_of"]

QUERIES: Final = POSTGRES.read(COMMON) | load_queries(Path(__file__).with_name("queries.sql"))
QUERIES["take_claimable"] = f"{QUERIES['list_claimable']}\nFOR UPDATE OF r SKIP LOCKED"
QUERIES["share_directories"] = f"{QUERIES['list_directories']}\nFOR SHARE OF d SKIP LOCKED"
_HERE: Final = {"queue": "spot.queue", "namespace": "spot.namespace", "now": "at.now", "limit": "1"}
QUERIES["get_latest_run_named"] = QUERIES["list_latest_runs"].replace(
    "unnest(:ids::text[])", f"({QUERIES['find_schedule']})"
)
QUERIES["look_for_work"] = QUERIES["look_for_work"].replace(
    "claimable",
    re.sub(rf":({'|'.join(_HERE)})\b", lambda m: _HERE[m[1]], QUERIES["list_claimable"]),
)
FEW: Final = 100
"""Rows of several kinds that are written in one message."""
_ARRAY: Final = re.compile(r":(\w+)::(\w+)\[\]")
TEXTS: Final = {name: percent_named(sql).encode() for name, sql in QUERIES.items()}
_NAMES: Final = {name: names_of(sql) for name, sql in QUERIES.items()}
_ARRAYS: Final = {name: dict(_ARRAY.findall(sql)) for name, sql in QUERIES.items()}
"""Of what kind the arrays are that a statement takes, by their names."""


class Begun(NamedTuple):
    """A transaction that is open."""

    connection: psycopg.Connection[Row] | Outside
    now: datetime
    """when it began"""


def _with_arrays(query: str, values: Values) -> Values:
    for name, kind in _ARRAYS[query].items():
        if values[name] is not None:
            values[name] = array_text(kind, values[name])
    return values


def _columns(query: str, rows: Iterable[Row]) -> Values:
    """The values of a statement for many rows, a list each; none for no rows."""
    columns = list(zip(*rows, strict=True))
    return dict(zip(_NAMES[query], columns, strict=True)) if columns else {}


def message_of(asked: Sequence[Asked]) -> tuple[bytes, Values]:
    """Several statements as one, with their values."""
    values = {
        f"{place}.{name}": value
        for place, (query, given) in enumerate(asked)
        for name, value in _with_arrays(query, dict(given)).items()
    }
    return b"; ".join(_placed(place, query) for place, (query, _) in enumerate(asked)), values


@cache
def _placed(place: int, query: str) -> bytes:
    """A statement whose names are those of its place in a message."""
    return TEXTS[query].replace(b"%(", b"%%(%d." % place)


class PostgresStatements(Statements):
    """Instants and lists are what they are; a statement for many rows takes a list per value.

    The caller ends the transaction; `begin` opens it, if it is not open yet, before the first
    statement. A test may have a clock.
    """

    sharing = "share_directories"

    def __init__(
        self,
        begin: Callable[[], Begun],
        clock: Callable[[], datetime] | None,
        hook: Callable[[str], None] | None,
        definitions: Definitions,
        writes: bool,
    ) -> None:
        super().__init__(hook, definitions)
        self._begin = begin
        self._clock = clock
        self._writes = writes
        self.told = News(0)
        """what others shall look at"""
        self.told_wake: datetime | None = None
        """when others shall look at the latest"""

    @cached_property
    def _begun(self) -> Begun:
        return self._begin()

    @property
    def connection(self) -> psycopg.Connection[Row] | Outside:
        return self._begun.connection

    @property
    def newest_schema(self) -> int:
        return available()[-1].number

    @cached_property
    def now(self) -> datetime:
        return self._begun.now if self._clock is None else self._clock()

    @property
    def behind(self) -> timedelta:
        return timedelta()  # every node goes by this clock

    @property
    def ahead(self) -> timedelta:
        return utc_now() - self._begun.now if self._clock is None else timedelta()

    def clock_now(self) -> datetime:
        if self._clock is not None:
            return self._clock()
        now: datetime = self.value("read_clock")
        return now

    @staticmethod
    def stamp(moment: datetime | None) -> Any:
        return moment

    @staticmethod
    def time(stamp: Any) -> Any:
        return stamp

    def _send(self, query: str, values: Values) -> Cursor:
        return self.connection.execute(TEXTS[query], _with_arrays(query, values))

    def many(self, query: str, /, rows: Iterable[Values]) -> int:
        names = _NAMES[query]
        return self.rows(query, [tuple(row[name] for name in names) for row in rows])

    def rows(self, query: str, /, rows: Iterable[Row]) -> int:
        """One statement for all; none for no rows."""
        columns = _columns(query, rows)
        return self.run(query, **columns) if columns else 0

    def all_rows(self, query: str, /, rows: Sequence[Row]) -> list[Row]:
        """As `rows`, which are some; returns what the statement does."""
        return self.all(query, **_columns(query, rows))

    def insert(self, query: str, /, rows: Sequence[Row]) -> int:
        return self.rows(query, rows)

    def insert_all(self, inserts: Sequence[tuple[str, Sequence[Row]]]) -> None:
        some = [(query, rows) for query, rows in inserts if rows]
        connection = self.connection
        if not isinstance(connection, psycopg.Connection) or sum(len(r) for _, r in some) > FEW:
            super().insert_all(some)
            return
        for query, _ in some:
            self._point(f"before:{query}")
        columns = [(query, _columns(query, rows)) for query, rows in some]
        psycopg.ClientCursor(connection).execute(*message_of(columns))
        for query, _ in some:
            self._point(f"after:{query}")

    def lock_state(self, schedule_id: str) -> list[Row]:
        return self.all("lock_state" if self._writes else "get_state", id=schedule_id)

    def notify(self, news: News, wake_at: datetime | None = None) -> None:
        if wake_at is None:
            self.told |= news
        elif self.told_wake is None or wake_at < self.told_wake:
            self.told_wake = wake_at

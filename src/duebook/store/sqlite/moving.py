"""A SQLite file that is copied elsewhere: lets its runs end, closes it, reads all of it.

Each step writes in one transaction, so that it can be interrupted between any two of them.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.clock import Ratchet, utc_now
from duebook.closing import Closing
from duebook.errors import Conflict, NotFound
from duebook.ids import new_id
from duebook.lazy_dataclasses import dataclass
from duebook.store.sql.rows import micros, moment
from duebook.store.sqlite.connection import connect, translated
from duebook.store.sqlite.migrate import migrate
from duebook.store.sqlite.own_tables import (
    check_references,
    list_own_objects,
    read_own_rows,
    read_own_tables,
)
from duebook.store.sqlite.statements import QUERIES
from duebook.store.sqlite.writer import open_writer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from duebook.store.own_tables import OwnObject, OwnTable

__all__ = ["Move", "Source", "UnderWay"]

DRAIN: Final = timedelta(seconds=10)
"""How long nothing starts after the last heartbeat of a copy that waits."""
_BATCH: Final = 2_000


@dataclass(frozen=True, slots=True)
class Move:
    """A copy in progress, or completed."""

    id: str
    state: str
    place: str
    at: datetime


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A run of a live node."""

    id: str
    schedule: str | None
    since: datetime


class Source(Closing):
    """The old database; raises NotFound when it does not exist, Conflict when it is too new."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = utc_now) -> None:
        if not path.exists():
            raise NotFound(f"there is no Duebook database at {path}")
        self.path = path
        self._clock = Ratchet(clock)
        self._writer = open_writer(path, None)
        try:
            self._writer.run(lambda connection: migrate(connection, micros(clock())))
        except BaseException:
            self._writer.close()
            raise

    def close(self) -> None:
        self._writer.close()

    def now(self) -> datetime:
        """The time of the file, which never runs backwards."""
        now: datetime = self._writer.run(self._now)
        return now

    def _now(self, connection: sqlite3.Connection) -> datetime:
        row = _do(connection, "read_high_water").fetchone()
        return max(self._clock(), moment(row[0])) if row else self._clock()

    def move(self) -> Move | None:
        """The copy in progress or completed; drops one that only waited and is gone."""

        def look(connection: sqlite3.Connection) -> Move | None:
            _do(connection, "forget_drain", now=micros(self._now(connection)))
            row = _do(connection, "get_move").fetchone()
            return None if row is None else _read_move(row)

        found: Move | None = self._writer.run(look)
        return found

    def begin(self, place: str) -> Move:
        """Keep runs from starting; raises Conflict when another copy is in progress."""

        def begin(connection: sqlite3.Connection) -> Move:
            other = _do(connection, "get_move").fetchone()
            if other is not None:
                raise Conflict(f"another copy of {self.path} is in progress, to the {other[2]}")
            now = self._now(connection)
            move = Move(new_id(), "draining", place, now)
            times = {"now": micros(now), "until": micros(now + DRAIN)}
            _do(connection, "begin_drain", id=move.id, place=place, **times)
            return move

        begun: Move = self._writer.run(begin)
        return begun

    def close_when_idle(self, move: Move) -> list[UnderWay]:
        """The runs that are still active; if there are none, the database is closed for writing.

        Runs of dead nodes are not waited for: nothing works on them, and the new database takes
        them over.
        """

        def close(connection: sqlite3.Connection) -> list[UnderWay]:
            now = self._now(connection)
            if not _do(connection, "prolong_drain", id=move.id, until=micros(now + DRAIN)).rowcount:
                raise Conflict(f"the copy of {self.path} was abandoned by another process")
            rows = _do(connection, "list_under_way", now=micros(now)).fetchall()
            if not rows:
                _do(connection, "close_books", id=move.id, now=micros(now))
            return [UnderWay(id_, name, moment(since)) for id_, name, since in rows]

        found: list[UnderWay] = self._writer.run(close)
        return found

    def finish(self, move: Move, keep: Callable[[], None]) -> None:
        """Call `keep` and mark the database as moved; it cannot be reopened in between."""

        def finish(connection: sqlite3.Connection) -> None:
            if not _do(connection, "finish_move", id=move.id).rowcount:
                raise Conflict(f"{self.path} was reopened in the meantime; nothing was copied")
            keep()

        self._writer.run(finish)

    def abandon(self, move: Move) -> None:
        """Continue as if there had been no copy."""
        self._writer.run(lambda connection: _do(connection, "abandon_move", id=move.id))

    def reopen(self) -> Move:
        """Use this database again; raises Conflict when it was never moved."""

        def reopen(connection: sqlite3.Connection) -> Move:
            row = _do(connection, "get_move").fetchone()
            if row is None:
                raise Conflict(f"{self.path} has not been moved; it is open")
            _do(connection, "reopen_books", id=row[0], now=micros(self._now(connection)))
            return _read_move(row)

        reopened: Move = self._writer.run(reopen)
        return reopened

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """Everything in the file, as of one instant."""
        with (
            translated(self.path),
            closing(connect(self.path, readonly=True)) as watch,
            closing(connect(self.path, readonly=True)) as connection,
        ):
            before = _version(watch)
            connection.execute("BEGIN")
            yield Reading(connection, lambda: _version(watch) != before)


class Reading:
    """One consistent view of a file; `has_changed` tells whether others have written since."""

    def __init__(self, connection: sqlite3.Connection, has_changed: Callable[[], bool]) -> None:
        self._connection = connection
        self.has_changed = has_changed

    def tables(self) -> dict[str, set[str]]:
        """The columns of each table of Duebook."""
        found: dict[str, set[str]] = {}
        theirs = {one.name for one in self.own_objects()}
        for table, column in _do(self._connection, "list_columns"):
            if table not in theirs:
                found.setdefault(table, set()).add(column)
        return found

    def count(self, table: str) -> int:
        return int(self._connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])  # noqa: S608

    def rows(
        self, table: str, columns: Sequence[str], in_order: bool
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a table in batches; with `in_order` by creation."""
        names = ", ".join(f'"{column}"' for column in columns)
        order = " ORDER BY rowid" if in_order else ""
        cursor = self._connection.execute(f'SELECT {names} FROM "{table}"{order}')  # noqa: S608
        while batch := cursor.fetchmany(_BATCH):
            yield batch

    def own_objects(self) -> list[OwnObject]:
        """What in the file is not Duebook's."""
        return list_own_objects(self._connection)

    def own_tables(self, names: Sequence[str]) -> list[OwnTable]:
        """A user's own tables; raises NotFound, Invalid, and Conflict for rows without parents."""
        tables = read_own_tables(self._connection, names)
        for table in tables:
            check_references(self._connection, table)
        return tables

    def own_rows(self, table: OwnTable) -> Iterator[list[tuple[Any, ...]]]:
        return read_own_rows(self._connection, table)


def _version(connection: sqlite3.Connection) -> int:
    """A number that differs after each change committed by others."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def _do(connection: sqlite3.Connection, query: str, **values: object) -> sqlite3.Cursor:
    return connection.execute(QUERIES[query], values)


def _read_move(row: tuple[Any, ...]) -> Move:
    id_, state, place, at = row
    return Move(id_, state, place, moment(at))

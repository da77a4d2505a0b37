"""Copies a database from a file to PostgreSQL, in an order that makes interruptions harmless.

The old database is closed for good before the new one becomes visible. If a copy was interrupted,
the next one repeats it, or finds in the new database that it was committed. A user's own tables
stay in the file, except for those to be copied too, in the same transaction.
"""

from __future__ import annotations

import time
from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Conflict
from duebook.lazy_dataclasses import dataclass
from duebook.store.own_tables import checked_rows
from duebook.store.sql.rows import micros
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from duebook.store.own_tables import OwnObject, OwnTable
    from duebook.store.postgres.arriving import Column, Target
    from duebook.store.sqlite.moving import Move, Reading, Source, UnderWay

__all__ = ["Copied", "Progress", "copy_books"]

_STAY: Final = ("migrations", "meta", "secrets", "moves", "arrivals", "leases")
"""Tables that belong to one database file, and are not copied."""
LOOK_EVERY: Final = 0.2
SAY_EVERY: Final = 5.0
MOST_BEHIND: Final = timedelta(seconds=5)
"""How far the new clock may be behind the old one; the copy waits until it has caught up."""
MOST_AHEAD: Final = timedelta(seconds=30)
PROGRESS: Final = 50_000
"""Rows of a table between two progress reports."""
MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Copied:
    """The contents of the new database."""

    move_id: str
    closed_at: datetime
    rows: dict[str, int]
    """of each table; empty if an earlier copy had been completed"""
    tables: dict[str, int] = field(default_factory=dict)
    """rows of each copied table of the user"""
    left: tuple[OwnObject, ...] = ()
    """what stays behind in the file"""


@dataclass(frozen=True, slots=True)
class Progress:
    """How the copy reports progress, and how it waits."""

    say: Callable[[str], None]
    pause: Callable[[float], object] = time.sleep
    monotonic: Callable[[], float] = time.monotonic


def copy_books(
    source: Source,
    target: Target,
    wait: timedelta,
    progress: Progress,
    with_tables: Sequence[str] = (),
) -> Copied:
    """Let active runs end within `wait`, close the old database, and fill the new one.

    The user's own tables `with_tables` are copied too; all others are left and reported. Raises
    Conflict, and leaves the old database as it was, if it was copied elsewhere, runs do not end,
    the new database is not empty or its clock is behind, or a table cannot be copied. All of that
    except the runs is checked before waiting for any run. Raises NotFound and Invalid for a name
    that is not a table of the user's. After any other failure the old database is reopened too,
    except while the new one is being committed: then the result is unknown, and the copy must be
    called again.
    """
    move = source.move()
    if move is not None:
        _check_same(source, move, target)
        if target.has_arrived(move.id):
            _check_carried(target, with_tables)
            if move.state == "copying":
                source.finish(move, lambda: None)
            return Copied(move.id, move.at, {})
        _check_repeatable(source, move)
        progress.say(f"the copy of {move.at:%Y-%m-%d %H:%M:%S} UTC was interrupted; it is repeated")
    else:
        _check_clocks(source, target, progress)
        for left in _look_ahead(source, target, with_tables):
            progress.say(f"note: {left} stays in {source.path}")
        move = _close(source, target, wait, progress)
    return _transfer(source, move, target, progress, with_tables)


def _check_same(source: Source, move: Move, target: Target) -> None:
    if move.place != target.place:
        done = "has been moved" if move.state == "moved" else "is being copied"
        raise Conflict(
            f"{source.path} {done} to the {move.place}; "
            "to copy it elsewhere, reopen it with duebook db reopen"
        )


def _check_repeatable(source: Source, move: Move) -> None:
    if move.state == "draining":
        raise Conflict(f"another copy of {source.path} is in progress")
    if move.state == "moved":
        raise Conflict(
            f"{source.path} has been moved to the {move.place}, but the copy is not there; if it "
            "is lost, reopen the old database with duebook db reopen"
        )


def _check_clocks(source: Source, target: Target, progress: Progress) -> None:
    """The time must not run backwards, nor far ahead: due times would look missed."""
    ahead = target.now() - source.now()
    if -ahead > MOST_BEHIND:
        raise Conflict(
            f"the clock of the {target.place} is {_length(-ahead)} behind that of the old "
            "database; correct it, because time must not run backwards"
        )
    if ahead > MOST_AHEAD:
        progress.say(
            f"note: the clock of the {target.place} is {_length(ahead)} ahead; "
            "due times in between may be recorded as missed"
        )


def _check_carried(target: Target, names: Sequence[str]) -> None:
    """An earlier copy is kept, with or without these tables."""
    if names and (missing := target.list_missing(names)):
        raise Conflict(
            f"an earlier copy was completed without table {missing[0]}; copy it by other means, or "
            "reopen the old database with duebook db reopen and copy it into an empty database"
        )


def _look_ahead(source: Source, target: Target, names: Sequence[str]) -> tuple[OwnObject, ...]:
    """Check everything that can be refused before any wait; the final step checks it again. Returns
    what will stay in the file."""
    with source.reading() as reading:
        try:
            _places(reading, target.begin())
        finally:
            target.give_up()
        tables = reading.own_tables(names)
        if tables:
            target.rehearse(tables)
        for table in tables:
            for _ in checked_rows(table, reading.own_rows(table)):
                pass
        return _left(reading, tables)


def _left(reading: Reading, tables: Sequence[OwnTable]) -> tuple[OwnObject, ...]:
    """What is not copied, including parts of copied tables."""
    carried = {table.name for table in tables}
    carried |= {index for table in tables for index in table.index_names}
    found = [one for one in reading.own_objects() if one.name not in carried]
    return (*found, *(part for table in tables for part in table.left if part not in found))


def _places(reading: Reading, columns: dict[str, list[Column]]) -> dict[str, list[Column]]:
    """The copied columns of each table of Duebook; raises Conflict if one does not exist in the new
    database."""
    have = reading.tables()
    places = {}
    for table in have.keys() - columns.keys() - set(_STAY):
        if reading.count(table):
            raise Conflict(f"PostgreSQL has no table for the rows of {table}")
    for table, known in columns.items():
        if table in have and table not in _STAY:
            kept = [c for c in known if c.name in have[table] or c.identity]
            if lost := have[table] - {column.name for column in kept}:
                raise Conflict(f"PostgreSQL has no column for {', '.join(sorted(lost))} of {table}")
            places[table] = kept
    return places


def _close(source: Source, target: Target, wait: timedelta, progress: Progress) -> Move:
    move = source.begin(target.place)
    try:
        _drain(source, move, wait, progress)
        closed = source.move()
    except BaseException:
        source.abandon(move)
        raise
    if closed is None or closed.id != move.id:
        raise Conflict(f"{source.path} was reopened in the meantime; nothing was copied")
    return closed


def _drain(source: Source, move: Move, wait: timedelta, progress: Progress) -> None:
    began = progress.monotonic()
    told: tuple[float, list[UnderWay]] = (float("-inf"), [])
    while under_way := source.close_when_idle(move):
        now = progress.monotonic()
        if now - began > wait.total_seconds():
            raise Conflict(
                f"{_named(under_way)} did not finish within {_length(wait)}; nothing was changed. "
                "Wait longer with --wait, cancel them, or stop their nodes, which requeues them"
            )
        if under_way != told[1] or now - told[0] >= SAY_EVERY:
            left = wait - timedelta(seconds=now - began)
            progress.say(f"waiting up to {_length(left)} for {_named(under_way)} to finish")
            told = now, under_way
        progress.pause(LOOK_EVERY)


def _transfer(
    source: Source, move: Move, target: Target, progress: Progress, with_tables: Sequence[str]
) -> Copied:
    with source.reading() as reading:
        try:
            if with_tables:
                target.find_own_schema()  # before a transaction that has its own search path
            rows = _fill(reading, move, target, progress)
            tables = reading.own_tables(with_tables)
            carried = _carry(reading, tables, target, progress)
            while target.now() < move.at:
                progress.pause(LOOK_EVERY)
            target.sign(move.id, str(source.path), move.at)
            left = _left(reading, tables)
        except BaseException:
            _undo(source, move, target)
            raise

        def keep() -> None:
            """Called under the lock of the file, when nothing can write to it any more."""
            if tables and reading.has_changed():
                raise _Changed(
                    f"{source.path} was written to while {tables[0].name} was copied; stop "
                    "the programs that write to it, and run duebook db copy again"
                )
            target.keep()

        try:
            source.finish(move, keep)
        except _Changed:
            _undo(source, move, target)
            raise
    target.welcome()
    return Copied(move.id, move.at, rows, carried, left)


class _Changed(Conflict):
    """A table was written to after it had been read."""


def _undo(source: Source, move: Move, target: Target) -> None:
    target.give_up()
    source.abandon(move)


def _fill(reading: Reading, move: Move, target: Target, progress: Progress) -> dict[str, int]:
    filled: dict[str, int] = {}
    have = reading.tables()
    for table, kept in _places(reading, target.begin()).items():
        batches = _batches(reading, table, kept, have[table], move.at)
        filled[table] = target.fill(table, kept, batches, _progress_of(table, progress))
        if filled[table]:
            progress.say(f"copied {table}: {filled[table]:,}")
    return filled


def _carry(
    reading: Reading, tables: Sequence[OwnTable], target: Target, progress: Progress
) -> dict[str, int]:
    if not tables:
        return {}
    carried = target.carry(
        tables,
        lambda table: checked_rows(table, reading.own_rows(table)),
        lambda table: _progress_of(table.name, progress),
    )
    for name, number in carried.items():
        progress.say(f"copied your table {name}: {number:,}")
    return carried


def _batches(
    reading: Reading, table: str, columns: list[Column], have: set[str], closed_at: datetime
) -> Iterable[list[tuple[Any, ...]]]:
    names = [column.name if column.name in have else "rowid" for column in columns]
    batches = reading.rows(table, names, in_order=any(column.identity for column in columns))
    if table == "node_sessions":
        return _ended(batches, names, micros(closed_at))
    return batches


def _ended(
    batches: Iterator[list[tuple[Any, ...]]], names: list[str], at: int
) -> Iterator[list[tuple[Any, ...]]]:
    """Nodes of the old database end with this copy, so that their runs are taken over at once."""
    for batch in batches:
        sessions = [dict(zip(names, row, strict=True)) for row in batch]
        for session in sessions:
            if session["ended_at"] is None:
                session["ended_at"] = at
                if session["expires_at"] > at:  # it was alive
                    session["seen_at"] = at
        yield [tuple(session.values()) for session in sessions]


def _progress_of(table: str, progress: Progress) -> Callable[[int], None]:
    told = 0

    def tell(number: int) -> None:
        nonlocal told
        if number - told >= PROGRESS:
            told = number
            progress.say(f"copying {table}: {number:,} so far")

    return tell


def _named(under_way: list[UnderWay]) -> str:
    runs = [f"{run.schedule or 'run'} ({run.id[:13]})" for run in under_way[:MOST_NAMED]]
    more = len(under_way) - len(runs)
    return ", ".join([*runs, f"{more} more"] if more else runs)


def _length(length: timedelta) -> str:
    return format_duration(max(timedelta(seconds=round(length.total_seconds())), timedelta()))

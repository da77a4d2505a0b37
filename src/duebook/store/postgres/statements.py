"""Executes named statements of one transaction in PostgreSQL, at the database's time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.clock import utc_now
from duebook.store.postgres.arrays import array_text
from duebook.store.postgres.migrate import LOCK, available
from duebook.store.postgres.prepared import prepared
from duebook.store.postgres.transaction import Transaction
from duebook.store.queries import load_queries, names_of, percent_named
from duebook.store.sql.dialects import POSTGRES
from duebook.store.sql.statements import (
    COMMON,
    Ask,
    Cursor,
    Row,
    Statements,
    Values,
    not_unicode,
)
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duebook.store.outside import Outside
    from duebook.store.postgres.connection import Connection
    from duebook.store.postgres.prepared import Statement
    from duebook.store.postgres.transaction import Answer
    from duebook.store.sql.definitions import Definitions

__all__ = ["QUERIES", "TEXTS", "PostgresStatements", "columns_of"]

QUERIES: Final = POSTGRES.read(COMMON | load_queries(Path(__file__).with_name("queries.sql")))
QUERIES["share_directories"] = f"{QUERIES['list_directories']}\nFOR SHARE OF d SKIP LOCKED"
_QUEUED: Final = "WHERE r.status = 'queued'"
_STRETCH: Final = f"""{_QUEUED} AND (-r.priority, r.ready_at) >= (stretch.rank, stretch.since)
    AND -r.priority <= stretch.last"""
_CLAIMABLE: Final = QUERIES["list_claimable"].replace(_QUEUED, _STRETCH)
_HERE: Final = {"queue": "spot.queue", "namespace": "spot.namespace", "now": "at.now", "limit": "1"}
QUERIES["claim_ready"] = QUERIES["claim_ready"].replace("claimable", _CLAIMABLE)
QUERIES["get_latest_run_named"] = QUERIES["list_latest_runs"].replace(
    "unnest(:ids::text[])", f"({QUERIES['find_schedule']})"
)
QUERIES["look_for_work"] = QUERIES["look_for_work"].replace(
    "claimable", re.sub(rf":({'|'.join(_HERE)})\b", lambda m: _HERE[m[1]], _CLAIMABLE)
)
FEW: Final = 100
"""Maximum rows of several kinds to be written in one message."""
_ARRAY: Final = re.compile(r":(\w+)::(\w+)\[\]")
TEXTS: Final = {name: percent_named(sql).encode() for name, sql in QUERIES.items()}
KEPT: Final = frozenset(
    {
        "claim_ready",
        "find_schedule",
        "get_any_exception",
        "get_earliest_wake",
        "get_latest_run_named",
        "get_quota_standing",
        "get_schedule_named",
        "insert_alike",
        "insert_change",
        "insert_revision",
        "insert_run",
        "insert_schedule",
        "insert_state",
        "list_abilities",
        "list_active",
        "list_by_name",
        "list_definitions",
        "list_followed",
        "list_latest_runs",
        "list_schedules_by_id",
        "lock_wakes",
        "look_for_due",
        "look_for_work",
        "move_state",
        "note_use",
        "renew_all",
        "settle_runs",
        "start_runs",
        "take_due",
    }
)
"""Statements executed often with few rows, so that planning would take most of their time. Each
must have one plan that is right for every value, and for tables of any size."""
PREPARED: Final = {name: prepared(name, QUERIES[name]) for name in sorted(KEPT)}
_NAMES: Final = {name: names_of(sql) for name, sql in QUERIES.items()}
_ARRAYS: Final = {name: dict(_ARRAY.findall(sql)) for name, sql in QUERIES.items()}
"""The types of the arrays of a statement, by their names."""


NOW: Final = object()
"""For statements that may be sent with the start of their transaction: its own time."""


def _with_arrays(query: str, values: Values) -> Values:
    """Lists as array texts for the statement."""
    for name, kind in _ARRAYS[query].items():
        if values[name] is not None:
            values[name] = array_text(kind, values[name])
    return values


def columns_of(query: str, rows: Iterable[Row]) -> Values:
    """The values of a statement for many rows, a list each; empty without rows."""
    columns = list(zip(*rows, strict=True))
    return dict(zip(_NAMES[query], columns, strict=True)) if columns else {}


class PostgresStatements(Statements):
    """Instants and lists need no conversion; a statement for many rows takes a list per value.

    The caller starts and ends the transaction, and knows its start; a test may have a clock.
    """

    sharing = "share_directories"

    def __init__(
        self,
        line: Transaction | Outside,
        began_at: Callable[[], datetime],
        clock: Callable[[], datetime] | None,
        hook: Callable[[str], None] | None,
        definitions: Definitions,
        nodes: dict[str, str],
        writes: bool,
        grouping: Transaction | None = None,
    ) -> None:
        """With `grouping`, statements that need not wait for answers share messages."""
        super().__init__(hook, definitions, nodes)
        self._line = line
        self._began_at = began_at
        self._clock = clock
        self._writes = writes
        self._grouping = grouping
        self.last: list[Statement] = []
        """queries that go with the COMMIT"""
        self._last_answers: list[Answer] = []
        self.told = News(0)
        """the news for others"""
        self.told_wake: datetime | None = None
        """the latest time at which others should look"""

    @property
    def newest_schema(self) -> int:
        return available()[-1].number

    def hold_schema(self) -> None:
        self.run("hold_schema", key=LOCK)

    @cached_property
    def now(self) -> datetime:
        return self._began_at() if self._clock is None else self._clock()

    @property
    def at(self) -> Any:
        waits = self._grouping is not None and not self._grouping.has_begun
        return NOW if waits and self._clock is None else self.now

    @property
    def connection(self) -> Connection | Outside:
        """For what is not a named statement."""
        return self._line.connection if isinstance(self._line, Transaction) else self._line

    @property
    def behind(self) -> timedelta:
        return timedelta()  # all nodes use this clock

    @property
    def ahead(self) -> timedelta:
        return utc_now() - self._began_at() if self._clock is None else timedelta()

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
        values = _with_arrays(query, values)
        if isinstance(self._line, Transaction):
            return self._line.execute(TEXTS[query], values, PREPARED.get(query))
        return self._line.execute(TEXTS[query], values)

    def together(self, *asks: Ask, last: bool = False) -> list[list[Row]]:
        if self._grouping is None:
            return super().together(*asks)
        last = last and not self._writes  # a joined transaction that writes is not ended here
        statements = [self._statement(self._grouping, ask) for ask in asks]
        answers = self._grouping.together(statements, last)
        return [answer.rows for answer in (map(_in_utc, answers) if last else answers)]

    def soon(self, query: str, /, rows: Sequence[Row]) -> None:
        if self._grouping is None:
            super().soon(query, rows)
        elif rows:
            ask = Ask(query, columns_of(query, rows))
            self._grouping.soon(self._statement(self._grouping, ask), len(rows))

    def ask_last(self, query: str, /, **values: object) -> Callable[[], list[Row]]:
        if self._grouping is None:
            return super().ask_last(query, **values)
        place = len(self.last)
        self.last.append(self._statement(self._grouping, Ask(query, values)))
        return lambda: self._last_answers[place].rows

    def answer_last(self, answers: list[Answer]) -> None:
        """The answers that came with that of COMMIT."""
        self._last_answers = [_in_utc(answer) for answer in answers]

    def _statement(self, transaction: Transaction, ask: Ask) -> Statement:
        text, kept = TEXTS[ask.query], PREPARED.get(ask.query)
        for name in [name for name, value in ask.values.items() if value is NOW]:
            place = f"%({name})s".encode()
            text = text.replace(place, b"now()")
            kept = kept and kept._replace(execution=kept.execution.replace(place, b"now()"))
        try:
            return transaction.statement(text, _with_arrays(ask.query, dict(ask.values)), kept)
        except UnicodeEncodeError:
            raise not_unicode() from None

    def many(self, query: str, /, rows: Iterable[Values]) -> int:
        names = _NAMES[query]
        return self.rows(query, [tuple(row[name] for name in names) for row in rows])

    def rows(self, query: str, /, rows: Iterable[Row]) -> int:
        """One statement for all; none without rows."""
        columns = columns_of(query, rows)
        return self.run(query, **columns) if columns else 0

    def all_rows(self, query: str, /, rows: Sequence[Row]) -> list[Row]:
        """Like `rows`, for at least one; returns the rows of the statement."""
        return self.all(query, **columns_of(query, rows))

    def insert(self, query: str, /, rows: Sequence[Row]) -> int:
        return self.rows(query, rows)

    def insert_all(self, inserts: Sequence[tuple[str, Sequence[Row]]]) -> None:
        """If they are few, they go with the next message."""
        if self._grouping is None or sum(len(rows) for _, rows in inserts) > FEW:
            super().insert_all(inserts)
            return
        for query, rows in inserts:
            self.soon(query, rows)

    def lock_state(self, schedule_id: str) -> list[Row]:
        return self.all("lock_state" if self._writes else "get_state", id=schedule_id)

    def lock_states(self, ids: list[str]) -> list[Row]:
        return self.all("take_states" if self._writes else "list_states", ids=ids)

    def notify(self, news: News, wake_at: datetime | None = None) -> None:
        if wake_at is None:
            self.told |= news
        elif self.told_wake is None or wake_at < self.told_wake:
            self.told_wake = wake_at


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _in_utc(answer: Answer) -> Answer:
    """An answer in the message that ended its transaction, whose zone no longer applies."""
    return answer._replace(rows=[tuple(map(_utc, row)) for row in answer.rows])

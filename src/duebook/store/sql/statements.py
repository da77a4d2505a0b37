"""Common to the parts of a transaction in any database: named statements, and one time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from duebook.errors import Invalid
from duebook.store.queries import load_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime, timedelta

    from duebook.store.sql.definitions import Definitions
    from duebook.store.values import News

    Uses = dict[str, tuple[int, int]]

__all__ = [
    "COMMON",
    "Ask",
    "Cursor",
    "Part",
    "Row",
    "Statements",
    "Values",
    "not_unicode",
    "unexpected",
]

COMMON: Final = load_queries(Path(__file__).with_name("queries.sql"))
"""The statements common to all databases; each dialect converts them."""
Row = tuple[Any, ...]
Values = dict[str, Any]


class Ask(NamedTuple):
    """A named statement with its values."""

    query: str
    values: Values


def unexpected(statement: str, changed: int, expected: int) -> RuntimeError:
    """A statement whose result was not awaited changed the wrong number of rows: a bug."""
    return RuntimeError(f"{changed} rows instead of {expected}: {statement[:60]}")


class Cursor(Protocol):
    """What is needed of any driver's cursor."""

    @property
    def rowcount(self) -> int: ...

    def fetchall(self) -> list[Row]: ...


class Statements(ABC):
    """Each database defines how it executes a statement and how it stores an instant.

    Values are Python's own, including instants and lists. `hook` is called before and after every
    statement. `known` are definitions that the store knows to be committed; `learned` are those
    that this transaction read, and `used` is how much more namespaces hold than before it:
    schedules, and bytes of their definitions. `nodes` are the names of nodes by their sessions, as
    far as the store knows them.
    """

    sharing = "list_directories"
    """the statement with which a tick reads directories, so that they keep their node meanwhile"""

    def __init__(
        self,
        hook: Callable[[str], None] | None,
        definitions: Definitions,
        nodes: dict[str, str],
    ) -> None:
        self._hook = hook
        self.known = definitions
        self.nodes = nodes
        self.learned: Definitions = {}
        self.used: Uses = {}

    @property
    @abstractmethod
    def newest_schema(self) -> int:
        """The newest one that this Duebook knows."""

    @abstractmethod
    def hold_schema(self) -> None:
        """Prevent migrations until the transaction ends; waits for one in progress."""

    @property
    @abstractmethod
    def now(self) -> datetime: ...

    @property
    def at(self) -> Any:
        """`now` as a value of `together`, which can be sent before the time is known."""
        return self.now

    @property
    @abstractmethod
    def behind(self) -> timedelta: ...

    @property
    @abstractmethod
    def ahead(self) -> timedelta:
        """How far this machine's clock is ahead of the database's; negative: behind."""

    @abstractmethod
    def clock_now(self) -> datetime:
        """The database's clock at this moment, even after it was set back: for rates, which need
        the instant after a lock was acquired."""

    # -- how the database stores an instant; None stays None
    @staticmethod
    @abstractmethod
    def stamp(moment: datetime | None) -> Any: ...

    @staticmethod
    @abstractmethod
    def time(stamp: Any) -> Any: ...

    # -- how it executes
    @abstractmethod
    def _send(self, query: str, values: Values) -> Cursor:
        """Send the statement to the database."""

    def _execute(self, query: str, values: Values) -> Cursor:
        self._point(f"before:{query}")
        try:
            cursor = self._send(query, values)
        except UnicodeEncodeError:
            raise not_unicode() from None
        self._point(f"after:{query}")
        return cursor

    def run(self, query: str, /, **values: object) -> int:
        """Execute it; returns how many rows changed."""
        return self._execute(query, values).rowcount

    def all(self, query: str, /, **values: object) -> list[Row]:
        return self._execute(query, values).fetchall()

    @abstractmethod
    def many(self, query: str, /, rows: Iterable[Values]) -> int:
        """Execute it for each; returns how many rows changed."""

    @abstractmethod
    def rows(self, query: str, /, rows: Iterable[Row]) -> int:
        """Like `many`, for rows with stored forms in the statement's order."""

    @abstractmethod
    def insert(self, query: str, /, rows: Sequence[Row]) -> int:
        """Like `rows`, for an INSERT."""

    def insert_all(self, inserts: Sequence[tuple[str, Sequence[Row]]]) -> None:
        """Like `insert`, for several kinds, in that order, without a result."""
        for query, rows in inserts:
            self.insert(query, rows)

    # -- what one message may contain
    def together(self, *asks: Ask, last: bool = False) -> list[list[Row]]:
        """Execute one after the other, if none needs the result of another; returns their rows.

        `last`: they read, and this transaction does nothing after them.
        """
        del last
        return [self.all(ask.query, **ask.values) for ask in asks]

    def soon(self, query: str, /, rows: Sequence[Row]) -> None:
        """Like `rows`, at the latest with the next statement, for existing rows: fails if it
        changes fewer."""
        if (changed := self.rows(query, rows)) != len(rows):
            raise unexpected(query, changed, len(rows))

    def ask_last(self, query: str, /, **values: object) -> Callable[[], list[Row]]:
        """Query at the end of the transaction; the result is available after the commit."""
        rows = self.all(query, **values)
        return lambda: rows

    # -- only for databases with many writers
    def notify(self, news: News, wake_at: datetime | None = None) -> None:  # noqa: B027
        """Others may wait for this: something to do now, or not before `wake_at`."""

    def lock_state(self, schedule_id: str) -> list[Row]:
        """One schedule's state, locked until this transaction ends."""
        return self.all("get_state", id=schedule_id)

    def lock_states(self, ids: list[str]) -> list[Row]:
        """Like `lock_state`, for many."""
        return self.all("take_states", ids=ids)

    def one(self, query: str, /, **values: object) -> Row | None:
        rows = self.all(query, **values)
        return rows[0] if rows else None

    def value(self, query: str, /, **values: object) -> Any:
        row = self.one(query, **values)
        return row[0] if row else None

    def _point(self, name: str) -> None:
        if self._hook is not None:
            self._hook(name)


def not_unicode() -> Invalid:
    return Invalid("the text contains unpaired surrogates, which cannot be stored")


class Part:
    """A part of a transaction."""

    def __init__(self, db: Statements) -> None:
        self._db = db

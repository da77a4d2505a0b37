"""What the verbs of a transaction stand on in any database: named statements, and one time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from duebook.errors import Invalid, NotFound, shorten
from duebook.store.queries import load_queries
from duebook.store.sql.rows import read_run
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime, timedelta

    from duebook.model.run import Run
    from duebook.store.sql.planning import Definitions

    Uses = dict[str, tuple[int, int]]

__all__ = ["COMMON", "Cursor", "Row", "Statements", "Values"]

COMMON: Final = load_queries(Path(__file__).with_name("queries.sql"))
"""The statements that stand once for every database; a dialect makes them its own."""
Row = tuple[Any, ...]
Values = dict[str, Any]


class Cursor(Protocol):
    """What is asked of any driver's cursor."""

    @property
    def rowcount(self) -> int: ...

    def fetchall(self) -> list[Row]: ...


class Statements(ABC):
    """Each database says how it executes a statement and how it keeps an instant.

    Values are given as Python has them, also instants and lists. `hook` is called before and
    after every statement. `definitions` are those that the store knows to be committed;
    `learned` are those that this transaction read, and `used` is by how much namespaces hold more
    than before it: schedules, and bytes of their definitions.
    """

    def __init__(self, hook: Callable[[str], None] | None, definitions: Definitions) -> None:
        self._hook = hook
        self._known = definitions
        self.learned: Definitions = {}
        self.used: Uses = {}

    @property
    @abstractmethod
    def now(self) -> datetime: ...

    @property
    @abstractmethod
    def behind(self) -> timedelta: ...

    @property
    @abstractmethod
    def ahead(self) -> timedelta:
        """How far this machine's clock is ahead of the books'; negative: behind."""

    @abstractmethod
    def _clock_now(self) -> datetime:
        """What the books' clock says at this moment, also when it was set back: for rates, which
        go by the instant after a lock was had."""

    # -- how the database keeps an instant; None stays None
    @staticmethod
    @abstractmethod
    def _stamp(moment: datetime | None) -> Any: ...

    @staticmethod
    @abstractmethod
    def _time(stamp: Any) -> Any: ...

    # -- how it executes
    @abstractmethod
    def _send(self, query: str, values: Values) -> Cursor:
        """Give the statement to the database."""

    def _execute(self, query: str, values: Values) -> Cursor:
        self._point(f"before:{query}")
        try:
            cursor = self._send(query, values)
        except UnicodeEncodeError:
            raise Invalid(
                "a text with halves of characters can be neither stored nor found"
            ) from None
        self._point(f"after:{query}")
        return cursor

    def _run(self, query: str, /, **values: object) -> int:
        """Execute it; returns how many rows changed."""
        return self._execute(query, values).rowcount

    def _all(self, query: str, /, **values: object) -> list[Row]:
        return self._execute(query, values).fetchall()

    @abstractmethod
    def _many(self, query: str, /, rows: Iterable[Values]) -> int:
        """Execute it for each; returns how many rows changed."""

    @abstractmethod
    def _rows(self, query: str, /, rows: Iterable[Row]) -> int:
        """As `_many`, for rows whose values are stamped and in the statement's order."""

    @abstractmethod
    def _insert(self, query: str, /, rows: Sequence[Row]) -> int:
        """As `_rows`, for an INSERT."""

    # -- what only a database with many writers has to do
    def _hold(self, run_ids: Sequence[str]) -> None:  # noqa: B027
        """Lock what the end of these runs may wake, before the runs: everybody in that order."""

    def _notify(self, news: News, wake_at: datetime | None = None) -> None:  # noqa: B027
        """Others may wait for this: something to do now, or not before `wake_at`."""

    def _states(self, schedule_id: str) -> list[Row]:
        """One schedule's state; nobody else changes it before this transaction ends."""
        return self._all("get_state", id=schedule_id)

    # -- what the verbs share
    def get_run(self, run_id: str) -> Run:
        row = self._one("get_run", id=run_id)
        if row is None:
            raise NotFound(f'run "{shorten(run_id)}" does not exist')
        return read_run(row, self._time)

    def _wake(self, wakes: object, schedule_id: str | None) -> None:
        if wakes and schedule_id is not None:
            self._run("wake_schedule", schedule_id=schedule_id, now=self.now)
            self._notify(News.WAKE)

    def _one(self, query: str, /, **values: object) -> Row | None:
        rows = self._all(query, **values)
        return rows[0] if rows else None

    def _value(self, query: str, /, **values: object) -> Any:
        row = self._one(query, **values)
        return row[0] if row else None

    def _point(self, name: str) -> None:
        if self._hook is not None:
            self._hook(name)

"""Connections that callers pass in: which kinds there are, and how each executes a statement.

Nothing is opened, committed or rolled back here: the transaction is the caller's.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, Protocol

from duebook.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duebook.store.sql.statements import Cursor

__all__ = ["Outside", "outside"]


_ASYNC: Final = (
    "connection: it is async; pass a sync connection, as SQLAlchemy's has it within "
    "`await connection.run_sync(lambda sync: …)`"
)


class Outside(Protocol):
    """What our transactions need of a connection."""

    def execute(self, statement: Any, values: Any = None) -> Cursor: ...

    def executemany(self, statement: Any, rows: Iterable[Any]) -> Cursor: ...


class _Driver:
    """psycopg2 or sqlite3, whatever row type the caller uses."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: Any, values: Any = None) -> Cursor:
        cursor = self._cursor()
        cursor.execute(*((statement,) if values is None else (statement, values)))
        return cursor  # type: ignore[no-any-return]

    def executemany(self, statement: Any, rows: Iterable[Any]) -> Cursor:
        cursor = self._cursor()
        cursor.executemany(statement, rows)
        return cursor  # type: ignore[no-any-return]

    def _cursor(self) -> Any:
        cursor = self._connection.cursor()
        if hasattr(cursor, "row_factory"):
            cursor.row_factory = None
        return cursor


class _Psycopg(_Driver):
    """With our own rows and instants: the caller's may be naive, as Django's without USE_TZ."""

    def _cursor(self) -> Any:
        from psycopg.rows import tuple_row
        from psycopg.types.datetime import TimestamptzLoader

        cursor = self._connection.cursor(row_factory=tuple_row)
        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
        return cursor


class _SqlAlchemy:
    """Through SQLAlchemy, so that it knows of the transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: Any, values: Any = None) -> Cursor:
        return self._connection.exec_driver_sql(_text(statement), values or None)  # type: ignore[no-any-return]

    def executemany(self, statement: Any, rows: Iterable[Any]) -> Cursor:
        return self._connection.exec_driver_sql(_text(statement), list(rows))  # type: ignore[no-any-return]


def _text(statement: Any) -> str:
    return statement.decode() if isinstance(statement, bytes) else str(statement)


def outside(connection: Any, dialect: str, drivers: tuple[str, ...]) -> tuple[Outside, Any]:
    """How to execute on a connection for `dialect`, and the driver's own connection below it.

    Raises Invalid unless it is a connection of these drivers, Django or SQLAlchemy.
    """
    if hasattr(connection, "run_sync"):
        raise Invalid(_ASYNC)
    if hasattr(connection, "get_bind") and callable(getattr(connection, "connection", None)):
        connection = connection.connection()  # a session
    if hasattr(connection, "ensure_connection"):  # Django's
        connection.ensure_connection()
        connection = connection.connection
    if hasattr(connection, "exec_driver_sql"):
        found = connection.dialect.name
        if found != dialect:
            raise Invalid(f"connection: it is a {found} connection, but Duebook uses {dialect}")
        return _SqlAlchemy(connection), connection.connection.driver_connection
    kind = type(connection)
    home = next(
        (base.__module__.partition(".")[0] for base in kind.__mro__ if _is_one(base, drivers)), None
    )
    if home is not None and inspect.iscoroutinefunction(kind.commit):
        raise Invalid(_ASYNC)
    if home is None:
        known = ", ".join(drivers)
        raise Invalid(
            f"connection: {kind.__module__}.{kind.__name__} is not one of {known}, Django's "
            "or SQLAlchemy's"
        )
    return (_Psycopg if home == "psycopg" else _Driver)(connection), connection


def _is_one(kind: type, drivers: tuple[str, ...]) -> bool:
    return kind.__module__.partition(".")[0] in drivers and hasattr(kind, "cursor")

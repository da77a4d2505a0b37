"""A read-only transaction in PostgreSQL; it may begin, read and end in one message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
from psycopg.adapt import Dumper

from duebook.store.postgres.statements import Begun, PostgresStatements, message_of
from duebook.store.sql.statements import not_unicode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from psycopg.abc import Buffer

    from duebook.store.postgres.connection import Connection
    from duebook.store.sql.definitions import Definitions
    from duebook.store.sql.statements import Asked, Cursor, Row, Values

__all__ = ["Message", "Opened", "ReadStatements"]

_END: Final = b"; COMMIT"


class Message(NamedTuple):
    """Statements that are sent together."""

    text: bytes
    values: dict[str, Any]
    number: int

    def send(self, connection: Connection, begin: bytes = b"") -> psycopg.ClientCursor[Row]:
        """The values become part of the text: a message of several statements has no others. The
        connection is as patient with each of them as it is with one."""
        cursor, patience = psycopg.ClientCursor(connection), connection.patience
        connection.patience = None if patience is None else patience * self.number
        try:
            cursor.execute(begin + self.text, self.values)
        finally:
            connection.patience = patience
        return cursor


class Opened(NamedTuple):
    """A transaction in which a message was sent, or none yet."""

    connection: Connection
    now: datetime
    cursor: psycopg.Cursor[Row]
    """at the first result of the message"""


class ReadStatements(PostgresStatements):
    """`open_` opens the transaction, and sends a message in it if there is one. Whoever made this
    gives the connection of `opened` back."""

    def __init__(
        self,
        open_: Callable[[Message | None], Opened],
        clock: Callable[[], datetime] | None,
        hook: Callable[[str], None] | None,
        definitions: Definitions,
    ) -> None:
        super().__init__(self._begin_alone, clock, hook, definitions, writes=False)
        self._open = open_
        self.opened: Opened | None = None
        """None: nothing was read yet"""
        self._ended = False

    def _begin_alone(self) -> Begun:
        opened = self.opened = self.opened or self._open(None)
        return Begun(opened.connection, opened.now)

    @property
    def now_value(self) -> Any:
        return self.now if self._clock is not None or self.opened is not None else _NOW

    def _send(self, query: str, values: Values) -> Cursor:
        self._refuse_end()
        return super()._send(query, values)

    def together(self, asked: Sequence[Asked], last: bool = False) -> list[list[Row]]:
        self._refuse_end()
        for query, _ in asked:
            self._point(f"before:{query}")
        try:
            found = self._read(asked, _END if last else b"")
        except UnicodeEncodeError:
            raise not_unicode() from None
        self._ended = last
        for query, _ in asked:
            self._point(f"after:{query}")
        return found

    def _read(self, asked: Sequence[Asked], end: bytes) -> list[list[Row]]:
        text, values = message_of(asked)
        message = Message(text + end, values, len(asked))
        if self.opened is None:
            self.opened = self._open(message)
            cursor = self.opened.cursor
        else:
            cursor = message.send(self.opened.connection)
        found = []
        for _ in asked:
            found.append(cursor.fetchall())
            cursor.nextset()
        return found

    def _refuse_end(self) -> None:
        if self._ended:
            raise RuntimeError("this transaction has read the last that it meant to read")


class _Now:
    """Stands among the values of a message for the time at which its transaction began."""


_NOW: Final = _Now()


class _NowDumper(Dumper):
    def quote(self, obj: Any) -> Buffer:  # noqa: ARG002
        return b"now()"

    def dump(self, obj: Any) -> Buffer:
        raise TypeError(f"{obj} is a value in messages of several statements only")


psycopg.adapters.register_dumper(_Now, _NowDumper)

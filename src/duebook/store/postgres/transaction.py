"""One transaction on a connection of the pool; what need not wait for answers shares a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
from psycopg import errors

from duebook.store.sql.statements import unexpected

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.store.postgres.beginning import Begin
    from duebook.store.postgres.connection import Connection
    from duebook.store.postgres.pool import Pool
    from duebook.store.sql.statements import Cursor, Row, Values

__all__ = ["ON_THE_WAY", "Answer", "Transaction"]

ON_THE_WAY: Final = 2.0
"""Seconds that an answer may be late, before it is taken for lost in the network."""
_GONE: Final = (psycopg.OperationalError, errors.ReadOnlySqlTransaction)
"""What a connection that was idle may say: it broke, or its server is the primary no more."""


class Answer(NamedTuple):
    """What one statement of a message returned."""

    rowcount: int
    rows: list[Row]
    status: str | None

    def fetchall(self) -> list[Row]:
        return self.rows


class Transaction:
    """Begins with its first statement, or when somebody has to know the time.

    A round trip costs more than most statements, and on a busy machine much more: whoever waits
    for an answer has to be scheduled again.
    """

    def __init__(self, pool: Pool, begin: Begin) -> None:
        self._pool, self._begin = pool, begin
        self._connection: Connection | None = pool.take()
        self._began_at: datetime | None = None
        self._tried = False
        self._waiting: list[tuple[str, int]] = []
        """statements that go with the next message, and how many rows each changes"""

    @property
    def has_begun(self) -> bool:
        return self._began_at is not None

    @property
    def now(self) -> datetime:
        """When it began."""
        if (began_at := self._began_at) is None:
            self._send([])
            return self.now
        return began_at

    @property
    def connection(self) -> Connection:
        """Within the transaction, after everything that was waiting."""
        if self._waiting or not self.has_begun:
            self._send([])
        return self._held

    @property
    def _held(self) -> Connection:
        if self._connection is None:
            raise psycopg.OperationalError("the connection is lost")
        return self._connection

    def execute(self, statement: bytes, values: Values | None = None) -> Cursor:
        """One statement, and its answer."""
        if self._waiting or not self.has_begun:
            return self._send([self.text(statement, values)])[0]
        return self._held.execute(statement, values)

    def text(self, statement: bytes, values: Values | None) -> str:
        """The statement with its values, as it can share a message."""
        return psycopg.ClientCursor(self._held).mogrify(statement, values)

    def together(self, texts: Sequence[str]) -> list[Answer]:
        """Several in one message, one after the other."""
        return self._send(texts)

    def soon(self, text: str, changes: int) -> None:
        """With the next message; the transaction fails if it does not change so many rows."""
        self._waiting.append((text, changes))

    def commit(self, last: Sequence[str]) -> list[Answer]:
        """With the last questions, whose answers it returns; the last answer is that of COMMIT."""
        if not self._tried and not self._waiting and not last:
            return []  # nothing was asked
        if not self.has_begun:
            if self._tried:
                return [Answer(0, [], "ROLLBACK")]  # its first message failed
            self._send([])  # who sends everything at once could not try again
        return self._send([*last, "COMMIT"])

    @property
    def is_broken(self) -> bool:
        """Whether nobody can say what the server made of the last message."""
        return self._connection is None or self._connection.closed

    def give_back(self) -> None:
        """The connection is for others; a transaction that is open is rolled back."""
        if self._connection is not None:
            self._pool.give(self._connection)

    def refuse(self) -> None:
        """Another connection may lead to the primary."""
        if self._connection is not None:
            self._connection.close()

    def _send(self, texts: Sequence[str]) -> list[Answer]:
        """Begin, if it has not yet; what waits; and these."""
        waiting, self._waiting = self._waiting, []
        message = "; ".join([*(text for text, _ in waiting), *texts])
        if self.has_begun:
            answers = _answers(_execute(self._held, message))
        else:
            answers = self._begin_with(message)
        for (text, changes), answer in zip(waiting, answers, strict=False):
            if answer.rowcount != changes:
                raise unexpected(text, answer.rowcount, changes)
        return answers[len(waiting) :]

    def _begin_with(self, message: str) -> list[Answer]:
        """A connection that broke while it was idle is replaced: nothing can have been kept."""
        used, self._tried = self._held.used, True
        try:
            return self._start(message)
        except _GONE:
            if not used or not self.is_broken:
                raise
        self.give_back()
        self._connection = None
        self._connection = self._pool.take(fresh=True)
        return self._start(message)

    def _start(self, message: str) -> list[Answer]:
        connection = self._held
        patience = self._begin.longest + ON_THE_WAY
        if message:
            connection.patience = patience
        try:
            begin = self._begin.message.decode()
            cursor = _execute(connection, f"{begin}; {message}" if message else begin)
            cursor.nextset()
            now, is_standby = cursor.fetchall()[0][:2]
            if is_standby:
                raise errors.ReadOnlySqlTransaction("the server is a standby, and read-only")  # noqa: TRY301
        except BaseException as error:
            if not message or isinstance(error, errors.ReadOnlySqlTransaction):
                connection.close()
            raise
        self._began_at, connection.patience = now, patience
        return _answers(cursor) if cursor.nextset() else []


def _execute(connection: Connection, message: str) -> psycopg.Cursor[Row]:
    """As the driver sends what has no parameters: whole, and executed one after the other."""
    return connection.execute(message.encode(connection.info.encoding))


def _answers(cursor: psycopg.Cursor[Any]) -> list[Answer]:
    """From the result at which the cursor stands."""
    found = []
    while True:
        rows = cursor.fetchall() if cursor.description else []
        found.append(Answer(cursor.rowcount, rows, cursor.statusmessage))
        if not cursor.nextset():
            return found

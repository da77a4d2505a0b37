"""One transaction on a connection of the pool; statements that need no answer share a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg
from psycopg import errors

from duebook.store.postgres.prepared import Statement, send_prepared
from duebook.store.sql.statements import unexpected

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.store.postgres.beginning import Begin
    from duebook.store.postgres.connection import Connection
    from duebook.store.postgres.pool import Pool
    from duebook.store.postgres.prepared import Prepared
    from duebook.store.sql.statements import Cursor, Row, Values

__all__ = ["GONE", "ON_THE_WAY", "Answer", "Transaction"]

ON_THE_WAY: Final = 2.0
"""Seconds that an answer may be late before it is considered lost."""
AWAKE: Final = 2.0
"""Seconds after its last use for which a connection is trusted to work."""
COMMIT: Final = Statement("COMMIT")
PREPARING: Final = {"PREPARE", "DEALLOCATE ALL"}
"""Results of a message that answer no statement of ours."""
GONE: Final = (psycopg.OperationalError, errors.ReadOnlySqlTransaction)
"""Errors of a connection that was idle: it broke, or its server is no longer the primary."""


class Answer(NamedTuple):
    """What one statement of a message returned."""

    rowcount: int
    rows: list[Row]
    status: str | None

    def fetchall(self) -> list[Row]:
        return self.rows


class Transaction:
    """Starts with its first statement, or when its time is needed.

    A round trip costs more than most statements, and on a busy machine much more, as a thread that
    waits for an answer must be scheduled again.
    """

    def __init__(self, pool: Pool, begin: Begin) -> None:
        self._pool, self._begin = pool, begin
        self._connection: Connection | None = None
        self._has_taken = self._is_over = False
        self._began_at: datetime | None = None
        self._tried = False
        self._waiting: list[tuple[Statement, int]] = []
        """statements that go with the next message, and how many rows each changes"""

    @property
    def has_begun(self) -> bool:
        return self._began_at is not None

    @property
    def now(self) -> datetime:
        """When it started."""
        if (began_at := self._began_at) is None:
            self._send([])
            return self.now
        return began_at

    @property
    def connection(self) -> Connection:
        """For use within the transaction, after everything that was waiting."""
        if self._waiting or not self.has_begun:
            self._send([])
        return self._held

    @property
    def _held(self) -> Connection:
        if not self._has_taken:
            self._connection, self._has_taken = self._pool.take(), True
        if self._connection is None:
            raise psycopg.OperationalError("the connection is lost")
        return self._connection

    def execute(
        self, sql: bytes, values: Values | None = None, prepared: Prepared | None = None
    ) -> Cursor:
        """One statement, and its answer."""
        return self._send([self.statement(sql, values, prepared)])[0]

    def statement(
        self, sql: bytes, values: Values | None, prepared: Prepared | None = None
    ) -> Statement:
        """In a form that can share a message; uses `prepared` if the connection keeps it."""
        if prepared is not None and self._held.keeps_plans:
            sql = prepared.execution
        else:
            prepared = None
        return Statement(psycopg.ClientCursor(self._held).mogrify(sql, values), prepared)

    def together(self, statements: Sequence[Statement], last: bool = False) -> list[Answer]:
        """Several in one message, one after the other; with `last` they end the transaction."""
        answers = self._send([*statements, COMMIT] if last else statements)
        self._is_over = last
        return answers[: len(statements)]

    def soon(self, statement: Statement, changes: int) -> None:
        """With the next message; the transaction fails unless it changes this many rows."""
        self._waiting.append((statement, changes))

    def commit(self, last: Sequence[Statement]) -> list[Answer]:
        """With the last queries, whose answers it returns; the last answer is that of COMMIT."""
        if not self._tried and not self._waiting and not last:
            return []  # nothing was executed
        if not self.has_begun:
            if self._tried:
                return [Answer(0, [], "ROLLBACK")]  # its first message failed
            self._send([])  # if everything went in one message, it could not be retried
        return self._send([*last, COMMIT])

    @property
    def is_broken(self) -> bool:
        """Whether the result of the last message is unknown."""
        return self._connection is None or self._connection.closed

    def give_back(self) -> None:
        """Return the connection; an open transaction is rolled back."""
        if self._connection is not None:
            self._pool.give(self._connection)

    def refuse(self) -> None:
        """Close the connection, as another one may lead to the primary."""
        if self._connection is not None:
            self._connection.close()

    def _refuse_end(self) -> None:
        if self._is_over:
            raise RuntimeError("this transaction has already made its last read")

    def _send(self, statements: Sequence[Statement]) -> list[Answer]:
        """Start the transaction if needed; send what waits, and these."""
        self._refuse_end()
        waiting, self._waiting = self._waiting, []
        together = [*(statement for statement, _ in waiting), *statements]
        if not self.has_begun and not (together and self._held.is_awake(AWAKE)):
            self._begin_with([])
        if not self.has_begun:
            answers = self._begin_with(together)
        elif together:
            answers = _answers(self._execute(together))
        else:
            answers = []
        for (statement, changes), answer in zip(waiting, answers, strict=False):
            if answer.rowcount != changes:
                raise unexpected(statement.text, answer.rowcount, changes)
        return answers[len(waiting) :]

    def _execute(self, statements: Sequence[Statement], begin: str = "") -> psycopg.Cursor[Row]:
        """As the driver sends statements without parameters: in one text, executed one after the
        other. The connection waits as long for each statement as for a single one."""
        connection, patience = self._held, self._held.patience
        connection.patience = None if patience is None else patience * len(statements)
        try:
            return send_prepared(connection, statements, begin)
        finally:
            connection.patience = patience

    def _begin_with(self, statements: Sequence[Statement]) -> list[Answer]:
        """Replaces a connection that broke while idle, as nothing can have been committed."""
        used, keeps_plans, self._tried = self._held.used, self._held.keeps_plans, True
        try:
            return self._start(statements)
        except GONE:
            if not used or not self.is_broken:
                raise
        self.give_back()
        self._connection = None
        self._connection = self._pool.take(fresh=True)
        if (
            self._connection.keeps_plans is not keeps_plans
        ):  # the statements are written for the other
            raise psycopg.OperationalError("the server is reached in another way than before")
        return self._start(statements)

    def _start(self, statements: Sequence[Statement]) -> list[Answer]:
        """With the first statements, or alone: then an answer that does not come at once shows that
        the connection is unusable."""
        connection, begin = self._held, self._begin.message.decode()
        try:
            if statements:
                connection.patience = self._begin.longest + ON_THE_WAY
                cursor = self._execute(statements, f"{begin}; ")
            else:
                cursor = connection.execute(self._begin.message)
            cursor.nextset()
            now, is_standby = cursor.fetchall()[0][:2]
            if is_standby:
                raise errors.ReadOnlySqlTransaction("the server is a read-only standby")  # noqa: TRY301
        except BaseException as error:
            if not statements or isinstance(error, errors.ReadOnlySqlTransaction):
                connection.close()
            raise
        self._began_at, connection.patience = now, self._begin.longest + ON_THE_WAY
        return _answers(cursor) if cursor.nextset() else []


def _answers(cursor: psycopg.Cursor[Any]) -> list[Answer]:
    """From the current result of the cursor."""
    found = []
    while True:
        rows = cursor.fetchall() if cursor.description else []
        if cursor.statusmessage not in PREPARING:
            found.append(Answer(cursor.rowcount, rows, cursor.statusmessage))
        if not cursor.nextset():
            return found

"""A PostgreSQL database as a store: a pool of connections, one transaction on each at a time."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg import errors

from duebook.errors import Unavailable
from duebook.ids import new_id
from duebook.store.base import refuse_fork
from duebook.store.postgres.connection import SCHEMA, full_conninfo, place_of, translated
from duebook.store.postgres.hints import Herald, Listener
from duebook.store.postgres.migrate import migrate
from duebook.store.postgres.pool import Pool
from duebook.store.postgres.tx import PostgresTx
from duebook.store.sql.planning import remember

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from duebook.store.base import Tx
    from duebook.store.sql.planning import Definitions

    Connection = psycopg.Connection[tuple[Any, ...]]

__all__ = ["PostgresStore"]

T = TypeVar("T")
CONNECTIONS: Final = 16
WAIT: Final = 5.0
"""Seconds after which a connection that others do not give back is given up."""
TRIES: Final = 5
"""How often a transaction is tried that others made impossible."""
_LOCAL: Final = {
    "search_path": SCHEMA,
    "timezone": "UTC",
    "plan_cache_mode": "force_custom_plan",
    "jit": "off",
    # whoever stops in the middle of a transaction holds up others: well below any lease
    "idle_in_transaction_session_timeout": "5s",
    "statement_timeout": "10s",
}


def _begin(mode: str, **changes: str) -> bytes:
    """One message that opens a transaction, sets what holds in it only, and asks for the time."""
    local = {**_LOCAL, **changes}
    calls = (f"set_config('{name}', '{value}', true)" for name, value in local.items())
    return f"BEGIN {mode}; SELECT now(), {', '.join(calls)}".encode()


_WRITE: Final = _begin("ISOLATION LEVEL READ COMMITTED READ WRITE")
_READ: Final = _begin("ISOLATION LEVEL REPEATABLE READ READ ONLY", statement_timeout="60s")


class PostgresStore:
    """Implements store.base.Store.

    The database's clock is the clock, unless a test gives one. `hook` is called before and after
    every statement and COMMIT; tests crash there. `listen_url` is where notifications arrive,
    when `url` leads through a pooler that keeps no session.
    """

    def __init__(
        self,
        url: str,
        clock: Callable[[], datetime] | None = None,
        hook: Callable[[str], None] | None = None,
        listen_url: str | None = None,
        connections: int = CONNECTIONS,
    ) -> None:
        conninfo = full_conninfo(url)
        self._place = place_of(conninfo)
        self._clock = clock
        self._hook = hook
        self._definitions: Definitions = {}
        self._announced: datetime | None = None
        self._pid = os.getpid()
        self._closed = False
        self._pool = Pool(conninfo, connections, WAIT)
        try:
            self._with_connection(migrate)
        except BaseException:
            self._pool.close()
            raise
        ourselves = new_id()
        self._listener = Listener(full_conninfo(listen_url or url), ourselves)
        self._herald = Herald(self._send, ourselves)

    def transact(self, work: Callable[[Tx], T]) -> T:
        """Others may make a transaction impossible; then it is tried again from its beginning."""
        for _ in range(TRIES - 1):
            with suppress(errors.SerializationFailure, errors.DeadlockDetected):
                return self._transact(work)
        try:
            return self._transact(work)
        except (errors.SerializationFailure, errors.DeadlockDetected) as error:
            raise Unavailable(f"the {self._place} is too busy: {error}") from error

    def _transact(self, work: Callable[[Tx], T]) -> T:
        with self._transaction(_WRITE) as (connection, now):
            tx = self._tx(connection, now, writes=True)
            result = work(tx)
            self._commit(connection)
        remember(self._definitions, tx.learned)
        if tx.told or self._is_news(tx):
            self._listener.add()
            self._herald.ring()
        return result

    def read(self, work: Callable[[Tx], T]) -> T:
        with self._transaction(_READ) as (connection, now):
            return work(self._tx(connection, now, writes=False))

    def changed(self) -> int:
        """Counts what others told; no query."""
        self._refuse_use()
        return self._listener.count()

    def close(self) -> None:
        """Harmless when it is closed already; afterwards everything raises Unavailable."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        self._listener.close(self._herald.ring)
        self._herald.close()
        self._pool.close()

    def _tx(self, connection: Connection, now: datetime, writes: bool) -> PostgresTx:
        return PostgresTx(connection, now, self._clock, self._hook, self._definitions, writes)

    @contextmanager
    def _transaction(self, begin: bytes) -> Iterator[tuple[Connection, datetime]]:
        self._refuse_use()
        with translated(self._place):
            connection, now = self._open(begin)
            try:
                yield connection, now
            finally:
                self._pool.give(connection)

    def _open(self, begin: bytes) -> tuple[Connection, datetime]:
        """A connection in a new transaction; one that broke while it was idle is replaced."""
        try:
            return self._start(self._pool.take(), begin)
        except psycopg.OperationalError:
            return self._start(self._pool.take(fresh=True), begin)

    def _start(self, connection: Connection, begin: bytes) -> tuple[Connection, datetime]:
        try:
            cursor = connection.execute(begin)
            cursor.nextset()
            return connection, cursor.fetchall()[0][0]
        except BaseException:
            self._pool.give(connection)
            raise

    def _commit(self, connection: Connection) -> None:
        self._point("before:COMMIT")
        try:
            done = connection.execute(b"COMMIT").statusmessage
        except psycopg.OperationalError as error:
            raise Unavailable(
                f"the {self._place} broke off: nobody knows whether the last change was kept"
            ) from error
        if done != "COMMIT":  # a statement had failed, and somebody ignored that
            raise Unavailable(f"the {self._place} rolled the last change back")
        self._point("after:COMMIT")

    def _is_news(self, tx: PostgresTx) -> bool:
        """Whether others sleep longer than they may now, as far as this process told them."""
        wake_at, announced = tx.told_wake, self._announced
        if wake_at is None or (announced is not None and tx.now < announced <= wake_at):
            return False
        self._announced = wake_at
        return True

    def _send(self, statement: bytes) -> None:
        self._with_connection(lambda connection: connection.execute(statement))

    def _with_connection(self, work: Callable[[Connection], object]) -> None:
        """Outside any transaction of a caller."""
        with translated(self._place):
            connection = self._pool.take()
            try:
                work(connection)
            finally:
                self._pool.give(connection)

    def _refuse_use(self) -> None:
        if self._closed:
            raise Unavailable(f"the {self._place} is closed")
        refuse_fork(self._pid)

    def _point(self, name: str) -> None:
        if self._hook is not None:
            self._hook(name)

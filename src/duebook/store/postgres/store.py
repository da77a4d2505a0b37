"""A PostgreSQL database as a store: a pool of connections, one transaction on each at a time."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, suppress
from datetime import UTC
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zlib import crc32

import psycopg
from psycopg import errors

from duebook.clock import utc_now
from duebook.errors import NotFound, Unavailable
from duebook.ids import new_id
from duebook.model.node import Drain
from duebook.model.run import Token
from duebook.model.serving import ALL
from duebook.store.base import refuse_fork
from duebook.store.postgres.beginning import READ, READ_PATIENTLY, SETTINGS, WRITE
from duebook.store.postgres.connection import BRIEF, translated
from duebook.store.postgres.hints import Herald, Listener
from duebook.store.postgres.joining import joined
from duebook.store.postgres.migrate import applied, migrate
from duebook.store.postgres.pool import Pool
from duebook.store.postgres.prepared import Statement, send_prepared
from duebook.store.postgres.route import Route
from duebook.store.postgres.statements import PREPARED, TEXTS, PostgresStatements
from duebook.store.postgres.transaction import GONE, Answer, Transaction
from duebook.store.postgres.tx import PostgresTx
from duebook.store.sql.consumers import read_consumer
from duebook.store.sql.definitions import remember
from duebook.store.sql.rows import moment
from duebook.store.values import FIRST, WHOLE_QUEUES, Neighbour, News, OwnRun, Pulse, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    from duebook.model.serving import Serving
    from duebook.store.base import Tx
    from duebook.store.outside import Outside
    from duebook.store.postgres.beginning import Begin
    from duebook.store.postgres.connection import Connection
    from duebook.store.sql.definitions import Definitions
    from duebook.store.values import Labels, Mark, QueueParts

__all__ = ["PostgresStore"]

T = TypeVar("T")
CONNECTIONS: Final = 16
WAIT: Final = 5.0
"""Seconds to wait for a connection that others use."""
IDLE: Final = 60.0
"""Seconds after which an idle connection is closed."""
TRIES: Final = 5
"""Maximum attempts of a transaction that others made impossible."""
USE_SLOTS: Final = 16
"""Rows over which the usage of a namespace is spread, so that parallel writers do not wait for each
other."""
SAY_AGAIN: Final = 20.0
"""Seconds between two notices to others that this process waits for runs."""
SHORTEST_PATIENCE: Final = 1.0
"""Minimum timeout of a pulse in seconds, even if the lease is short."""
_NOTHING: Final = Answer(0, [], "COMMIT")
"""The end of a transaction without statements."""


def _utc(moment: Any) -> Any:
    """The driver does not know the zone that was set in only one message."""
    return None if moment is None else moment.astimezone(UTC)


class PostgresStore:
    """Implements store.base.Store.

    The database's clock is used, unless a test passes one. `hook` is called before and after every
    statement and COMMIT; tests crash there. `listen_url` is where notifications arrive, if `url`
    leads through a pooler that keeps no session. Without `create`, raises NotFound for a database
    without Duebook's schema.
    """

    parallel = True
    tells_itself = True
    starts_runs = True
    sequences = True

    def __init__(
        self,
        url: str,
        clock: Callable[[], datetime] | None = None,
        hook: Callable[[str], None] | None = None,
        listen_url: str | None = None,
        connections: int = CONNECTIONS,
        create: bool = True,
    ) -> None:
        route = Route(url)
        listening = route if listen_url is None else Route(listen_url, "listen_url")
        self._url = url
        self._place = route.place
        self._clock = clock
        self._hook = hook
        self._definitions: Definitions = {}
        self._nodes: dict[str, str] = {}
        """the names of nodes by their sessions"""
        self._cursor_key: bytes | None = None
        self._slots = count(crc32(new_id().encode()))
        self._announced: datetime | None = None
        self._say_again_at = float("-inf")
        """when to notify others again that this process waits for runs to end"""
        self._pid = os.getpid()
        self._closed = False
        self._pool = Pool(route, connections, WAIT)
        self._urgent = Pool(route, 1, WAIT)  # a renewal never waits for connections in use
        self._bring_up_to_date(create)
        ourselves = new_id()
        self._listener = Listener(listening, ourselves, self._ask)
        self._herald = Herald(self._ask, ourselves)

    def _bring_up_to_date(self, create: bool) -> None:
        """With the connection that is used next."""
        with translated(self._place):
            connection = self._pool.take()
            try:
                if not create:
                    self._refuse_empty(connection)
                migrate(connection)
            except BaseException:
                self._pool.close()
                raise
            finally:
                self._pool.give(connection)

    def _refuse_empty(self, connection: Connection) -> None:
        if not applied(connection):
            raise NotFound(
                f"the {self._place} has no Duebook schema; choose another one with --database, or "
                "create it there: duebook db migrate"
            )

    def transact(self, work: Callable[[Tx], T]) -> T:
        """Retries the whole transaction if others made it impossible."""
        for _ in range(TRIES - 1):
            with suppress(errors.SerializationFailure, errors.DeadlockDetected):
                return self._transact(work)
        try:
            return self._transact(work)
        except (errors.SerializationFailure, errors.DeadlockDetected) as error:
            raise Unavailable(f"the {self._place} is too busy: {error}") from error

    def _transact(self, work: Callable[[Tx], T]) -> T:
        with self._transaction(WRITE) as transaction:
            db = self._statements(transaction, writes=True)
            tx = PostgresTx(db)
            result = work(tx)
            if db.used:
                tx.quotas.keep_use(next(self._slots) % USE_SLOTS)
            db.answer_last(self._commit(transaction, db.last))
        remember(self._definitions, db.learned)
        if news := db.told | self._earlier(db):
            self._listener.add(news)
            if not self._listener.are_ends_awaited:
                news &= ~News.ENDS
            if news:
                self._herald.ring(news)
        return result

    def read(self, work: Callable[[Tx], T], patient: bool = False) -> T:
        with self._transaction(READ_PATIENTLY if patient else READ) as transaction:
            return work(PostgresTx(self._statements(transaction, writes=False)))

    def pulse(
        self,
        session_id: str,
        lease: timedelta,
        queues: Sequence[str],
        leads: bool = False,
        after: Mark | None = None,
        namespaces: Serving = ALL,
    ) -> Pulse:
        values: dict[str, Any] = {
            "id": session_id,
            "lease": lease,
            "queues": list(queues),
            "namespaces": namespaces.listed,
            "leads": leads,
            "clock": None if self._clock is None else self._clock(),
            "after": (after or FIRST).wake_at,
        }
        patience = max(lease.total_seconds() / 6, SHORTEST_PATIENCE)
        row = self._ask_alone("renew_all", values, self._urgent, patience)
        self._pool.drop_idle(IDLE)
        now, alive, term, lead_until, wake_at, queued, ready_at, expiry, deaths, own, *rest = row
        unstamped, sinks, flow_at, neighbours, draining_at, stops, alerts = rest
        return Pulse(
            now=_utc(now),
            alive=alive,
            term=term,
            lead_until=_utc(lead_until) if leads else None,
            wake_at=_utc(wake_at),
            queued=queued,
            ready_at=_utc(ready_at),
            expiry=_utc(expiry),
            deaths=deaths,
            own=tuple(
                OwnRun(Token(id_, attempt, session_id), reason)
                for id_, attempt, reason in own or ()
            ),
            unstamped=unstamped,
            sinks=tuple(read_consumer(sink) for sink in sinks or ()),
            flow_at=_utc(flow_at),
            neighbours=tuple(Neighbour._make(other) for other in neighbours or ()),
            drain=None if draining_at is None else Drain(_utc(draining_at), stops),
            alerts=alerts,
        )

    def look_for_work(
        self,
        queues: Sequence[str],
        tasks: Sequence[str],
        labels: Labels = (),
        namespaces: Serving = ALL,
        parts: QueueParts = WHOLE_QUEUES,
    ) -> Work:
        listed = [(*place, *part) for place, of_place in parts.items() for part in of_place]
        values: dict[str, Any] = {
            "queues": list(queues),
            "namespaces": namespaces.listed,
            "tasks": list(tasks),
            "labels": json.dumps(dict(labels)),
            "clock": None if self._clock is None else self._clock(),
            "part_queues": [queue for queue, *_ in listed],
            "part_namespaces": [namespace for _, namespace, *_ in listed],
            "ranks": [rank for _, _, rank, _, _ in listed],
            "sinces": [since for *_, since, _ in listed],
            "lasts": [last for *_, last in listed],
        }
        now, limited, ready_at, places = self._ask_alone("look_for_work", values, self._pool, BRIEF)
        if limited:  # limits and rates are computed in Python
            return self.read(lambda tx: tx.claims.list_work(queues, tasks, labels, namespaces))
        firsts = {(queue, name): (rank, moment(at)) for queue, name, rank, at in places or ()}
        return Work(tuple(firsts), _utc(ready_at), _utc(now), firsts)

    def look_for_due(self, after: Mark | None = None) -> tuple[datetime | None, datetime]:
        values: dict[str, Any] = {"after": (after or FIRST).wake_at}
        wake_at, now = self._ask_alone("look_for_due", values, self._pool, BRIEF)
        return _utc(wake_at), self._clock() if self._clock is not None else _utc(now)

    def _ask_alone(self, query: str, values: dict[str, Any], pool: Pool, patience: float) -> Any:
        """One message, which is a transaction by itself, without BEGIN and COMMIT."""
        self._refuse_use()
        self._point(f"before:{query}")

        def ask(connection: Connection) -> tuple[Any, ...]:
            connection.patience = patience
            sql = TEXTS[query]
            if kept := PREPARED[query] if connection.keeps_plans else None:
                sql = kept.execution
            text = psycopg.ClientCursor(connection).mogrify(sql, values | {"here": utc_now()})
            cursor = send_prepared(connection, [Statement(text, kept)], SETTINGS)
            *_, last = cursor.results()
            return last.fetchall()[0]

        row = self._with_connection(ask, pool)
        self._point(f"after:{query}")
        return row

    def join(self, connection: object) -> AbstractContextManager[Tx]:
        self._refuse_use()
        return joined(connection, self._joined_statements)

    def news(self, timeout: float) -> News:
        self._refuse_use()
        return self._listener.take(timeout)

    def wait_for_log(self, seen: int, timeout: float) -> int:
        self._refuse_use()
        return self._listener.wait_for_log(seen, timeout)

    def wait_for_ends(self, seen: int, timeout: float) -> int:
        """Others notify of ends only while a process has announced that it waits."""
        self._refuse_use()
        if time.monotonic() >= self._say_again_at:
            self._say_again_at = time.monotonic() + SAY_AGAIN
            self._herald.ring(News.AWAITED)
        return self._listener.wait_for_ends(seen, timeout)

    def cursor_key(self) -> bytes:
        if self._cursor_key is None:
            self._cursor_key = self.read(lambda tx: tx.access.get_secret("cursors"))
        return self._cursor_key

    def connect(self) -> psycopg.Connection[Any]:
        """With the caller's own schema, and without our timeouts."""
        self._refuse_use()
        with translated(self._place):
            return psycopg.connect(self._url, target_session_attrs="read-write")

    def close(self) -> None:
        """Harmless when it is closed already; afterwards everything raises Unavailable."""
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        self._listener.close(lambda: self._herald.ring(News.WAKE))
        self._herald.close()
        self._pool.close()
        self._urgent.close()

    def _statements(self, transaction: Transaction, writes: bool) -> PostgresStatements:
        return PostgresStatements(
            transaction,
            lambda: transaction.now,
            self._clock,
            self._hook,
            self._definitions,
            self._nodes,
            writes,
            transaction if self._hook is None else None,
        )

    def _joined_statements(self, theirs: Outside, now: datetime) -> PostgresStatements:
        return PostgresStatements(
            theirs,
            lambda: now,
            self._clock,
            self._hook,
            self._definitions,
            self._nodes,
            writes=True,
        )

    @contextmanager
    def _transaction(self, begin: Begin) -> Iterator[Transaction]:
        self._refuse_use()
        with translated(self._place):
            transaction = Transaction(self._pool, begin)
            try:
                yield transaction
            except errors.ReadOnlySqlTransaction:
                transaction.refuse()
                raise
            finally:
                transaction.give_back()

    @contextmanager
    def _given_back(self, connection: Connection, pool: Pool) -> Iterator[None]:
        try:
            yield
        except errors.ReadOnlySqlTransaction:
            connection.close()  # another connection may lead to the primary
            raise
        finally:
            pool.give(connection)

    def _commit(self, transaction: Transaction, last: Sequence[Statement] = ()) -> list[Answer]:
        """Returns the answers to the last queries, which went with it."""
        self._point("before:COMMIT")
        try:
            *answers, done = transaction.commit(last) or [_NOTHING]
        except psycopg.OperationalError as error:
            if not transaction.is_broken:  # it refused a statement
                raise
            raise Unavailable(
                f"the {self._place} disconnected: it is unknown whether the last change was "
                "committed"
            ) from error
        if done.status != "COMMIT":  # a statement had failed, and its error was ignored
            raise Unavailable(f"the {self._place} rolled back the last change")
        self._point("after:COMMIT")
        return answers

    def _earlier(self, db: PostgresStatements) -> News:
        """Whether others would sleep too long, judging by what this process told them."""
        wake_at, announced = db.told_wake, self._announced
        if wake_at is None or (announced is not None and db.now < announced <= wake_at):
            return News(0)
        self._announced = wake_at
        return News.WAKE

    def _ask(self, statement: bytes) -> list[tuple[Any, ...]]:
        """A brief query, on a connection of the pool."""

        def work(connection: Connection) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

        return self._with_connection(work, self._pool)

    def _with_connection(self, work: Callable[[Connection], T], pool: Pool) -> T:
        """Outside any transaction of a caller; `work` may be executed twice."""
        with translated(self._place):
            connection = pool.take()
            used = connection.used
            try:
                return self._once(work, pool, connection)
            except GONE:
                if not used:
                    raise
            return self._once(work, pool, pool.take(fresh=True))

    def _once(self, work: Callable[[Connection], T], pool: Pool, connection: Connection) -> T:
        with self._given_back(connection, pool):
            return work(connection)

    def _refuse_use(self) -> None:
        if self._closed:
            raise Unavailable(f"the {self._place} is closed")
        refuse_fork(self._pid)

    def _point(self, name: str) -> None:
        if self._hook is not None:
            self._hook(name)

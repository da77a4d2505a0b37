"""A pool of connections; a thread that needs one more opens it, and gets the error if it fails."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
from psycopg.pq import TransactionStatus

from duebook.errors import Unavailable
from duebook.store.postgres.connection import BRIEF

if TYPE_CHECKING:
    from duebook.store.postgres.connection import Connection
    from duebook.store.postgres.route import Route

__all__ = ["Pool"]


class Pool:
    """At most `most` at once; a connection returned within a transaction is rolled back."""

    def __init__(self, route: Route, most: int, wait: float) -> None:
        self._route = route
        self._most = most
        self._wait = wait
        self._places = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._idle: list[tuple[Connection, float]] = []
        self._closed = False

    def take(self, fresh: bool = False) -> Connection:
        """The one that was used last, or a new one; raises the driver's errors, or Unavailable."""
        if not self._places.acquire(timeout=self._wait):
            raise Unavailable(f"all {self._most} connections to the database are in use")
        try:
            if not fresh:
                with self._lock, suppress(IndexError):
                    return self._idle.pop()[0]
            return self._route.connect()
        except BaseException:
            self._places.release()
            raise

    def give(self, connection: Connection) -> None:
        """Return a connection. If it is broken, all idle ones are dropped: behind a dead server or
        a network that drops everything, their users would wait one after the other."""
        try:
            connection.patience, connection.used = BRIEF, True
            connection.given_back_at = time.monotonic()
            with suppress(psycopg.Error):
                if connection.info.transaction_status not in _OUTSIDE:
                    connection.execute(b"ROLLBACK")
            if connection.info.transaction_status != TransactionStatus.IDLE:
                connection.close()
                self.drop_idle()
            elif not self._keep(connection):
                connection.close()
        finally:
            self._places.release()

    def _keep(self, connection: Connection) -> bool:
        """Whether it was kept, to be used or to be closed with the pool."""
        with self._lock:
            if not self._closed:
                self._idle.append((connection, time.monotonic()))
            return not self._closed

    def drop_idle(self, seconds: float = 0.0) -> None:
        """Close those that have been idle for this many seconds."""
        long_ago = time.monotonic() - seconds
        with self._lock:
            dropped = [connection for connection, since in self._idle if since <= long_ago]
            self._idle = [kept for kept in self._idle if kept[1] > long_ago]
        for connection in dropped:
            connection.close()

    def close(self) -> None:
        """Connections in use are closed when they are returned."""
        with self._lock:
            self._closed = True
        self.drop_idle()


_OUTSIDE = (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

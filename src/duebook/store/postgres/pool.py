"""Connections that are used in turn; whoever needs one more makes it, and hears why it failed."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import TransactionStatus

from duebook.errors import Unavailable

if TYPE_CHECKING:
    Connection = psycopg.Connection[tuple[Any, ...]]

__all__ = ["Pool"]


class Pool:
    """At most so many at once; what is given back in the middle of a transaction is rolled back."""

    def __init__(self, conninfo: str, most: int, wait: float) -> None:
        self._conninfo = conninfo
        self._most = most
        self._wait = wait
        self._places = threading.BoundedSemaphore(most)
        self._idle: list[Connection] = []
        self._closed = False

    def take(self, fresh: bool = False) -> Connection:
        """The one that was used last, or a new one; raises the driver's errors, or Unavailable."""
        if not self._places.acquire(timeout=self._wait):
            raise Unavailable(f"all {self._most} connections to the database are in use")
        try:
            if not fresh:
                with suppress(IndexError):
                    return self._idle.pop()
            return psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        except BaseException:
            self._places.release()
            raise

    def give(self, connection: Connection) -> None:
        """Back for others; a broken one is dropped."""
        try:
            with suppress(psycopg.Error):
                if connection.info.transaction_status not in _OUTSIDE:
                    connection.execute(b"ROLLBACK")
            if self._closed or connection.info.transaction_status != TransactionStatus.IDLE:
                connection.close()
            else:
                self._idle.append(connection)
        finally:
            self._places.release()

    def close(self) -> None:
        """Those in use are closed when they are given back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()


_OUTSIDE = (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

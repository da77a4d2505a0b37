"""The protocol of a store: the transactions that the engine and the client may request."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from duebook.errors import Unavailable
from duebook.model.serving import ALL
from duebook.store.sql.tx import Tx
from duebook.store.values import WHOLE_QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    from duebook.model.serving import Serving
    from duebook.store.values import Labels, Mark, News, Pulse, QueueParts, Work

__all__ = ["Store", "Tx", "refuse_fork"]

T = TypeVar("T")


def refuse_fork(pid: int) -> None:
    """Raises Unavailable in any process but `pid`, as connections do not survive a fork."""
    if os.getpid() != pid:
        raise Unavailable("a store cannot be used after a fork; open it again in the child process")


class Store(Protocol):
    """A database that holds the books."""

    parallel: bool
    """whether parallel transactions of one process are faster than consecutive ones"""
    tells_itself: bool
    """whether `news` includes what this process itself wrote"""
    starts_runs: bool
    """whether planned runs can start in the same transaction"""
    sequences: bool
    """whether events get their positions later, from a sequencer"""

    def transact(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in one writing transaction and return its result once it is durable.

        If `work` raises, the transaction is rolled back.
        """

    def read(self, work: Callable[[Tx], T], patient: bool = False) -> T:
        """Run `work` on one consistent view; it must not write.

        Each statement is aborted after some seconds; with `patient`, for reads of everything, after
        a minute.
        """

    def pulse(
        self,
        session_id: str,
        lease: timedelta,
        queues: Sequence[str],
        leads: bool = False,
        after: Mark | None = None,
        namespaces: Serving = ALL,
    ) -> Pulse:
        """Renew a session's lease, and look at everything a node waits for, in one query.

        With `leads`, also the leadership: kept, or taken when the leader's lease has ended. No wake
        before `after` needs to be found, and no work outside `queues` and `namespaces`.
        """

    def join(self, connection: object) -> AbstractContextManager[Tx]:
        """A Tx inside the caller's own transaction: what it writes exists iff that commits.

        Takes a connection of the database's driver, Django's, or SQLAlchemy's connection or
        session. Raises Invalid for anything else, for another database, and for a connection that
        has no transaction.
        """

    def look_for_work(
        self,
        queues: Sequence[str],
        tasks: Sequence[str],
        labels: Labels = (),
        namespaces: Serving = ALL,
        parts: QueueParts = WHOLE_QUEUES,
    ) -> Work:
        """The result of Tx.claims.list_work, for the cost of one query.

        In queues with `parts`, only these need to be searched.
        """

    def look_for_due(self, after: Mark | None = None) -> tuple[datetime | None, datetime]:
        """The result of Tx.plans.earliest_wake, and the time, for the cost of one query."""

    def news(self, timeout: float) -> News:
        """What any process, including this one, gave others to do since the last call.

        Waits for it up to `timeout` seconds, without queries. Only one thread may call it. Raises
        Conflict if this is no longer the database that others see.
        """

    def wait_for_log(self, seen: int, timeout: float) -> int:
        """Wait up to `timeout` seconds for a notification that the event log has grown.

        Takes and returns the number of these notifications; any number of threads may wait.
        """

    def wait_for_ends(self, seen: int, timeout: float) -> int:
        """Wait up to `timeout` seconds for a notification that runs have ended.

        Takes and returns the number of these notifications; only one thread may wait.
        """

    def cursor_key(self) -> bytes:
        """The key that seals the cursors of lists; the same for all processes on this database."""

    def connect(self) -> Any:
        """A new connection to the database for the caller's own tables."""

    def close(self) -> None: ...

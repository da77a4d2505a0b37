"""The protocol of a store: which transactions the engine and the client may ask for."""

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
    """Connections do not outlive a fork; raises Unavailable in any process but `pid`."""
    if os.getpid() != pid:
        raise Unavailable("a store cannot be used after a fork; open it again in the child process")


class Store(Protocol):
    """A database that holds the books."""

    parallel: bool
    """whether two transactions of one process go faster side by side than in turn"""
    tells_itself: bool
    """whether `news` has what this process wrote, too"""
    starts_runs: bool
    """whether what is planned can begin in the same transaction"""
    sequences: bool
    """whether events get their positions later, by a sequencer"""

    def transact(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in one writing transaction and return its result once it is durable.

        When `work` raises, nothing of it stays.
        """

    def read(self, work: Callable[[Tx], T], patient: bool = False) -> T:
        """Run `work` on one consistent view; it must not write.

        Its statements are given up after some seconds; `patient` ones, which look at everything,
        after a minute.
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
        """Prolong a session's lease, and look at everything a node waits for, in one query.

        With `leads` also the leadership: kept, or taken when the leader's lease has ended. No
        wake before `after` needs to be found, and no work outside `queues` and `namespaces`.
        """

    def join(self, connection: object) -> AbstractContextManager[Tx]:
        """A Tx inside the caller's own transaction: what it writes exists iff that commits.

        Takes a connection of the database's driver, Django's, or SQLAlchemy's connection or
        session. Raises Invalid for anything else, for another database, and for one that is in no
        transaction.
        """

    def look_for_work(
        self,
        queues: Sequence[str],
        tasks: Sequence[str],
        labels: Labels = (),
        namespaces: Serving = ALL,
        parts: QueueParts = WHOLE_QUEUES,
    ) -> Work:
        """What Tx.claims.list_work says, at the price of one question.

        Of queues of which `parts` are given, no others need to be looked at.
        """

    def look_for_due(self, after: Mark | None = None) -> tuple[datetime | None, datetime]:
        """What Tx.plans.earliest_wake says, and what time it is, at the price of one question."""

    def news(self, timeout: float) -> News:
        """What anybody, here or in another process, gave others to do since it was last asked.

        Waits for it up to `timeout` seconds, and costs no query. Only one thread may ask. Raises
        Conflict when these are no longer the books that others see.
        """

    def wait_for_log(self, seen: int, timeout: float) -> int:
        """Wait up to `timeout` seconds for the log of events to grow, as others tell.

        Takes and returns how often that was told; any number of threads may wait.
        """

    def wait_for_ends(self, seen: int, timeout: float) -> int:
        """Wait up to `timeout` seconds for runs to end, as others tell.

        Takes and returns how often that was told; only one thread may ask.
        """

    def cursor_key(self) -> bytes:
        """What seals the cursors of lists: the same for everybody who opens these books."""

    def connect(self) -> Any:
        """A connection of the caller's own to the database of the books, for his own tables."""

    def close(self) -> None: ...

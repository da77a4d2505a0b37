"""A store on an open transaction, so that several use cases share it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar

from duebook.errors import Invalid
from duebook.model.serving import ALL
from duebook.store.values import WHOLE_QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from duebook.model.serving import Serving
    from duebook.store.base import Tx
    from duebook.store.values import Labels, Mark, News, Pulse, QueueParts, Work

__all__ = ["JoinedStore"]

T = TypeVar("T")


class JoinedStore:
    """Implements store.base.Store on a transaction that the caller ends.

    What `transact` wrote is durable only then. If its work raises, only that work is undone, and
    the transaction continues. Use it from one thread, and not after the transaction.
    """

    parallel = False
    tells_itself = False
    starts_runs = False
    sequences = False  # left to the store that ends the transaction

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def transact(self, work: Callable[[Tx], T]) -> T:
        return self._tx.undoable(lambda: work(self._tx))

    def read(self, work: Callable[[Tx], T], patient: bool = False) -> T:  # noqa: ARG002
        return work(self._tx)

    def pulse(
        self,
        session_id: str,
        lease: timedelta,
        queues: Sequence[str],
        leads: bool = False,
        after: Mark | None = None,  # noqa: ARG002 - a hint
        namespaces: Serving = ALL,
    ) -> Pulse:
        return self._tx.nodes.pulse(session_id, lease, queues, leads, namespaces)

    def look_for_work(
        self,
        queues: Sequence[str],
        tasks: Sequence[str],
        labels: Labels = (),
        namespaces: Serving = ALL,
        parts: QueueParts = WHOLE_QUEUES,  # noqa: ARG002 - somebody else's transaction is no worker's
    ) -> Work:
        return self._tx.claims.list_work(queues, tasks, labels, namespaces)

    def look_for_due(self, after: Mark | None = None) -> tuple[datetime | None, datetime]:
        return self._tx.plans.earliest_wake(after), self._tx.now

    def join(self, connection: object) -> NoReturn:  # noqa: ARG002
        raise Invalid("connection: a transaction is already open and cannot join another one")

    def news(self, timeout: float) -> News:  # noqa: ARG002
        raise Invalid(
            "cannot wait for notifications inside a transaction, which does not see changes by "
            "others"
        )

    def wait_for_log(self, seen: int, timeout: float) -> NoReturn:  # noqa: ARG002
        raise Invalid(
            "cannot wait for events inside a transaction, which does not see changes by others"
        )

    def wait_for_ends(self, seen: int, timeout: float) -> NoReturn:  # noqa: ARG002
        raise Invalid(
            "cannot wait for a run inside a transaction, which does not see changes by others"
        )

    def cursor_key(self) -> bytes:
        return self._tx.access.get_secret("cursors")

    def connect(self) -> NoReturn:
        raise Invalid("a transaction is already open on another connection")

    def close(self) -> None:
        """Does nothing: the owner of the store closes it."""

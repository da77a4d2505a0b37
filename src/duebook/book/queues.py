"""What people do with queues: look at them, limit them, lift the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.errors import Invalid, NotFound
from duebook.ids import check_name
from duebook.model.fields import whole
from duebook.model.queue import MOST, Queue, read_rate

if TYPE_CHECKING:
    from duebook.model.queue import QueueLoad, Rate
    from duebook.store.base import Store

    QueueList = list[QueueLoad]  # inside the class below `list` is a method

__all__ = ["Queues"]


class Queues:
    """Queues come into being with their first run; only limits are kept. All namespaces share
    them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> QueueList:
        """Every queue that has limits or work, by name."""
        return self._store.read(lambda tx: tx.list_queues())

    def limit(
        self, name: str, concurrency: int | None = None, rate: str | Rate | None = None
    ) -> Queue:
        """At most `concurrency` runs at once, over all nodes (0 holds the queue), and no more than
        `rate`, such as "10/s", begin. These replace the limits it had. Raises Invalid.
        """
        if concurrency is None and rate is None:
            raise Invalid("a limit needs a concurrency, a rate, or both; free() lifts them")
        queue = Queue(
            check_name(name, "queue"),
            None if concurrency is None else whole(0, MOST)("concurrency", concurrency),
            None if rate is None else read_rate("rate", rate),
        )
        self._store.transact(lambda tx: tx.limit_queue(queue))
        return queue

    def free(self, name: str) -> None:
        """Lift the limits of a queue; raises NotFound when it has none."""
        check_name(name, "queue")
        if not self._store.transact(lambda tx: tx.free_queue(name)):
            raise NotFound(f'queue "{name}" has no limits')

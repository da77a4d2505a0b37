"""Use cases of queues: list them, set and remove their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book.audit import SHARED, Auditor
from duebook.errors import Invalid, NotFound
from duebook.ids import check_name
from duebook.model.fields import whole
from duebook.model.forms import limits_form
from duebook.model.queue import MOST, Queue, read_rate
from duebook.model.serving import ALL

if TYPE_CHECKING:
    from duebook.model.queue import QueueLoad, Rate
    from duebook.model.serving import Serving
    from duebook.store.base import Store, Tx

    QueueList = list[QueueLoad]  # inside the class below `list` is a method

__all__ = ["Queues"]


class Queues:
    """Queues and their limits. A queue exists once it has a run; all namespaces share queues. A
    caller that sees only the namespaces in `sees` sees the queues with runs of these."""

    def __init__(self, store: Store, by: str = "", sees: Serving = ALL) -> None:
        self._store = store
        self._sees = sees
        self._audit = Auditor(SHARED, by)

    def list(self) -> QueueList:
        """Return every queue that has limits or runs, by name."""
        return self._store.read(lambda tx: tx.queues.list_queues(self._sees))

    def limit(
        self, name: str, concurrency: int | None = None, rate: str | Rate | None = None
    ) -> Queue:
        """Run at most `concurrency` runs at the same time, across all nodes (0 puts the queue on
        hold), and start at most `rate`, such as "10/s". These limits replace the previous ones.
        Raises Invalid."""
        if concurrency is None and rate is None:
            raise Invalid("a limit needs a concurrency, a rate, or both")
        queue = Queue(
            check_name(name, "queue"),
            None if concurrency is None else whole(0, MOST)("concurrency", concurrency),
            None if rate is None else read_rate("rate", rate),
        )

        def work(tx: Tx) -> Queue:
            former = tx.queues.get_queue(queue.name)
            tx.queues.limit_queue(queue)
            self._note(tx, "limit", former or Queue(queue.name), queue)
            return queue

        return self._store.transact(work)

    def free(self, name: str) -> None:
        """Remove the limits of a queue; raises NotFound if it has none."""
        check_name(name, "queue")

        def work(tx: Tx) -> None:
            former = tx.queues.get_queue(name)
            if former is None or not tx.queues.free_queue(name):
                raise NotFound(f'queue "{name}" has no limits')
            self._note(tx, "free", former, Queue(name))

        self._store.transact(work)

    def _note(self, tx: Tx, action: str, was: Queue, is_now: Queue) -> None:
        before, after = limits_form(was), limits_form(is_now)
        self._audit.note(tx, action, "queue", is_now.name, "", before, after)

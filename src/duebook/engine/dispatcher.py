"""Claims ready runs for the free slots of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.engine.slots import Places
    from duebook.store.base import Store

__all__ = ["Dispatcher"]


class Dispatcher:
    """One per worker node."""

    def __init__(
        self,
        store: Store,
        slots: Places,
        session_id: str,
        queues: tuple[str, ...],
        tasks: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._slots = slots
        self.session_id = session_id
        self._queues = queues

    def step(self) -> datetime | None:
        """Fill the free slots; returns when work is ready next, None when none is foreseen."""
        free = self._slots.free
        if free == 0:
            return None  # a slot that gets free rings
        tasks = self._tasks()
        queues, ready_at = self._store.read(
            lambda tx: ([q for q in self._queues if tx.has_work(q, tasks)], tx.earliest_ready())
        )
        for queue in queues:
            with self._slots.claiming:
                claims = self._store.transact(
                    lambda tx, queue=queue, free=free: tx.claim(  # type: ignore[misc]
                        self.session_id, queue, free, tasks
                    )
                )
                self._slots.begin(claims)
            free -= len(claims)
            if free == 0:
                break
        return ready_at

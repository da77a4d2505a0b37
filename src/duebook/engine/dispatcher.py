"""Claims ready runs for the free slots of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.engine.slots import Slots
    from duebook.store.base import Store

__all__ = ["Dispatcher"]


class Dispatcher:
    """One per worker node."""

    def __init__(
        self, store: Store, slots: Slots[Any], session_id: str, queues: tuple[str, ...]
    ) -> None:
        self._store = store
        self._slots = slots
        self.session_id = session_id
        self._queues = queues

    def step(self) -> datetime | None:
        """Fill the free slots; returns when work is ready next, None when none is foreseen."""
        free = self._slots.free
        if free == 0:
            return None  # a slot that gets free rings
        queues, ready_at = self._store.read(
            lambda tx: ([q for q in self._queues if tx.has_work(q)], tx.earliest_ready())
        )
        for queue in queues:
            with self._slots.claiming:
                claims = self._store.transact(
                    lambda tx, queue=queue, free=free: tx.claim(self.session_id, queue, free)  # type: ignore[misc]
                )
                self._slots.begin(claims)
            free -= len(claims)
            if free == 0:
                break
        return ready_at

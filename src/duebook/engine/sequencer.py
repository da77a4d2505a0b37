"""Assigns positions to events once they are visible; any number of nodes may try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duebook.store.base import Store

__all__ = ["Sequencer"]

BATCH: Final = 2_000
HELD_BY_ANOTHER: Final = 0.002
"""Seconds until the next look when another node was at work: events written since may wait. The
wait doubles each time, as that node may have been suspended."""
LONGEST_WAIT: Final = 0.1


class Sequencer:
    """One per relay node, for databases that number events after they are written."""

    def __init__(self, store: Store, batch: int = BATCH) -> None:
        self._store = store
        self._batch = batch
        self._wait = HELD_BY_ANOTHER

    def step(self) -> float | None:
        """Stamp waiting events; returns in how many seconds to look again, None to wait for a
        ring."""
        stamped = self._store.transact(lambda tx: tx.events.stamp_events(self._batch))
        if stamped is None:
            wait, self._wait = self._wait, min(2 * self._wait, LONGEST_WAIT)
            return wait
        self._wait = HELD_BY_ANOTHER
        return 0.0 if stamped == self._batch else None

"""Gives events their positions, once they can be seen; any number of nodes may try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duebook.store.base import Store

__all__ = ["Sequencer"]

BATCH: Final = 2_000
HELD_BY_ANOTHER: Final = 0.002
"""Seconds after which it looks again, when somebody else was at it: what came since may wait. Then
twice as long each time, for that one may have been stopped."""
LONGEST_WAIT: Final = 0.1


class Sequencer:
    """One per relay node whose books number events later."""

    def __init__(self, store: Store, batch: int = BATCH) -> None:
        self._store = store
        self._batch = batch
        self._wait = HELD_BY_ANOTHER

    def step(self) -> float | None:
        """Stamp what waits; returns in how many seconds to look again, None: when told to."""
        stamped = self._store.transact(lambda tx: tx.events.stamp_events(self._batch))
        if stamped is None:
            wait, self._wait = self._wait, min(2 * self._wait, LONGEST_WAIT)
            return wait
        self._wait = HELD_BY_ANOTHER
        return 0.0 if stamped == self._batch else None

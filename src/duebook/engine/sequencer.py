"""Gives events their positions, once they can be seen; any number of nodes may try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duebook.store.base import Store

__all__ = ["Sequencer"]

BATCH: Final = 2_000
HELD_BY_ANOTHER: Final = 0.02
"""Seconds after which it looks again, when somebody else was at it: what came since may wait."""


class Sequencer:
    """One per relay node whose books number events later."""

    def __init__(self, store: Store, batch: int = BATCH) -> None:
        self._store = store
        self._batch = batch

    def step(self) -> float | None:
        """Stamp what waits; returns in how many seconds to look again, None: when told to."""
        stamped = self._store.transact(lambda tx: tx.stamp_events(self._batch))
        if stamped is None:
            return HELD_BY_ANOTHER
        return 0.0 if stamped == self._batch else None

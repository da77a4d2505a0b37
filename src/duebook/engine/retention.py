"""Deletes what is older than the retention, a batch at a time, and leaves the books to others
most of the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from duebook.settings import RETENTION

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from duebook.store.base import Store
    from duebook.store.values import Purged

__all__ = ["Retention"]

FEWEST: Final = 200
MOST: Final = 5_000
"""How many things a batch deletes."""
BRIEF: Final = 0.1
"""Seconds that a batch may take; the next one is smaller when one took longer."""
REST: Final = 4.0
"""A pause lasts so many times as long as the batch before it took."""
EVERY: Final = 600.0
"""Seconds until it looks again, once nothing old is left."""


class Retention:
    """One per node; any number of them share the work.

    Batches grow while they are quick, so that history goes at least as fast as it comes, and a
    pause after each keeps the most part of the database's time for runs. A batch begins where the
    last one ended: until a vacuum, the index still holds what was deleted before that.
    """

    def __init__(
        self,
        store: Store,
        kept: timedelta = RETENTION,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._kept = kept
        self._monotonic = monotonic
        self._limit = FEWEST
        self._after: datetime | None = None
        """runs that ended before are deleted, or somebody else is at it"""

    def step(self) -> float:
        """Delete a batch; returns after how many seconds to go on."""
        began = self._monotonic()
        purged: Purged = self._store.transact(
            lambda tx: tx.upkeep.purge(tx.now - self._kept, self._limit, self._after)
        )
        seconds = self._monotonic() - began
        self._after = purged.after
        if purged.number < self._limit:
            self._after = None
            return EVERY
        size = self._limit // 2 if seconds > BRIEF else self._limit * 2
        self._limit = min(max(size, FEWEST), MOST)
        return seconds * REST

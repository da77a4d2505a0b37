"""What monitoring programs poll: the readiness of the node, and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.api.metrics import Metrics
from duebook.api.timed_cache import TimedCache
from duebook.book.readiness import look_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.engine.measures import Measures
    from duebook.model.readiness import Readiness
    from duebook.store.base import Store

__all__ = ["Watch"]

KEEP: Final = 1.0
"""Seconds for which unauthenticated clients get the same result, however often they ask."""


class Watch:
    """One per server. `measures` asks its node, perhaps in process `node_pid`, for its counters;
    `trouble` asks it why it does not work."""

    def __init__(
        self,
        store: Store,
        measures: Callable[[], Measures | None] | None = None,
        trouble: Callable[[], str | None] | None = None,
        node_pid: int | None = None,
    ) -> None:
        self._cached = TimedCache(lambda: look_here(store, trouble), KEEP)
        self._metrics = Metrics(store, measures, node_pid=node_pid)

    def readiness(self) -> Readiness:
        """Of this node; up to a second old."""
        return self._cached.get()

    def metrics(self) -> bytes:
        return self._metrics.text()

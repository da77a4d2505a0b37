"""What watchers ask a server again and again: whether its node is ready, and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.api.metrics import Metrics
from duebook.api.recent import Recent
from duebook.book.readiness import look_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.engine.measures import Measures
    from duebook.model.readiness import Readiness
    from duebook.store.base import Store

__all__ = ["Watch"]

KEEP: Final = 1.0
"""Seconds for which strangers get the same answer, however often they ask."""


class Watch:
    """One per server. `measures` are those of the node in the same process, and `trouble` says why
    that node does not work."""

    def __init__(
        self,
        store: Store,
        measures: Measures | None = None,
        trouble: Callable[[], str | None] | None = None,
    ) -> None:
        self._recent = Recent(lambda: look_here(store, trouble), KEEP)
        self._metrics = Metrics(store, measures)

    def readiness(self) -> Readiness:
        """Of this node; up to a second old."""
        return self._recent.get()

    def metrics(self) -> bytes:
        return self._metrics.text()

"""What watchers ask a server again and again: whether the books are worked on, and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.api.metrics import Metrics
from duebook.api.recent import Recent
from duebook.book.readiness import look

if TYPE_CHECKING:
    from duebook.engine.measures import Measures
    from duebook.model.readiness import Readiness
    from duebook.store.base import Store

__all__ = ["Watch"]

KEEP: Final = 1.0
"""Seconds for which strangers get the same answer, however often they ask."""


class Watch:
    """One per server; `measures` are those of the node in the same process, if there is one."""

    def __init__(self, store: Store, measures: Measures | None = None) -> None:
        self._store = store
        self._recent = Recent(lambda: look(store), KEEP)
        self._metrics = Metrics(store, measures)

    def is_ready(self) -> bool:
        return self._recent.get().ready

    def readiness(self, grace: str) -> Readiness:
        """Asked anew; raises Invalid for what is no duration."""
        return look(self._store, grace)

    def metrics(self) -> bytes:
        return self._metrics.text()

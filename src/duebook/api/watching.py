"""What watchers ask a server again and again: whether the books are worked on, and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.api.metrics import Metrics
from duebook.api.recent import Recent
from duebook.book.readiness import GRACE, look

if TYPE_CHECKING:
    from datetime import timedelta

    from duebook.engine.measures import Measures
    from duebook.model.readiness import Readiness
    from duebook.store.base import Store

__all__ = ["Watch"]

KEEP: Final = 1.0
"""Seconds for which an answer is given again: strangers may ask as often as they like."""


class Watch:
    """One per server; `measures` are those of the node in the same process, if there is one."""

    def __init__(self, store: Store, measures: Measures | None = None) -> None:
        self._store = store
        self._recent = Recent(lambda: look(store), KEEP)
        self._metrics = Metrics(store, measures)

    def readiness(self, grace: timedelta = GRACE) -> Readiness:
        return self._recent.get() if grace == GRACE else look(self._store, grace)

    def metrics(self) -> bytes:
        return self._metrics.text()

"""Warns, once each, about runs that wait for a task that no live worker of their namespace knows;
changes nothing."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.serving import StrandedTask
    from duebook.store.base import Store

__all__ = ["Stranded"]

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 30.0
"""Seconds, also before the first look, as the worker that knows the task may be starting."""


class Stranded:
    """One per worker node; looks while runs are queued."""

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._monotonic = monotonic
        self._looked_at = monotonic()
        self._told: set[StrandedTask] = set()

    def step(self) -> None:
        if self._monotonic() - self._looked_at < LOOK_EVERY:
            return
        self._looked_at = self._monotonic()
        found = set(self._store.read(lambda tx: tx.nodes.list_stranded_tasks()))
        for stranded in sorted(found - self._told):
            log.warning("%s", stranded)
        self._told = found

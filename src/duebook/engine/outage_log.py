"""Logs once that the database is unavailable, rather than per loop and try; and when it is back."""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.errors import DuebookError

__all__ = ["OutageLog"]

log = logging.getLogger(__name__)


class OutageLog:
    """Shared by the loops of a node. Each new reason within an outage is logged once."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        self._told: set[str] = set()
        self._since = 0.0
        self._over_at = float("-inf")

    def failed(self, who: str, error: DuebookError, since: float) -> None:
        """A loop failed in the step that it started at `since` by the monotonic clock."""
        text = str(error)
        with self._lock:
            if not self._failing:
                if since < self._over_at:  # it failed in an outage that is already over
                    return
                self._since = since
                self._told.clear()
            self._failing.add(who)
            if text not in self._told:
                self._told.add(text)
                log.warning("%s; retrying until it is available", text)

    def ended(self, who: str) -> None:
        """A loop finished its step."""
        if who not in self._failing:
            return
        with self._lock:
            self._failing.discard(who)
            if not self._failing:
                self._over_at = self._monotonic()
                length = timedelta(seconds=max(int(self._over_at - self._since), 1))
                log.warning("the database is available again, after %s", format_duration(length))

"""Says that the books cannot be reached once, not once per loop and try; and when they are back."""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.timetext import format_duration

if TYPE_CHECKING:
    from duebook.errors import DuebookError

__all__ = ["Outage", "patience"]

log = logging.getLogger(__name__)

FIRST_WAIT: Final = 0.1
LONGEST_WAIT: Final = 5.0
REMIND_AFTER: Final = 30.0


def patience(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return min(FIRST_WAIT * 2.0 ** min(failures - 1, 20), LONGEST_WAIT)


class Outage:
    """Shared by the loops of a node."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        self._since = self._said_at = 0.0

    def failed(self, who: str, error: DuebookError) -> None:
        """One of them could not do its step."""
        now = time.monotonic()
        with self._lock:
            if not self._failing:
                self._since = self._said_at = now
                log.warning("%s; waiting for it and trying again", error)
            elif now - self._said_at >= REMIND_AFTER:
                self._said_at = now
                log.warning("%s; waiting for %s by now", error, _length(now - self._since))
            self._failing.add(who)

    def ended(self, who: str) -> None:
        """One of them did its step."""
        if who not in self._failing:
            return
        with self._lock:
            self._failing.discard(who)
            if not self._failing:
                length = _length(time.monotonic() - self._since)
                log.warning("the books are within reach again, after %s", length)


def _length(seconds: float) -> str:
    return format_duration(timedelta(seconds=max(int(seconds), 1)))

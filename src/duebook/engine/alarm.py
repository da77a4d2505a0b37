"""Wakes a loop when its time has come, or at once when another thread rings."""

from __future__ import annotations

import math
import threading
import time

__all__ = ["Alarm"]


class Alarm:
    """One per loop; a ring that arrives before the loop waits is not lost."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rung = False
        self._latest = math.inf

    def ring(self) -> None:
        with self._changed:
            self._rung = True
            self._changed.notify_all()

    def ring_within(self, seconds: float) -> None:
        """Limit the current or next sleep of the loop to this many seconds."""
        with self._changed:
            self._latest = min(self._latest, time.monotonic() + seconds)
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until another thread rings or the time is over."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while not self._rung:
                left = min(deadline, self._latest) - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
            self._rung = False
            self._latest = math.inf

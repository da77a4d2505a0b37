"""Limits how many requests compute due times at once, and for how long.

A request that would wait for long is rejected at once, because it would block a thread.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from duebook.api.problems import Busy
from duebook.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Computing"]

AT_ONCE: Final = 2
EACH_AT_ONCE: Final = 1
"""Per token."""
WAITING: Final = 20
EACH_WAITING: Final = 12
WAIT: Final = 5.0
"""In seconds."""
SECONDS: Final = 2.0
"""Of processor time for one request."""


class Computing:
    """The turns of a server's requests."""

    def __init__(self, wait: float = WAIT, seconds: float = SECONDS) -> None:
        self._wait = wait
        self._seconds = seconds
        self._change = threading.Condition()
        self._busy: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def turn(self, caller_id: str) -> Iterator[Budget]:
        """Wait for a turn of this token, and return it at the end; raises Busy."""
        with self._change:
            self._take(caller_id)
        try:
            yield Budget(self._seconds)
        finally:
            with self._change:
                self._busy[caller_id] -= 1
                self._busy += Counter()  # drops zero counts
                self._change.notify_all()

    def _take(self, caller_id: str) -> None:
        if not self._is_free(caller_id):
            if self._waiting.total() >= WAITING or self._waiting[caller_id] >= EACH_WAITING:
                raise Busy("too many requests are computing due times; try again in a second")
            self._waiting[caller_id] += 1
            try:
                if not self._change.wait_for(lambda: self._is_free(caller_id), self._wait):
                    raise Busy(
                        "other requests of this token are computing due times; try again in a "
                        "second"
                    )
            finally:
                self._waiting[caller_id] -= 1
                self._waiting += Counter()
        self._busy[caller_id] += 1

    def _is_free(self, caller_id: str) -> bool:
        return self._busy.total() < AT_ONCE and self._busy[caller_id] < EACH_AT_ONCE

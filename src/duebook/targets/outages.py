"""Which of several services were out of reach when last tried, and when each is tried again; knows
no service."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from duebook.backoff import backoff

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Outages"]

log = logging.getLogger(__name__)

LUCK: Final = 0.5


class Outages:
    """A service that failed is not asked again for a while, whoever needs it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures: dict[str, int] = {}
        self._next_at: dict[str, float] = {}
        self.reasons: dict[str, str] = {}
        """of those that are out of reach; replaced, never changed, for readers in other threads"""

    def may(self, part: str) -> bool:
        """Whether it is worth a try."""
        return self.wait(part) <= 0

    def wait(self, part: str) -> float:
        """Seconds until it is, or less."""
        return self._next_at.get(part, 0.0) - self._monotonic()

    def failed(self, part: str, reason: str) -> None:
        failures = self._failures[part] = self._failures.get(part, 0) + 1
        self._next_at[part] = self._monotonic() + backoff(failures, LUCK)
        self.reasons = {**self.reasons, part: reason}
        if failures == 1:
            log.warning("%s; trying again", reason)

    def reached(self, part: str) -> bool:
        """Returns whether that is news."""
        self._next_at.pop(part, None)
        if not self._failures.pop(part, 0):
            return False
        self.reasons = {name: why for name, why in self.reasons.items() if name != part}
        log.warning("the %s can be reached again", part)
        return True

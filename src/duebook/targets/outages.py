"""Tracks which of several services could not be reached, and when to try each again; does not
depend on the services."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from duebook.backoff import backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Outages"]

log = logging.getLogger(__name__)

LUCK: Final = 0.5


class Outages:
    """A service that failed is not tried again for a while, no matter which run needs it."""

    def __init__(self, monotonic: Callable[[], float], names: Mapping[str, str]) -> None:
        self._names = names
        self._monotonic = monotonic
        self._failures: dict[str, int] = {}
        self._next_at: dict[str, float] = {}
        self.reasons: dict[str, str] = {}
        """why, for each service that is out of reach; replaced, never changed, for readers in other
        threads"""

    def may(self, part: str) -> bool:
        """Whether the service may be tried now."""
        return self.wait(part) <= 0

    def wait(self, part: str) -> float:
        """Seconds until the service may be tried, or fewer."""
        return self._next_at.get(part, 0.0) - self._monotonic()

    def failed(self, part: str, reason: str) -> None:
        failures = self._failures[part] = self._failures.get(part, 0) + 1
        self._next_at[part] = self._monotonic() + backoff(failures, LUCK)
        self.reasons = {**self.reasons, part: reason}
        if failures == 1:
            log.warning("%s; trying again", reason)

    def reached(self, part: str) -> bool:
        """Record a success; returns whether the service was out of reach before."""
        self._next_at.pop(part, None)
        if not self._failures.pop(part, 0):
            return False
        self.reasons = {name: why for name, why in self.reasons.items() if name != part}
        log.warning("%s can be reached again", self._names[part])
        return True

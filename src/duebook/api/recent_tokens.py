"""Tokens of browsers that look again by themselves: one question a second to the books for all."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.model.access import AccessToken
    from duebook.store.base import Store

    Found = tuple[AccessToken, str] | None

__all__ = ["RecentTokens"]

FRESH: Final = 1.0
"""Seconds that an answer holds: so long after its revocation a token may still be let in."""
KEPT: Final = 60.0
"""Seconds after which a token that nobody came with is no longer asked about."""
MOST: Final = 1_000


class RecentTokens:
    """What the books said about the tokens that were asked for lately."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._used: dict[str, float] = {}
        self._found: dict[str, Found] = {}
        self._now: datetime | None = None
        self._asked_at = float("-inf")

    def get(self, token_id: str) -> tuple[Found, datetime]:
        """A token with the digest of its secret, or None, and the time of the books; at most a
        second old. Raises Unavailable when the books do not answer."""
        with self._lock:
            self._used.pop(token_id, None)
            self._used[token_id] = self._clock()
            stale = self._clock() - self._asked_at >= FRESH
            if self._now is None or stale or token_id not in self._found:
                self._now = self._ask()
            return self._found[token_id], self._now

    def _ask(self) -> datetime:
        """About all that were used lately, the newest of them."""
        since = self._clock() - KEPT
        newest = list(self._used.items())[-MOST:]
        self._used = {token_id: at for token_id, at in newest if at >= since}
        wanted, asked_at = list(self._used), self._clock()
        found, now = self._store.read(lambda tx: (tx.get_tokens(wanted), tx.now))
        self._found = {token_id: found.get(token_id) for token_id in wanted}
        self._asked_at = asked_at
        return now

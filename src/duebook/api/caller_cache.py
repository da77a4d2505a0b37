"""Caches callers with just accepted tokens: a busy client costs one lookup a second."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.api.permissions import Caller

__all__ = ["FRESH", "CallerCache"]

FRESH: Final = 1.0
"""Seconds that a result is used: a token that another process revoked may work for that long."""
MOST: Final = 1_000
"""Tokens in the cache; if there are more, all are looked up again."""


class CallerCache:
    """Stores only accepted tokens, by the digest of their text.

    Makes no queries and never waits, so the event loop may use it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._callers: dict[bytes, tuple[Caller, float]] = {}
        self._generation = 0

    def begin(self) -> tuple[float, int]:
        """Call it before the query; the time that `keep` counts from."""
        return self._clock(), self._generation

    def keep(
        self, text: str, caller: Caller, asked: tuple[float, int], expires_in: float | None = None
    ) -> None:
        """Store a caller that was accepted; the token expires this many seconds after the query."""
        asked_at, generation = asked
        until = asked_at + (FRESH if expires_in is None else min(FRESH, expires_in))
        with self._lock:
            if generation != self._generation:
                return  # a token may have been revoked since the query
            if len(self._callers) >= MOST:
                self._callers.clear()
            self._callers[_digest(text)] = caller, until

    def get(self, text: str) -> Caller | None:
        """The owner of a token that was accepted less than a second ago."""
        found = self._callers.get(_digest(text))
        return found[0] if found is not None and self._clock() < found[1] else None

    def forget(self) -> None:
        """Look up every token again, including those that are being looked up now."""
        with self._lock:
            self._generation += 1
            self._callers.clear()


def _digest(text: str) -> bytes:
    """Keeps secrets out of memory, and makes the time of a lookup independent of the text."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()

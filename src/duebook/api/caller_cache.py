"""Callers whose tokens the books have just accepted: a busy client costs one lookup a second."""

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
"""Seconds that an answer holds: a token that another process revoked may be let in for so long."""
MOST: Final = 1_000
"""Tokens at once; beyond that, all are looked up again."""


class CallerCache:
    """Only tokens that were accepted are kept, by the digest of their text.

    Never asks anybody, and never waits: the event loop may use it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._callers: dict[bytes, tuple[Caller, float]] = {}
        self._generation = 0

    def begin(self) -> tuple[float, int]:
        """Call it before the books are asked; `keep` counts from here."""
        return self._clock(), self._generation

    def keep(
        self, text: str, caller: Caller, asked: tuple[float, int], expires_in: float | None = None
    ) -> None:
        """The books accepted the token, which expires so many seconds after they were asked."""
        asked_at, generation = asked
        until = asked_at + (FRESH if expires_in is None else min(FRESH, expires_in))
        with self._lock:
            if generation != self._generation:
                return  # a token may have been revoked since the books were asked
            if len(self._callers) >= MOST:
                self._callers.clear()
            self._callers[_digest(text)] = caller, until

    def get(self, text: str) -> Caller | None:
        """Whose token this is, if it was accepted less than a second ago."""
        found = self._callers.get(_digest(text))
        return found[0] if found is not None and self._clock() < found[1] else None

    def forget(self) -> None:
        """Look up every token again, also those that are being looked up now."""
        with self._lock:
            self._generation += 1
            self._callers.clear()


def _digest(text: str) -> bytes:
    """So that no secret stays in memory, and looking for one takes as long as for any other."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()

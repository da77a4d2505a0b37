"""Caches the tokens of self-refreshing browser pages: two queries a second serve all of them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from duebook.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.model.access import AccessToken
    from duebook.store.base import Store

    Found = tuple[AccessToken, str] | None

__all__ = ["TokenCache"]

FRESH: Final = 0.4
"""Seconds that a result is used: for that long after its revocation a token may work."""
KEPT: Final = 60.0
"""Seconds after which an unused token is no longer queried."""
MOST: Final = 1_000


class TokenCache:
    """The recently used tokens and sessions, as the database has them.

    Contains only those that were accepted before: any others would make the shared query longer.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._used: dict[tuple[str, str], float] = {}
        self._found: dict[str, Found] = {}
        self._ended: frozenset[str] = frozenset()
        self._asked: frozenset[tuple[str, str]] = frozenset()
        self._now: datetime | None = None
        self._asked_at = float("-inf")
        self._failure: tuple[float, Unavailable] | None = None

    def knows(self, token_id: str, session: str = "") -> bool:
        """Whether it was used in the last minute; makes no query."""
        return (token_id, session) in self._used

    def get(self, token_id: str, session: str = "") -> tuple[Found, datetime, bool]:
        """A token with the digest of its secret, or None; the database's time; and whether the
        session with that digest was ended. At most half a second old. Raises Unavailable if the
        database does not respond, or did not respond to another caller just before."""
        asked = token_id, session
        with self._lock:
            self._used.pop(asked, None)
            self._used[asked] = self._clock()
            stale = self._clock() - self._asked_at >= FRESH
            if self._now is None or stale or asked not in self._asked:
                self._now = self._ask_once()
            return self._found[token_id], self._now, session in self._ended

    def forget(self) -> None:
        """Query again at the next use."""
        with self._lock:
            self._now = None

    def _ask_once(self) -> datetime:
        """Callers that waited for a failed query fail too, instead of repeating it one by one."""
        if self._failure is not None and self._clock() - self._failure[0] < FRESH:
            raise Unavailable(str(self._failure[1]))
        try:
            now = self._ask()
        except Unavailable as error:
            self._failure = self._clock(), error
            raise
        self._failure = None
        return now

    def _ask(self) -> datetime:
        """Query all recently used ones, up to a limit the newest."""
        since = self._clock() - KEPT
        newest = list(self._used.items())[-MOST:]
        self._used = {asked: at for asked, at in newest if at >= since}
        wanted = list({token_id for token_id, _ in self._used})
        sessions = [session for _, session in self._used if session]
        asked_at = self._clock()
        found, ended, now = self._store.read(
            lambda tx: (tx.access.get_tokens(wanted), tx.access.list_ended_logins(sessions), tx.now)
        )
        self._found = {token_id: found.get(token_id) for token_id in wanted}
        self._ended, self._asked = frozenset(ended), frozenset(self._used)
        self._asked_at = asked_at
        return now

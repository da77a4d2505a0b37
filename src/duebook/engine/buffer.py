"""Runs that a node has claimed ahead and not started, by priority; has no threads or locks."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duebook.model.run import Claim, Token

__all__ = ["Buffer"]


class Buffer:
    """The caller holds a lock, and passes the time of a monotonic clock."""

    def __init__(self) -> None:
        self._waiting: dict[Token, tuple[Claim, float]] = {}
        """each run, and since when it has waited"""
        self._order: list[tuple[int, int, Token]] = []
        """the order of the queue; also has entries of runs that were dropped"""
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, claim: Claim, now: float) -> None:
        self._waiting[claim.token] = (claim, now)
        heappush(self._order, (-claim.run.priority, next(self._numbers), claim.token))

    def take(self) -> Claim | None:
        """The next run: the highest priority first, then the first that came."""
        while self._order:
            found = self._waiting.pop(heappop(self._order)[2], None)
            if found is not None:
                return found[0]
        return None

    def drop(self, token: Token) -> bool:
        """Remove a run; returns whether it was waiting here."""
        return self._waiting.pop(token, None) is not None

    def take_since(self, moment: float) -> list[Claim]:
        """Remove and return all that have waited since then or longer."""
        found = []
        for claim, since in self._waiting.values():  # in the order of arrival
            if since > moment:
                break
            found.append(claim)
        for claim in found:
            del self._waiting[claim.token]
        return found

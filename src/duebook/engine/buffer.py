"""Runs that a node has claimed ahead and not begun, the higher priority first; knows no thread."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duebook.model.run import Claim, Token

__all__ = ["Buffer"]


class Buffer:
    """Whoever calls it holds a lock, and gives the time of a monotonic clock."""

    def __init__(self) -> None:
        self._waiting: dict[Token, tuple[Claim, float]] = {}
        """and since when"""
        self._order: list[tuple[int, int, Token]] = []
        """also of what was dropped"""
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, claim: Claim, now: float) -> None:
        self._waiting[claim.token] = (claim, now)
        heappush(self._order, (-claim.run.priority, next(self._numbers), claim.token))

    def take(self) -> Claim | None:
        """The one that is next: of the highest priority, the first that came."""
        while self._order:
            found = self._waiting.pop(heappop(self._order)[2], None)
            if found is not None:
                return found[0]
        return None

    def drop(self, token: Token) -> bool:
        """Whether it waited here; now it does not."""
        return self._waiting.pop(token, None) is not None

    def take_since(self, moment: float) -> list[Claim]:
        """All that have waited since then, or for longer."""
        found = []
        for claim, since in self._waiting.values():  # in the order in which they came
            if since > moment:
                break
            found.append(claim)
        for claim in found:
            del self._waiting[claim.token]
        return found

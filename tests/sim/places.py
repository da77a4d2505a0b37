"""Where simulated nodes work: an attempt is a stretch of true time, and leaves evidence outside of
the books when it begins, ends and is stopped."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from duebook.engine.places import Room
from duebook.model.run import Outcome
from tests.sim.turns import TurnLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.run import Claim, Token


LOST: Final = Outcome("cancelled", "lost")


class Performs(Protocol):
    def begin(self, claim: Claim) -> tuple[float, Outcome]:
        """How many seconds this attempt takes, and how it ends."""


@dataclass(slots=True)
class Work:
    claim: Claim
    outcome: Outcome
    ends_at: float
    is_over: bool = False


class SimPlaces:
    """Implements engine.slots.Places."""

    def __init__(
        self,
        number: int,
        now: Callable[[], float],
        performs: Performs,
        says: Callable[[str, Claim], None],
    ) -> None:
        self.claiming = TurnLock()
        self.work_waits = False
        self.may_begin: Callable[[], bool] = lambda: True
        """whether the node holds its lease, as the slots of a node ask before each start"""
        self.kill_at = inf
        """when the spawner ends all work, because nobody renewed the lease"""
        self._number = number
        self._now = now
        self._performs = performs
        self._says = says
        self._work: dict[Token, Work] = {}

    def room(self) -> Room:
        return Room(max(self._number - len(self._work), 0), 0)

    def working(self) -> set[Token]:
        return set(self._work)

    @property
    def next_end(self) -> float:
        ends = [work.ends_at for work in self._work.values() if not work.is_over]
        return min([self.kill_at, *ends]) if ends else inf

    def begin(self, claims: list[Claim]) -> None:
        for claim in claims:
            if self._now() >= self.kill_at or not self.may_begin():
                self._work[claim.token] = Work(claim, LOST, self._now(), is_over=True)
                continue
            length, outcome = self._performs.begin(claim)
            self._says("start", claim)
            self._work[claim.token] = Work(claim, outcome, self._now() + length)

    def pass_time(self) -> None:
        """End what has ended by now, in the order of its end."""
        now = self._now()
        if now >= self.kill_at:
            self.stop_all("lost")
        for work in sorted(self._work.values(), key=lambda work: work.ends_at):
            if not work.is_over and work.ends_at <= now:
                work.is_over = True
                did = {"succeeded": "end", "failed": "fail"}
                self._says(did.get(work.outcome.status, "beat"), work.claim)

    def stop(self, token: Token, reason: str) -> None:
        work = self._work.get(token)
        if work is not None and not work.is_over:
            work.outcome, work.is_over = Outcome("cancelled", reason), True
            self._says("beat", work.claim)

    def stop_all(self, reason: str) -> None:
        for token in list(self._work):
            self.stop(token, reason)

    @property
    def has_ended(self) -> bool:
        return any(work.is_over for work in self._work.values())

    def over(self) -> list[Work]:
        """What has ended, and is not on the books yet."""
        return [work for work in self._work.values() if work.is_over]

    def forget(self, works: list[Work]) -> None:
        for work in works:
            self._work.pop(work.claim.token, None)

    def die(self) -> None:
        """With the node; its work ends where it is."""
        for work in self._work.values():
            if not work.is_over:
                self._says("beat", work.claim)
        self._work.clear()

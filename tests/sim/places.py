"""Where simulated nodes work: an attempt is a stretch of true time, and leaves evidence outside of
the database when it starts, ends and is stopped."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from duebook.engine.places import Room
from duebook.errors import Unavailable
from duebook.model.run import Outcome
from tests.sim.turns import TurnLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.run import Claim, Token


DID: Final = {"succeeded": "end", "failed": "fail"}
LOST: Final = Outcome("cancelled", "lost")


class Performs(Protocol):
    def begin(self, claim: Claim) -> tuple[float | None, Outcome]:
        """How many seconds this attempt takes, and how it ends; None when nothing is executed."""


@dataclass(slots=True)
class Work:
    claim: Claim
    outcome: Outcome
    ends_at: float
    is_over: bool = False
    has_begun: bool = False


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
        """whether the node holds its lease, which the slots of a node check before each start"""
        self._kill_at = inf
        self.has_ended = False
        """whether something has ended that is not on the books yet"""
        self.next_end = inf
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
    def kill_at(self) -> float:
        """When the spawner ends all work, because nobody renewed the lease."""
        return self._kill_at

    @kill_at.setter
    def kill_at(self, at: float) -> None:
        self._kill_at = at
        self._look()

    def _look(self) -> None:
        """At how things stand, after any change."""
        ends = [work.ends_at for work in self._work.values() if not work.is_over]
        self.next_end = min(self._kill_at, *ends) if ends else inf
        self.has_ended = len(ends) < len(self._work)

    def begin(self, claims: list[Claim]) -> None:
        works = [Work(claim, LOST, inf) for claim in claims]
        self._work |= {work.claim.token: work for work in works}
        for work in works:
            self._begin(work)
            self._look()

    def _begin(self, work: Work) -> None:
        """A step of a flow may have to read, and while it does, time passes; what cannot be read is
        handed back."""
        try:
            length, outcome = self._performs.begin(work.claim)
        except Unavailable:
            length, outcome = None, LOST
        if self._now() >= self.kill_at or not self.may_begin():
            length, outcome = None, LOST
        if length is None or work.is_over:
            work.outcome = work.outcome if work.is_over else outcome
            work.is_over = True
            return
        work.outcome, work.ends_at, work.has_begun = outcome, self._now() + length, True
        self._says("start", work.claim)

    def pass_time(self) -> None:
        """End what is over by now, in the order of the ends."""
        now = self._now()
        if now >= self.kill_at:
            self.stop_all("lost")
        ended = [w for w in self._work.values() if not w.is_over and w.ends_at <= now]
        for work in sorted(ended, key=lambda work: work.ends_at):
            work.is_over = True
            self._says(DID.get(work.outcome.status, "beat"), work.claim)
        self._look()

    def stop(self, token: Token, reason: str) -> None:
        work = self._work.get(token)
        if work is not None and not work.is_over:
            work.outcome, work.is_over = Outcome("cancelled", reason), True
            if work.has_begun:
                self._says("beat", work.claim)
            self._look()

    def stop_all(self, reason: str) -> None:
        for token in list(self._work):
            self.stop(token, reason)

    def over(self) -> list[Work]:
        """Work that has ended, but is not settled yet."""
        return [work for work in self._work.values() if work.is_over]

    def forget(self, works: list[Work]) -> None:
        for work in works:
            self._work.pop(work.claim.token, None)
        self._look()

    def die(self) -> None:
        """Die with the node; its work ends where it is."""
        for work in self._work.values():
            if work.has_begun and not work.is_over:
                self._says("beat", work.claim)
        self._work.clear()
        self._look()

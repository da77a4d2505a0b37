"""What simulated runs do instead of working: they take a virtual while, and succeed or fail."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.errors import Invalid, shorten
from duebook.model.run import Outcome
from duebook.model.target import TaskTarget
from duebook.targets.templates import TemplateFailed, rendered
from duebook.timetext import parse_duration

if TYPE_CHECKING:
    from duebook.model.run import Claim

__all__ = ["StandIns"]

SUCCESS = Outcome("succeeded")


@dataclass(slots=True)
class StandIn:
    """One task: how long each attempt takes, and how many are still to fail."""

    takes: timedelta = timedelta()
    fails: int = 0
    error: str = "RuntimeError: it was told to fail"

    def attempt(self) -> Outcome:
        if self.fails == 0:
            return SUCCESS
        self.fails -= 1
        return Outcome("failed", "error", self.error)


class StandIns:
    """The tasks that a simulation knows; other targets are known by the name of their schedule."""

    def __init__(self) -> None:
        self._known: dict[str, StandIn] = {}

    def add(self, name: str, takes: str | timedelta, fails: int, error: str | None) -> None:
        if isinstance(fails, bool) or not isinstance(fails, int) or fails < 0:
            raise Invalid(f"fails {shorten(fails)} is no number of attempts")
        stand_in = StandIn(parse_duration(takes), fails)
        stand_in.error = error or stand_in.error
        self._known[name] = stand_in

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self._known)

    def begin(self, claim: Claim) -> tuple[timedelta, Outcome]:
        """How long this attempt takes, and how it ends."""
        target, timeout = claim.spec.target, claim.spec.timeout
        try:
            rendered(claim)
        except TemplateFailed as error:
            return timedelta(), Outcome("failed", "template", str(error))
        name = target.name if isinstance(target, TaskTarget) else claim.run.schedule or ""
        stand_in = self._known.get(name) or StandIn()
        outcome = stand_in.attempt()
        if timeout is not None and stand_in.takes > timeout:
            return timeout, Outcome("failed", "timeout", "it took longer than its timeout")
        return stand_in.takes, outcome

"""What simulated runs do instead of working: they take virtual time, and succeed or fail."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.engine.output_files import OutputFiles
from duebook.errors import Invalid, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import bounded_json
from duebook.model.run import Outcome
from duebook.model.target import TaskTarget
from duebook.targets.templates import TemplateFailed, rendered, with_references
from duebook.timetext import parse_duration

if TYPE_CHECKING:
    from duebook.engine.steps import StepPreparer
    from duebook.model.run import Claim

__all__ = ["StandIns"]

MOST_OUTPUT: Final = 1_000_000


@dataclass(slots=True)
class StandIn:
    """One task: how long each attempt takes, and how many will still fail."""

    takes: timedelta = timedelta()
    fails: int = 0
    error: str = "RuntimeError: simulated failure"
    output: str | None = None
    """what it returns, as JSON"""

    def attempt(self) -> Outcome:
        if self.fails == 0:
            return Outcome("succeeded", output=self.output)
        self.fails -= 1
        return Outcome("failed", "error", self.error)


class StandIns:
    """The tasks of a simulation; other targets are found by the name of their schedule, and steps
    by the names of flow and step, as in `etl.load`."""

    def __init__(self, preparer: StepPreparer) -> None:
        self._preparer = preparer
        self._known: dict[str, StandIn] = {}

    def add(
        self, name: str, takes: str | timedelta, fails: int, error: str | None, output: Any
    ) -> None:
        if isinstance(fails, bool) or not isinstance(fails, int) or fails < 0:
            raise Invalid(f"fails {shorten(fails)} is not a number of attempts")
        stand_in = StandIn(parse_duration(takes), fails)
        stand_in.error = error or stand_in.error
        stand_in.output = None if output is None else bounded_json("output", output, MOST_OUTPUT)
        self._known[name] = stand_in

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self._known)

    def begin(self, claim: Claim) -> tuple[timedelta, Outcome]:
        """How long this attempt takes, and its outcome."""
        if claim.step_context is not None:
            with OutputFiles() as files:
                ready = self._preparer.prepare(claim, claim.step_context, files)
            if isinstance(ready, Outcome):
                return timedelta(), ready
            place = f"{claim.step_context.flow}.{claim.run.step}"
            takes, outcome = self._attempt(ready.claim, place)
            return takes, self._preparer.repeated(
                ready.claim, claim.step_context, ready.step, outcome
            )
        try:
            rendered(with_references(claim))
        except TemplateFailed as error:
            return timedelta(), Outcome("failed", "template", str(error))
        return self._attempt(claim, claim.run.schedule or "")

    def _attempt(self, claim: Claim, place: str) -> tuple[timedelta, Outcome]:
        """By the task, otherwise by the schedule; a step first by its place, as in `etl.load`."""
        target, timeout = claim.spec.target, claim.spec.timeout
        task = target.name if isinstance(target, TaskTarget) else None
        names = [task] if claim.step_context is None and task else [place, task]
        stand_in = next((self._known[n] for n in names if n in self._known), StandIn())
        outcome = stand_in.attempt()
        if timeout is not None and stand_in.takes > timeout:
            return timeout, Outcome("failed", "timeout", "it took longer than its timeout")
        return stand_in.takes, outcome

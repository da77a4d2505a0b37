"""The work of simulated attempts: its duration and end follow from the seed and the attempt, never
from the time of the call."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.model.run import Outcome
from duebook.testing.stand_ins import StandIns
from tests.sim.graphs import FAILING

if TYPE_CHECKING:
    from duebook.engine.steps import StepPreparer
    from duebook.model.run import Claim
    from tests.sim.script import Script

FAILED = Outcome("failed", "exit_code", "simulated failure", exit_code=3)


class Performance(StandIns):
    """Some slow and failing work among much that is quick and succeeds."""

    def __init__(self, script: Script, preparer: StepPreparer) -> None:
        super().__init__(preparer)
        self._script = script
        self._works = False

    def begin(self, claim: Claim) -> tuple[float | None, Outcome]:  # type: ignore[override]
        self._works = False
        length, outcome = super().begin(claim)
        return length.total_seconds() if self._works else None, outcome

    def _attempt(self, claim: Claim, place: str) -> tuple[timedelta, Outcome]:
        self._works = True
        run = claim.run
        due = None if run.due_at is None else run.due_at.isoformat()
        of = due if claim.step_context is None else claim.step_context.run_id
        chance = self._script.chance("work", place, of, run.step, run.attempt)
        slow = chance.random() < 0.06
        length = chance.uniform(6.0, 25.0) if slow else chance.choice((0.0, 0.1, 0.4, 1.5))
        fails = chance.random() < 0.1 or place in FAILING
        if claim.spec.timeout is not None and timedelta(seconds=length) > claim.spec.timeout:
            return claim.spec.timeout, Outcome("failed", "timeout", "it took too long")
        return timedelta(seconds=length), FAILED if fails else Outcome("succeeded", exit_code=0)

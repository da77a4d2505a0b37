"""Whether everything that is due can run, or a node works, and what prevents it, as values."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import NEVER_SHOWN, Shown, shown

__all__ = ["CHECKS", "NODE_CHECKS", "Problem", "Readiness"]

CHECKS: Final = (
    "database",
    "schema",
    "scheduler",
    "queue",
    "namespace",
    "task",
    "overdue",
    "schedule",
    "flows",
)
"""The checks, in order; each is the code of a Problem."""
NODE_CHECKS: Final = ("database", "schema", "node")
"""The checks of a single node."""


@shown("ReadinessProblem")
@dataclass(frozen=True, slots=True)
class Problem:
    """What prevents runs, and the remedy."""

    code: Annotated[str, Shown(example="scheduler")]
    message: str


@shown("Status")
@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether everything that is due can run, and what prevents it."""

    checked_at: Annotated[datetime | None, Shown("null if the database could not be reached.")]
    """by the database's clock"""
    problems: tuple[Problem, ...] = ()
    asked: Annotated[tuple[str, ...], NEVER_SHOWN] = CHECKS
    notes: Annotated[
        tuple[Problem, ...], Shown("Problems that stop nothing but need attention.")
    ] = ()

    @property
    def ready(self) -> Annotated[bool, Shown()]:
        return not self.problems

    @property
    def checks(
        self,
    ) -> Annotated[dict[str, bool | None], Shown("null for checks that could not run.")]:
        failed = {problem.code for problem in self.problems}
        unasked = self.checked_at is None
        return {name: False if name in failed else None if unasked else True for name in self.asked}

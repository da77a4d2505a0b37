"""Whether everything that is due can run, or a node works, and what is in the way, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

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
"""What is asked, in this order; the code of a Problem is one of them."""
NODE_CHECKS: Final = ("database", "schema", "node")
"""What is asked about one node."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is in the way, and what helps, in words."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """What was found; ready when nothing is in the way."""

    checked_at: datetime | None
    """by the books' clock; None when nobody could ask them"""
    problems: tuple[Problem, ...] = ()
    asked: tuple[str, ...] = CHECKS
    notes: tuple[Problem, ...] = ()
    """what stops nothing, but needs attention"""

    @property
    def ready(self) -> bool:
        return not self.problems

    @property
    def checks(self) -> dict[str, bool | None]:
        """Which of those that were asked hold; None for what nobody could ask."""
        failed = {problem.code for problem in self.problems}
        unasked = self.checked_at is None
        return {name: False if name in failed else None if unasked else True for name in self.asked}

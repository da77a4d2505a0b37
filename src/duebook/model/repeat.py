"""How often, and when, a step of a flow is executed again: a value and its arithmetic."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from duebook.model.flow import Condition
    from duebook.model.run import Outcome

__all__ = ["REPEAT", "Repeat"]

REPEAT: Final = "repeat"
"""The reason of a waiting run that is to be executed again, though it did not fail."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Execute a step again while something holds, or until it does.

    That is `condition` if given, else that its exit code is one of `exit_codes`, else that it
    succeeded.
    """

    until: bool = False
    interval: timedelta = timedelta()
    limit: int | None = None
    """maximum executions, including the first"""
    backoff: float = 1.0
    """the factor by which the interval grows each time, up to `longest`"""
    longest: timedelta = timedelta(days=30)
    condition: Condition | None = None
    exit_codes: tuple[int, ...] = ()

    def wants_more(self, outcome: Outcome, is_met: bool | None) -> bool:
        """Whether to execute it again; `is_met` is whether the condition holds, if it has one."""
        if outcome.status == "cancelled":
            return False
        if is_met is not None:
            return is_met is not self.until
        if self.exit_codes:
            return (outcome.exit_code in self.exit_codes) is not self.until
        return (outcome.status == "succeeded") is not self.until

    def after(self, done: int) -> timedelta | None:
        """How long to wait after this many executions; None if there are to be no more."""
        if self.limit is not None and done >= self.limit:
            return None
        seconds, most = self.interval.total_seconds(), self.longest.total_seconds()
        for _ in range(min(done - 1, 100)):
            seconds = min(seconds * self.backoff, most)
        return timedelta(seconds=min(seconds, most))

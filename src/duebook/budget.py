"""How much processor time one request may take; counts only the thread that serves it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from duebook.errors import OverBudget

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Budget"]

LOOK_EVERY: Final = 16
"""Steps between two checks of the clock, which cost as much as a step."""
REMEDY: Final = "request fewer due times, or a shorter range"


class Budget:
    """Used by the thread that created it. Other work on the machine does not use it up."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.thread_time) -> None:
        self._seconds = seconds
        self._clock = clock
        self._until = clock() + seconds
        self._steps = 0

    def spend(self, remedy: str = REMEDY) -> None:
        """Count one more step of work; raises OverBudget when the time is used up."""
        self._steps += 1
        if self._steps % LOOK_EVERY == 0 and self._clock() > self._until:
            raise OverBudget(
                f"this takes more than {self._seconds:g} s of processor time; {remedy}"
            )

    @property
    def is_spent(self) -> bool:
        """For work that may stop early."""
        return self._clock() > self._until

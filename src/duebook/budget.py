"""How much processor time one question may take; counts that of the thread which asks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from duebook.errors import OverBudget

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Budget"]

LOOK_EVERY: Final = 16
"""Steps between two looks at the clock, which costs as much as a step."""


class Budget:
    """Used by the thread that made it. Other work on the machine uses none of it up."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.thread_time) -> None:
        self._seconds = seconds
        self._clock = clock
        self._until = clock() + seconds
        self._steps = 0

    def spend(self) -> None:
        """One more step of work; raises OverBudget when the time is used up."""
        self._steps += 1
        if self._steps % LOOK_EVERY == 0 and self._clock() > self._until:
            raise OverBudget(
                f"this takes more than {self._seconds:g} s of processor time; request fewer due "
                "times, or a shorter range"
            )

    @property
    def is_spent(self) -> bool:
        """For work that may end early."""
        return self._clock() > self._until

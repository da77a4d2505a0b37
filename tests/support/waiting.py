"""Waits in tests for a condition and never for a time; measures work by processor time. Does not
use any code under test."""

from __future__ import annotations

import threading
import time
import timeit
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
SOONEST: Final = 0.01
LATEST: Final = 0.05
"""Seconds between two looks, of which the first are soon and later ones a twentieth of the wait."""
PATIENCE: Final = 60.0
"""Seconds after which something counts as hanging. On two cores with twenty busy processes, a
command with half a second of work was seen to take twenty seconds; a test of how soon something
happens sets its own limit."""


def eventually(
    condition: Callable[[], T],
    timeout: float = PATIENCE,
    told: Callable[[], object] | None = None,
) -> T:
    """What `condition` returns, as soon as that is true; fails the test after `timeout` seconds,
    with the message from `told`."""
    began = time.monotonic()
    while not (value := condition()):
        if time.monotonic() >= began + timeout:
            story = "" if told is None else f": {told()}"
            raise AssertionError(f"still {value!r} after {timeout:g} s{story}")
        _rest(began)
    return value


def within(timeout: float, condition: Callable[[], bool]) -> bool:
    """Whether `condition` becomes true in that time."""
    began = time.monotonic()
    while not (holds := condition()) and time.monotonic() < began + timeout:
        _rest(began)
    return holds


def _rest(began: float) -> None:
    """Between two looks of a wait, which share the processor with what is waited for."""
    waited = time.monotonic() - began
    threading.Event().wait(min(max(SOONEST, waited / 20), LATEST))


def takes_less_than(seconds: float, work: Callable[[], object]) -> bool:
    """Whether `work` takes less processor time of its thread than that. Other processes can only
    make it look longer, so one of five tries is enough."""
    return any(timeit.timeit(work, timer=time.thread_time, number=1) < seconds for _ in range(5))

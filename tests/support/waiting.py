"""Waits in tests: for a condition and never for a time; measures work by what the processor does;
knows no code under test."""

from __future__ import annotations

import threading
import time
import timeit
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
PATIENCE: Final = 60.0
"""Seconds after which something is taken to hang. On two cores with twenty processes that want them
a command with half a second to do was seen to take twenty; a test that is about how soon something
happens says its own limit."""


def eventually(
    condition: Callable[[], T],
    timeout: float = PATIENCE,
    told: Callable[[], object] | None = None,
) -> T:
    """What `condition` returns, as soon as that is true; fails the test after `timeout` seconds,
    with what there is to be told about it."""
    pause = threading.Event()
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() >= deadline:
            story = "" if told is None else f": {told()}"
            raise AssertionError(f"still {value!r} after {timeout:g} s{story}")
        pause.wait(0.01)
    return value


def within(timeout: float, condition: Callable[[], bool]) -> bool:
    """Whether `condition` becomes true in that time."""
    pause = threading.Event()
    deadline = time.monotonic() + timeout
    while not (holds := condition()) and time.monotonic() < deadline:
        pause.wait(0.01)
    return holds


def takes_less_than(seconds: float, work: Callable[[], object]) -> bool:
    """Whether its thread works less than that: what others do to the processor only makes it look
    longer, so that one of five times is enough."""
    return any(timeit.timeit(work, timer=time.thread_time, number=1) < seconds for _ in range(5))

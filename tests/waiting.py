"""Waits in tests: for a condition and never for a time; knows no code under test."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def eventually(condition: Callable[[], T], timeout: float = 5.0) -> T:
    """What `condition` returns, as soon as that is true; fails the test after `timeout` seconds."""
    pause = threading.Event()
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"still {value!r} after {timeout:g} s")
        pause.wait(0.01)
    return value

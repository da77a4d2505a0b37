"""Keeps a result for a while, so that frequent callers cost no more than occasional ones."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TimedCache"]

T = TypeVar("T")


class TimedCache(Generic[T]):
    """One caller computes; concurrent callers get its result. Errors are not kept."""

    def __init__(
        self,
        ask: Callable[[], T],
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._kept: tuple[T, float] | None = None

    def get(self) -> T:
        with self._lock:
            if self._kept is None or self._monotonic() >= self._kept[1]:
                self._kept = None
                answer = self._ask()
                self._kept = (answer, self._monotonic() + self._seconds)
            return self._kept[0]

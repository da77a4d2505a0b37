"""Runs calls that may wait for the database in a few threads, which do not keep a process from
ending. Does not depend on what they do."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Closers"]

log = logging.getLogger(__name__)


class Closers:
    """Threads are started with the first calls."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, call: Callable[[], object]) -> None:
        """Only for one thread, and until `close`."""
        self._calls.put(call)
        if len(self._threads) < self._number:
            self._begin_thread()

    def close(self) -> None:
        """End the threads after the calls so far, without waiting."""
        for _ in range(self._number):
            self._calls.put(None)

    def _begin_thread(self) -> None:
        # not of a ThreadPoolExecutor, whose threads Python waits for when it exits
        thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the next call tries again
            log.warning("cannot start the thread %s: %s", self._name, error)
            return
        self._threads.append(thread)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:
                log.exception("the thread %s continues after an error", self._name)

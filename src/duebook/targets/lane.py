"""Runs calls that may take long or never return, one after another in a separate thread, and
replaces a thread that is stuck. Does not depend on what they do."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from duebook.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Lane", "in_a_thread"]

log = logging.getLogger(__name__)

MOST_STUCK: Final = 10
"""Threads that wait for an answer that may never come; at this number, no other is started."""

Link = TypeVar("Link")


def in_a_thread(name: str, serve: Callable[[], None]) -> None:
    threading.Thread(target=serve, name=f"duebook-{name}", daemon=True).start()


class Lane(Generic[Link]):
    """One user, in one thread, starts work and takes its results; `woken` is called when there are
    results to take. Each thread opens its own connection."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], Link],
        woken: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
        begin_thread: Callable[[str, Callable[[], None]], None] | None = in_a_thread,
    ) -> None:
        self._name = name
        self._connect = connect
        self._woken = woken
        self._monotonic = monotonic
        self._begin_thread = begin_thread
        """None: work is done in the thread that starts it"""
        self._worker: _Worker[Link] | None = None
        self._stuck: list[_Worker[Link]] = []
        self.is_busy = False
        """whether work was started whose end has not been taken"""

    @property
    def is_free(self) -> bool:
        self._stuck = [worker for worker in self._stuck if worker.is_alive]
        return not self.is_busy and len(self._stuck) < MOST_STUCK

    def begin(self, work: Callable[[Link], Iterator[Any]]) -> None:
        """Start work; only allowed while the lane is free."""
        if self._worker is None:
            worker = _Worker(self._name, self._connect, self._woken, self._monotonic)
            if self._begin_thread is not None:
                self._begin_thread(self._name, worker.serve)
            self._worker = worker
        self.is_busy = True
        self._worker.moved_at = self._monotonic()
        if self._begin_thread is None:
            self._worker.do(work)
        else:
            self._worker.works.put(work)

    def take(self) -> Iterator[Any]:
        """Yield the results so far. Afterwards raises Unavailable if the work failed."""
        worker = self._worker
        while worker is not None and worker.results:
            result = worker.results.popleft()
            if not isinstance(result, _Done):
                yield result
                continue
            self.is_busy = False
            if result.error is not None:
                raise result.error

    def waits_for(self, patience: float) -> float | None:
        """Seconds until the current work has yielded nothing for too long, negative if it is time
        to `give_up`; None if there is no work."""
        if not self.is_busy or self._worker is None:
            return None
        return self._worker.moved_at + patience - self._monotonic()

    def give_up(self) -> None:
        """Abandon the current work: its further results are ignored, and the rest of it is not
        done. Other work starts in another thread."""
        if self._worker is not None:
            self._worker.is_given_up = True
            self._stuck.append(self._worker)
        self._worker, self.is_busy = None, False

    def close(self) -> None:
        """Close without waiting."""
        if self._worker is not None:
            self._worker.is_given_up = True
            self._worker.works.put(None)


class _Done:
    def __init__(self, error: Unavailable | None = None) -> None:
        self.error = error


class _Worker(Generic[Link]):
    def __init__(
        self,
        name: str,
        connect: Callable[[], Link],
        woken: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._name = name
        self._connect = connect
        self._woken = woken
        self._monotonic = monotonic
        self._link: Link | None = None
        self.works: SimpleQueue[Callable[[Link], Iterator[Any]] | None] = SimpleQueue()
        self.results: deque[Any] = deque()
        self.moved_at = 0.0
        self.is_given_up = False
        self.is_alive = True

    def serve(self) -> None:
        while not self.is_given_up and (work := self.works.get()) is not None:
            self.do(work)
        self.is_alive = False

    def do(self, work: Callable[[Link], Iterator[Any]]) -> None:
        error = None
        try:
            self._link = self._link or self._connect()
            for result in work(self._link):
                if self.is_given_up:
                    return
                self._put(result)
        except Unavailable as unavailable:
            error = unavailable
        except Exception as unknown:
            log.exception("the thread %s continues after an error", self._name)
            error = Unavailable(f"{type(unknown).__name__}: {unknown}")
        self._put(_Done(error))

    def _put(self, result: Any) -> None:
        self.moved_at = self._monotonic()
        self.results.append(result)
        self._woken()

"""The places in which a node works: threads that each perform one run at a time."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from duebook.engine.settler import Settler
from duebook.model.run import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.run import Claim, Token
    from duebook.store.base import Store

__all__ = ["Performer", "Places", "Slots", "StopSignal"]

log = logging.getLogger(__name__)


class StopSignal(Protocol):
    """How a run is asked to end."""

    def set(self, reason: str) -> None: ...

    @property
    def reason(self) -> str | None: ...


S = TypeVar("S", bound=StopSignal)


class Performer(Protocol[S]):
    """Executes a run's target; raises nothing that says how the work ended."""

    def perform(self, claim: Claim, stop: S) -> Outcome: ...

    def new_stop(self) -> S: ...


class Places(Protocol):
    """What dispatcher and keeper know of the places in which a node works."""

    claiming: threading.Lock
    """held from a claim until the places know of it"""

    @property
    def free(self) -> int: ...

    def begin(self, claims: list[Claim]) -> None: ...

    def working(self) -> set[Token]: ...

    def stop(self, token: Token, reason: str) -> None:
        """Ask one run to end; harmless when it has ended."""

    def stop_all(self, reason: str) -> None: ...


class Slots(Generic[S]):
    """Performs claims, each in a thread, and has them settled by their token.

    There are as many threads as were ever needed at once, at most `number`.
    """

    def __init__(
        self, store: Store, performer: Performer[S], number: int, ring: Callable[[], None]
    ) -> None:
        self._performer = performer
        self._ring = ring
        self._number = number
        self.claiming = threading.Lock()
        self._lock = threading.Condition()
        self._working: dict[Token, S] = {}
        self._queue: SimpleQueue[Claim | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._settler = Settler(store, self._settled)

    @property
    def free(self) -> int:
        with self._lock:
            return self._number - len(self._working)

    def working(self) -> set[Token]:
        with self._lock:
            return set(self._working)

    def begin(self, claims: list[Claim]) -> None:
        for claim in claims:
            try:
                stop = self._performer.new_stop()
            except OSError:  # out of descriptors
                log.exception("run %s cannot be begun; it is handed back", claim.run.id)
                self._settler.put(claim, None)
                continue
            with self._lock:
                self._working[claim.token] = stop
            self._queue.put(claim)
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._number:
                self._add_thread()

    def _add_thread(self) -> None:
        name = f"duebook-slot-{len(self._threads)}"
        thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self, token: Token, reason: str) -> None:
        with self._lock:
            signal = self._working.get(token)
        if signal is not None and signal.reason is None:
            signal.set(reason)

    def stop_all(self, reason: str) -> None:
        for token in self.working():
            self.stop(token, reason)

    def wait_idle(self, timeout: float) -> bool:
        """Whether all work ended, and was settled, within `timeout` seconds."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._working, timeout)

    def close(self) -> None:
        """End the threads; what could not be settled by now is taken over by others."""
        for _ in self._threads:
            self._queue.put(None)
        self._settler.close()
        for thread in self._threads:
            thread.join(timeout=10)

    def _loop(self) -> None:
        while (claim := self._queue.get()) is not None:
            self._settler.put(claim, self._outcome(claim))
            self._idle.release()

    def _outcome(self, claim: Claim) -> Outcome:
        with self._lock:
            stop = self._working[claim.token]
        try:
            return self._performer.perform(claim, stop)
        except Exception as error:
            log.exception("run %s could not be performed", claim.run.id)
            return Outcome("failed", "error", f"{type(error).__name__}: {error}")

    def _settled(self, claims: Sequence[Claim]) -> None:
        """The places of these are free again; what could not be settled the keeper hands back."""
        with self._lock:
            for claim in claims:
                self._working.pop(claim.token, None)
            self._lock.notify_all()
        self._ring()

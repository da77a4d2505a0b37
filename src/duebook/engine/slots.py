"""The places in which a node works: threads that each perform one run at a time."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from duebook.engine.persist import persist
from duebook.engine.settling import conclude
from duebook.model.run import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.run import Claim, Token
    from duebook.store.base import Store

__all__ = ["Performer", "Places", "Slots", "StopSignal"]

log = logging.getLogger(__name__)


def _story(claim: Claim, outcome: Outcome | None, end: str) -> str:
    """How a run ended, in a line for whoever watches the node."""
    name, run_id = claim.run.schedule or claim.run.queue, claim.run.id
    why = f" ({outcome.error})" if outcome is not None and outcome.error else ""
    return f"{name} {end}{why}, run {run_id}"


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
    """Performs claims and settles them by their token."""

    def __init__(
        self, store: Store, performer: Performer[S], number: int, ring: Callable[[], None]
    ) -> None:
        self._store = store
        self._performer = performer
        self._ring = ring
        self._number = number
        self._closed = False
        self.claiming = threading.Lock()
        self._lock = threading.Condition()
        self._working: dict[Token, S] = {}
        self._queue: SimpleQueue[Claim | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._loop, name=f"duebook-slot-{n}", daemon=True)
            for n in range(number)
        ]
        for thread in self._threads:
            thread.start()

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
                self._end(claim, None)
                continue
            with self._lock:
                self._working[claim.token] = stop
            self._queue.put(claim)

    def stop(self, token: Token, reason: str) -> None:
        with self._lock:
            signal = self._working.get(token)
        if signal is not None and signal.reason is None:
            signal.set(reason)

    def stop_all(self, reason: str) -> None:
        for token in self.working():
            self.stop(token, reason)

    def wait_idle(self, timeout: float) -> bool:
        """Whether all work ended within `timeout` seconds."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._working, timeout)

    def close(self) -> None:
        """End the threads; what could not be settled by now is taken over by others."""
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(timeout=10)

    def _loop(self) -> None:
        while (claim := self._queue.get()) is not None:
            try:
                self._work(claim)
            except Exception:  # the keeper hands it back, and this slot goes on
                log.exception("run %s could not be settled", claim.run.id)
            finally:
                with self._lock:
                    del self._working[claim.token]
                    self._lock.notify_all()
                self._ring()

    def _work(self, claim: Claim) -> None:
        with self._lock:
            stop = self._working[claim.token]
        try:
            outcome = self._performer.perform(claim, stop)
        except Exception as error:
            log.exception("run %s could not be performed", claim.run.id)
            outcome = Outcome("failed", "error", f"{type(error).__name__}: {error}")
        self._end(claim, outcome)

    def _end(self, claim: Claim, outcome: Outcome | None) -> None:
        end = persist(
            self._store,
            lambda tx: conclude(tx, claim, outcome),
            give_up=lambda: self._closed,
        )
        if end is not None:
            log.info("%s", _story(claim, outcome, end))
        else:
            log.warning(
                "run %s was taken over meanwhile; this outcome does not count", claim.run.id
            )

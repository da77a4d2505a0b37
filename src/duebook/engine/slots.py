"""The places in which a node works: threads that each perform one run at a time, and the event
loop, whose runs need none. What does not end when it is asked to is written off."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from duebook.engine.settler import Settler
from duebook.errors import counted
from duebook.model.run import Outcome
from duebook.targets.hiding import hidden_outcome, hiding_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.engine.measures import Measures
    from duebook.model.run import Claim, Token
    from duebook.store.base import Store

__all__ = ["Performer", "Places", "Slots", "StopSignal"]

log = logging.getLogger(__name__)

GRACE: Final = 5.0
"""Seconds between asking a task to end and writing its slot off."""
MOST_UNSETTLED: Final = 1_000
"""How many ends may wait for the books before nothing more is claimed; at least one per place."""


class StopSignal(Protocol):
    """How a run is asked to end."""

    def set(self, reason: str) -> None: ...

    @property
    def reason(self) -> str | None: ...


S = TypeVar("S", bound=StopSignal)


class Performer(Protocol[S]):
    """Executes a run's target; raises nothing that says how the work ended."""

    def perform(self, claim: Claim, stop: S) -> Outcome: ...

    def begin(
        self, begun: Sequence[tuple[Claim, S]], ended: Callable[[Claim, Outcome], None]
    ) -> list[Claim]:
        """Begin the runs that need no thread, and tell when each has ended; returns the others."""

    def new_stop(self, claim: Claim) -> S: ...

    def is_cooperative(self, claim: Claim) -> bool:
        """Whether it cannot be made to end, but only asked; then the slots watch its time."""


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
    """Performs claims and has them settled by their token.

    There are as many threads as were ever needed at once, at most `number`.
    """

    def __init__(
        self,
        store: Store,
        performer: Performer[S],
        number: int,
        ring: Callable[[], None],
        grace: float = GRACE,
        monotonic: Callable[[], float] = time.monotonic,
        measures: Measures | None = None,
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        """`ring` is called when a place gets free or a run was settled, `advance` when a step of a
        flow has ended."""
        self._performer = performer
        self._ring = ring
        self._advance = advance
        self._number = number
        self._grace = grace
        self._monotonic = monotonic
        self.claiming = threading.Lock()
        self._lock = threading.Condition()
        self._working: dict[Token, tuple[Claim, S | None]] = {}
        """how to ask each to end; None when it has ended, and is to be settled"""
        self._performing: set[Token] = set()
        """what holds a place: also what was written off, until it ends after all"""
        self._unsettled: set[Token] = set()
        """what has ended here, but not on the books"""
        self._watched: dict[Token, float] = {}
        """when to ask a run that cannot be made to end, or to write it off if it was asked"""
        self._written_off: set[Token] = set()
        self._queue: SimpleQueue[Claim | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._settler = Settler(store, self._settled, measures, monotonic)

    @property
    def free(self) -> int:
        """How many runs may begin: the places of those that have ended are free, unless too many
        ends wait for the books."""
        with self._lock:
            if len(self._unsettled) >= max(self._number, MOST_UNSETTLED):
                return 0
            return self._number - len(self._performing)

    @property
    def is_worn_out(self) -> bool:
        """Whether every slot is held by a run that was written off."""
        return len(self._written_off) >= self._number

    def working(self) -> set[Token]:
        with self._lock:
            return set(self._working)

    def begin(self, claims: list[Claim]) -> None:
        begun: list[tuple[Claim, S]] = []
        for claim in claims:
            try:
                begun.append((claim, self._performer.new_stop(claim)))
            except OSError:  # out of descriptors
                log.exception("run %s cannot be begun; it is handed back", claim.run.id)
                self._settler.put(claim, None)
        with self._lock:
            for claim, stop in begun:
                self._working[claim.token] = (claim, stop)
                self._performing.add(claim.token)
                if claim.spec.timeout is not None and self._performer.is_cooperative(claim):
                    limit = claim.spec.timeout.total_seconds()
                    self._watched[claim.token] = self._monotonic() + limit
        for claim in self._rest(begun):
            self._queue.put(claim)
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._number:
                self._add_thread()

    def _rest(self, begun: list[tuple[Claim, S]]) -> list[Claim]:
        """What needs a thread, once the others have begun."""
        try:
            return self._performer.begin(begun, self._ended)
        except Exception:  # no thread for the event loop
            log.exception("cannot start %s; handing back", counted(len(begun), "run"))
            for claim, _ in begun:
                with self._lock:
                    self._performing.discard(claim.token)
                    self._unsettled.add(claim.token)
                self._settler.put(claim, None)
            return []

    def _add_thread(self) -> None:
        name = f"duebook-slot-{len(self._threads)}"
        thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self, token: Token, reason: str) -> None:
        with self._lock:
            claim, signal = self._working.get(token, (None, None))
            if claim is None or signal is None or signal.reason is not None:
                return
            if self._performer.is_cooperative(claim):
                self._watched[token] = self._monotonic() + self._grace
        signal.set(reason)

    def stop_all(self, reason: str) -> None:
        for token in self.working():
            self.stop(token, reason)

    def look_after(self) -> None:
        """Ask tasks to end whose time is over, and write off those that were asked in vain."""
        if not self._watched:
            return
        now = self._monotonic()
        with self._lock:
            due = [token for token, at in self._watched.items() if at <= now]
        for token in due:
            with self._lock:
                claim, signal = self._working.get(token, (None, None))
                if claim is None or signal is None:
                    self._watched.pop(token, None)
                    continue
                reason = signal.reason
            if reason is None:
                self.stop(token, "timeout")
            else:
                self._write_off(claim, reason)

    def _write_off(self, claim: Claim, reason: str) -> None:
        """The run ends on the books; its thread cannot be ended, and keeps its slot until it is."""
        with self._lock:
            if self._watched.pop(claim.token, None) is None:
                return  # it has just ended
            self._written_off.add(claim.token)
            self._unsettled.add(claim.token)
        log.error(
            "run %s of task %s did not end when it was asked to (%s); its slot is written off",
            claim.run.id,
            claim.run.task,
            reason,
        )
        outcome = Outcome("cancelled", reason)
        if reason == "timeout":
            told = "it took longer than its timeout, and did not end when it was asked to"
            outcome = Outcome("failed", "timeout", told)
        self._settler.put(claim, outcome, self._monotonic())

    def wait_idle(self, timeout: float) -> bool:
        """Whether all work ended, and was settled, within `timeout` seconds."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._working, timeout)

    def close(self) -> None:
        """End the threads; what could not be settled by now is taken over by others."""
        for _ in self._threads:
            self._queue.put(None)
        self._settler.close()
        deadline = time.monotonic() + (0 if self._written_off else 10)
        for thread in self._threads:
            thread.join(timeout=max(deadline - time.monotonic(), 0))

    def _loop(self) -> None:
        while (claim := self._queue.get()) is not None:
            self._ended(claim, self._outcome(claim))
            self._idle.release()

    def _outcome(self, claim: Claim) -> Outcome:
        with self._lock:
            _, stop = self._working.get(claim.token, (claim, None))
            if stop is None or claim.token in self._written_off:  # before its thread came to it
                return Outcome("cancelled", "written_off")
        try:
            return self._performer.perform(claim, stop)
        except Exception as error:
            told = hiding_run(claim)(traceback.format_exc())
            log.error("run %s could not be performed\n%s", claim.run.id, told)  # noqa: TRY400
            why = Outcome("failed", "error", f"{type(error).__name__}: {error}")
            return hidden_outcome(claim, why)

    def _ended(self, claim: Claim, outcome: Outcome) -> None:
        until = self._monotonic() if self._performer.is_cooperative(claim) else None
        with self._lock:
            self._watched.pop(claim.token, None)
            late = claim.token in self._written_off
            self._written_off.discard(claim.token)
            self._performing.discard(claim.token)
            if claim.token in self._working:
                self._working[claim.token] = (claim, None)
            if not late:
                self._unsettled.add(claim.token)
        self._ring()
        if late:
            log.warning("run %s, which was written off, has ended after all", claim.run.id)
            if until is not None:
                self._settler.put_late(claim, until)
        else:
            self._settler.put(claim, outcome, until)

    def _settled(self, claims: Sequence[Claim]) -> None:
        """These have ended on the books; what could not be settled the keeper hands back."""
        with self._lock:
            for claim in claims:
                self._working.pop(claim.token, None)
                self._unsettled.discard(claim.token)
            self._lock.notify_all()
        self._ring()
        if any(claim.step_context is not None for claim in claims):
            self._advance()

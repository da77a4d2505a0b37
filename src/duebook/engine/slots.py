"""The places in which a node works: threads that each execute one run at a time, and the event
loop, whose runs need no thread. Runs claimed ahead wait in a buffer for the next place. A run that
does not end when asked to is written off."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import deque
from typing import TYPE_CHECKING, Final, Generic

from duebook.engine.books_clock import BooksClock
from duebook.engine.buffer import Buffer
from duebook.engine.pace import Pace
from duebook.engine.places import Performer, Room, S
from duebook.engine.settler import Settler
from duebook.errors import counted
from duebook.model.fate import HAND_BACK
from duebook.model.run import Outcome
from duebook.targets.hiding import hidden_outcome, hiding_run
from duebook.targets.log_fields import about

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duebook.engine.measures import Measures
    from duebook.engine.tracing import Tracing
    from duebook.model.run import Claim, Token
    from duebook.store.base import Store

__all__ = ["Slots"]

log = logging.getLogger(__name__)

GRACE: Final = 5.0
"""Seconds between asking a task to end and writing its slot off."""
MOST_UNSETTLED: Final = 1_000
"""Nothing more is claimed while this many ends, and one per place, wait to be settled."""
STALE: Final = 0.5
"""Seconds after which buffered runs are handed back: the node has become slower."""
MARK_AFTER: Final = 0.05
"""Seconds after which a buffered run is recorded as started; most have ended by then."""

_CANNOT_START: Final = "run %s cannot be started; it is returned to the queue"


class Slots(Generic[S]):
    """Executes claims and has them settled by their token.

    There are as many threads as were ever needed at once, at most `number`. A thread that has ended
    a run takes the next one itself, and waiting runs wake one thread at a time.
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
        clock: BooksClock | None = None,
        may_begin: Callable[[], bool] = lambda: True,
        is_told: bool = False,
        tracing: Tracing | None = None,
    ) -> None:
        """`ring` is called when there is room again or a run was settled, `advance` when a step of
        a flow has ended; `may_begin` says whether buffered runs still belong to this node.
        `is_told` means that the store announces runs that a settle lets start, where it can detect
        them."""
        self._performer = performer
        self._ring = ring
        self._advance = advance
        self._number = number
        self._grace = grace
        self._monotonic = monotonic
        self._clock = BooksClock() if clock is None else clock
        self._may_begin = may_begin
        self._is_told = is_told
        self.claiming = threading.Lock()
        self.work_waits = False
        self._lock = threading.Lock()
        self._all_settled = threading.Condition(self._lock)
        self._working: dict[Token, tuple[Claim, S | None]] = {}
        """how to ask each to end; None while it is buffered, and once it waits to be settled"""
        self._performing: set[Token] = set()
        """runs that hold a place, including those written off, until they end after all"""
        self._unsettled: set[Token] = set()
        """ended here, but not settled"""
        self._buffer = Buffer()
        self._pace = Pace()
        self._low = 0
        """rings when no more than this many are buffered"""
        self._rung = False
        self._unmarked: dict[Token, tuple[Claim, float]] = {}
        """buffered runs that were started, and when, unless the database knows it"""
        self._watched: dict[Token, float] = {}
        """when to ask a run to end that cannot be forced to, or to write it off after it was
        asked"""
        self._written_off: set[Token] = set()
        self._for_threads: deque[Claim] = deque()
        """started runs that need a thread"""
        self._threads: list[threading.Thread] = []
        self._parked: list[threading.Lock] = []
        """each is held by a thread that waits for another one to release it"""
        self._waking = False
        """whether a woken thread has not arrived yet"""
        self._closed = False
        self._settler = Settler(
            store, self._settled, measures, monotonic, tracing, performer.is_cooperative
        )

    def room(self) -> Room:
        """The places of ended runs are free, unless too many ends wait to be settled."""
        with self._lock:
            self._rung = False
            if len(self._unsettled) >= max(self._number, MOST_UNSETTLED):
                return Room(0, 0)
            buffered = len(self._buffer)
            free = max(self._number - len(self._performing) - buffered, 0)
            most = self._pace.ahead(self._monotonic())
            self._low = most // 2
            return Room(free, most - buffered if buffered <= self._low else 0)

    @property
    def free(self) -> int:
        return self.room().free

    @property
    def is_worn_out(self) -> bool:
        """Whether every slot is held by a run that was written off."""
        return len(self._written_off) >= self._number

    @property
    def performing(self) -> int:
        """How many runs hold a place."""
        return len(self._performing)

    def working(self) -> set[Token]:
        """The runs of this node in the database: buffered, active, or ended and to be settled."""
        with self._lock:
            return set(self._working)

    def begin(self, claims: list[Claim]) -> None:
        begun: list[tuple[Claim, S]] = []
        buffered = []
        for claim in claims:
            if claim.run.started_at is None:
                buffered.append(claim)
                continue
            try:
                begun.append((claim, self._performer.new_stop(claim)))
            except OSError:  # out of descriptors
                log.exception(_CANNOT_START, claim.run.id, extra=about(claim))
                self._settler.put(claim, None)
        with self._lock:
            now = self._monotonic()
            for claim, stop in begun:
                self._hold_place(claim, stop, now)
            for claim in buffered:
                self._working[claim.token] = (claim, None)
                self._buffer.put(claim, now)
        self._hand_out(begun)
        self._fill()

    def _hold_place(self, claim: Claim, stop: S, now: float) -> None:
        """Its timeout counts from now on; the lock is held."""
        self._working[claim.token] = (claim, stop)
        self._performing.add(claim.token)
        self._pace.began(now)
        if claim.spec.timeout is not None and self._performer.is_cooperative(claim):
            self._watched[claim.token] = now + claim.spec.timeout.total_seconds()

    def _fill(self) -> None:
        """Start buffered runs as far as there are places."""
        begun = []
        with self._lock:
            while (run := self._next_buffered()) is not None:
                begun.append(run)
        if begun:
            self._hand_out(begun)

    def _next_buffered(self) -> tuple[Claim, S] | None:
        """Gives the next run a place, unless the node has lost its lease; the lock is held."""
        while len(self._buffer) and len(self._performing) < self._number:
            if not self._may_begin():
                self._hand_back(self._buffer.take_since(self._monotonic()))
                return None
            claim, at = self._buffer.take(), self._clock.stamp()
            if claim is None:
                return None
            if claim.run.attempt == 1 and claim.run.expires_at and claim.run.expires_at <= at:
                self._end_unbegun(claim, Outcome("cancelled", "expired"))
                continue
            try:
                stop = self._performer.new_stop(claim)
            except OSError:  # out of descriptors
                log.exception(_CANNOT_START, claim.run.id, extra=about(claim))
                self._end_unbegun(claim, None)
                continue
            claim = claim._replace(begun_at=max(at, claim.run.claimed_at or at))
            now = self._monotonic()
            self._hold_place(claim, stop, now)
            self._unmarked[claim.token] = (claim, now)
            return claim, stop
        return None

    def _end_unbegun(self, claim: Claim, outcome: Outcome | None) -> None:
        """A buffered run ends, or cannot be started here; the lock is held."""
        self._unsettled.add(claim.token)
        self._settler.put(claim, outcome)

    def _hand_back(self, claims: Iterable[Claim]) -> None:
        """Buffered runs, to any node; the lock is held."""
        for claim in claims:
            self._unsettled.add(claim.token)
            self._settler.put_back(claim)

    def hand_back_buffered(self) -> None:
        """Let other nodes start at once what was not started here."""
        with self._lock:
            self._hand_back(self._buffer.take_since(self._monotonic()))

    def _hand_out(self, begun: list[tuple[Claim, S]]) -> None:
        rest = self._rest(begun)
        if rest:
            with self._lock:
                self._for_threads.extend(rest)
                self._wake_thread()

    def _rest(self, begun: list[tuple[Claim, S]]) -> list[Claim]:
        """Starts the runs, and returns those that need a thread."""
        try:
            return self._performer.begin(begun, self._ended) if begun else []
        except Exception:  # no thread for the event loop
            log.exception(
                "cannot start %s; returning them to the queue", counted(len(begun), "run")
            )
            with self._lock:
                now = self._monotonic()
                for claim, _ in begun:
                    self._leave_place(claim.token, now)
                    self._unsettled.add(claim.token)
            for claim, _ in begun:
                self._settler.put(claim, None)
            return []

    def _wake_thread(self) -> None:
        """Unless one has been woken already, which will wake the next; the lock is held."""
        waits = self._for_threads or (self._buffer and len(self._performing) < self._number)
        if not waits or self._waking:
            return
        if self._parked:
            self._waking = True
            self._parked.pop().release()
        elif len(self._threads) < self._number:
            self._waking = True
            self._add_thread()

    def _add_thread(self) -> None:
        """If no thread can be started, the runs wait longer."""
        name = f"duebook-slot-{len(self._threads)}"
        thread = threading.Thread(target=self._loop, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            log.exception("cannot start another thread")
            self._waking = False
        else:
            self._threads.append(thread)

    def stop(self, token: Token, reason: str) -> None:
        """A buffered run ends without being started, or is handed back if the node is leaving."""
        with self._lock:
            claim, signal = self._working.get(token, (None, None))
            if claim is not None and self._buffer.drop(token):
                if reason in HAND_BACK:
                    self._hand_back([claim])
                else:
                    self._end_unbegun(claim, Outcome("cancelled", reason))
                return
            if claim is None or signal is None or signal.reason is not None:
                return
            if self._performer.is_cooperative(claim):
                self._watched[token] = self._monotonic() + self._grace
        signal.set(reason)

    def stop_all(self, reason: str) -> None:
        for token in self.working():
            self.stop(token, reason)

    def look_after(self) -> None:
        """Ask tasks to end after their timeout, and write off those that ignored the request. Hand
        back runs that were buffered for too long, and record buffered runs that were started."""
        now = self._monotonic()
        with self._lock:
            due = [token for token, at in self._watched.items() if at <= now]
            if stale := self._buffer.take_since(now - STALE):
                self._pace.forget()
                self._hand_back(stale)
            self._tell_begun(now - MARK_AFTER)
            self._wake_thread()  # in case no thread could be started before
        for token in due:
            self._ask_or_write_off(token)

    def _tell_begun(self, moment: float) -> None:
        """Record buffered runs that were started by then and still run; the lock is held."""
        begun = []
        for claim, since in self._unmarked.values():  # in the order in which they started
            if since > moment:
                break
            begun.append(claim)
        for claim in begun:
            del self._unmarked[claim.token]
            self._settler.put_begun(claim)

    def _ask_or_write_off(self, token: Token) -> None:
        with self._lock:
            claim, signal = self._working.get(token, (None, None))
            if claim is None or signal is None:
                self._watched.pop(token, None)
                return
            reason = signal.reason
        if reason is None:
            self.stop(token, "timeout")
        else:
            self._write_off(claim, reason)

    def _write_off(self, claim: Claim, reason: str) -> None:
        """Settle a run whose thread cannot be forced to end, and keeps its slot until it does."""
        with self._lock:
            if self._watched.pop(claim.token, None) is None:
                return  # it has just ended
            self._written_off.add(claim.token)
            self._unsettled.add(claim.token)
            self._unmarked.pop(claim.token, None)
        log.error(
            "run %s of task %s did not stop when asked to (%s); its slot is written off",
            claim.run.id,
            claim.run.task,
            reason,
            extra=about(claim),
        )
        outcome = Outcome("cancelled", reason)
        if reason == "timeout":
            told = "it took longer than its timeout, and did not stop when asked to"
            outcome = Outcome("failed", "timeout", told)
        self._settler.put(claim, outcome, self._monotonic())

    def wait_idle(self, timeout: float) -> bool:
        """Whether all work ended and was settled within `timeout` seconds."""
        with self._all_settled:
            return self._all_settled.wait_for(lambda: not self._working, timeout)

    def close(self) -> None:
        """End the threads; other nodes take over what could not be settled by now."""
        with self._lock:
            self._closed = True
            self._hand_back(self._buffer.take_since(self._monotonic()))
            for parked in self._parked:
                parked.release()
            self._parked.clear()
        self._settler.close()
        deadline = time.monotonic() + (0 if self._written_off else 10)
        for thread in self._threads:
            thread.join(timeout=max(deadline - time.monotonic(), 0))

    def _loop(self) -> None:
        parking = threading.Lock()
        parking.acquire()
        woken = True
        while True:
            with self._lock:
                if woken:
                    self._waking = woken = False
                claim = self._for_threads.popleft() if self._for_threads else None
                buffered = self._next_buffered() if claim is None else None
                if claim is None and buffered is None:
                    if self._closed:
                        return
                    self._parked.append(parking)
                else:
                    self._wake_thread()
            if buffered is not None:
                claim = next(iter(self._rest([buffered])), None)
            elif claim is None:
                parking.acquire()
                woken = True
            if claim is not None:
                self._end(claim, self._outcome(claim))

    def _outcome(self, claim: Claim) -> Outcome:
        with self._lock:
            _, stop = self._working.get(claim.token, (claim, None))
            if stop is None or claim.token in self._written_off:  # before its thread came to it
                return Outcome("cancelled", "written_off")
        try:
            return self._performer.perform(claim, stop)
        except Exception as error:
            told = hiding_run(claim)(traceback.format_exc())
            words = "run %s could not be executed\n%s"
            log.error(words, claim.run.id, told, extra=about(claim))  # noqa: TRY400
            why = Outcome("failed", "error", f"{type(error).__name__}: {error}")
            return hidden_outcome(claim, why)

    def _ended(self, claim: Claim, outcome: Outcome) -> None:
        """Called by the event loop, which does not look for more work."""
        self._end(claim, outcome)
        if len(self._buffer):  # new arrivals start by themselves from now on
            self._fill()

    def _end(self, claim: Claim, outcome: Outcome) -> None:
        """Free the place of a run that ended."""
        token, now = claim.token, self._monotonic()
        with self._lock:
            late = False
            if self._watched:  # both are mostly empty
                self._watched.pop(token, None)
            if self._written_off and (late := token in self._written_off):
                self._written_off.remove(token)
            self._leave_place(token, now)
            if token in self._working:
                self._working[token] = (claim, None)
            if not late:
                self._unsettled.add(token)
            rings = self.work_waits and not self._rung and len(self._buffer) <= self._low
            self._rung = self._rung or rings
        if late:
            words = "run %s, whose slot was written off, has finished"
            log.warning(words, claim.run.id, extra=about(claim))
            if self._performer.is_cooperative(claim):
                self._settler.put_late(claim, now)
        else:
            self._settler.put(claim, outcome, now)
        if rings:
            self._ring()

    def _leave_place(self, token: Token, now: float) -> None:
        """The lock is held."""
        if self._unmarked:
            self._unmarked.pop(token, None)
        if token in self._performing:
            self._performing.remove(token)
            self._pace.ended(now)

    def _settled(self, claims: Sequence[Claim]) -> None:
        """Called with claims that are settled or given up; the keeper hands back the latter."""
        with self._lock:
            for claim in claims:
                self._working.pop(claim.token, None)
                self._unsettled.discard(claim.token)
            if not self._working:
                self._all_settled.notify_all()
            lets_begin = self.work_waits or not self._is_told or any(map(_is_counted, claims))
            rings = lets_begin and not self._rung
            self._rung = self._rung or rings
        if rings:
            self._ring()
        if any(claim.step_context is not None for claim in claims):
            self._advance()


def _is_counted(claim: Claim) -> bool:
    """Whether another run of its schedule may have waited for its end."""
    is_limited = claim.spec.overlap != "allow" or claim.spec.max_concurrent is not None
    is_limited = is_limited or claim.run.origin == "backfill"
    return is_limited and claim.run.schedule_id is not None

"""Keeps a node's lease and leadership, declares dead nodes and takes over their runs; carries out
requests to cancel, and ends runs that no node started in time."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.engine.books_clock import BooksClock
from duebook.engine.clock_watch import note_step
from duebook.engine.due_cursor import DueCursor
from duebook.engine.gone_nodes import TAKE_OVER_BATCH, find_gone
from duebook.engine.healing import wake_asleep
from duebook.engine.measures import Measures
from duebook.machine import process_is_gone
from duebook.model.node_times import LONGEST_PULSE
from duebook.model.serving import ALL
from duebook.store.values import CLOCK_BEHIND
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from duebook.engine.places import Places
    from duebook.model.node import Drain
    from duebook.model.run import Token
    from duebook.model.serving import Serving
    from duebook.store.base import Store, Tx
    from duebook.store.values import OwnRun, Pulse

__all__ = ["Keeper"]

log = logging.getLogger(__name__)

EXPIRE_BATCH: Final = 1_000
HEAL_EVERY: Final = 600.0
LOOK_BACK_EVERY: Final = 6
"""One in this many renewals looks for due schedules from the very beginning."""
SAFETY: Final = 0.8
"""The part of a lease after which a node that could not renew it stops its own work."""


class Keeper:
    """One per node. Call `step()` often: it renews only when a third of the lease or ten seconds
    have passed."""

    def __init__(
        self,
        store: Store,
        session_id: str,
        lease: timedelta,
        slots: Places | None,
        renewed: Callable[[float, float], None],
        monotonic: Callable[[], float] = time.monotonic,
        queues: Sequence[str] = (),
        namespaces: Serving = ALL,
        leads: bool = False,
        cursor: DueCursor | None = None,
        clock: BooksClock | None = None,
        measures: Measures | None = None,
        is_gone: Callable[[int, int], bool] = process_is_gone,
    ) -> None:
        """`is_gone` checks a process of the same machine, by its pid and start time."""
        self._store = store
        self._is_gone = is_gone
        self.session_id = session_id
        self._lease = lease
        self._slots = slots
        self._on_renewed = renewed
        self._monotonic = monotonic
        self._queues = queues
        self._namespaces = namespaces
        self._leads = leads
        self._cursor = DueCursor() if cursor is None else cursor
        self._clock = BooksClock(monotonic) if clock is None else clock
        self._measures = Measures() if measures is None else measures
        self._renewals = 0
        self._hurried = False
        self._healed_at = float("-inf")
        self._trusted_since = self._renewed_at = monotonic()
        self._last_renewal: tuple[datetime, float] | None = None
        self._told_of_clock = False
        self.pulse: Pulse | None = None
        """what it saw at the last renewal"""
        self.changes = 0
        """how many runs of others it has taken over or ended"""
        self.drain: Drain | None = None
        """the request to start no more runs, if it has seen one"""
        self._drain_hinted = False
        self.lost = False

    @property
    def now(self) -> datetime | None:
        """Roughly the database's time, whatever this machine's clock says."""
        return self._clock.now

    @property
    def term(self) -> int | None:
        """The term of this node's leadership, while it is sure to lead."""
        if self.pulse is None or self.lost or self._late(1.0):
            return None
        return self.pulse.term

    @property
    def due_in(self) -> float:
        """Seconds until the next renewal."""
        if self._hurried:
            return 0.0
        every = min(self._lease / 3, LONGEST_PULSE).total_seconds()
        due_in = every - (self._monotonic() - self._renewed_at)
        pulse, now = self.pulse, self.now
        if pulse is None or now is None:
            return due_in
        moments = [pulse.expiry, pulse.lead_until if pulse.term is None else None]
        return min([due_in, *((at - now).total_seconds() for at in moments if at is not None)])

    @property
    def holds_lease(self) -> bool:
        """Whether this node may work: no other node has declared it dead, and its lease is not
        about to run out."""
        return not self.lost and not self._late(SAFETY)

    def hurry(self) -> None:
        """Renew at the next step: a claim may have been lost, or no node leads."""
        self._hurried = True

    def ask_drain(self) -> None:
        """At the next step, check whether this node is to start no more runs."""
        self._drain_hinted = True

    def step(self) -> None:
        """Renew when it is time, and look after dead nodes; otherwise stop what was cancelled."""
        try:
            if self.due_in <= 0:
                self.renew()
                self._heal()
            else:
                self.obey()
                self._note_steps()
        finally:
            self.guard()

    def guard(self) -> None:
        """Stop this node's work if its lease could not be renewed in time."""
        if self._late(SAFETY):
            self._lose("the lease could not be renewed in time")
        if self.lost and self._slots is not None:
            self._slots.stop_all("lost")  # including work from a claim that was in progress

    def _late(self, part: float) -> bool:
        return self._monotonic() - self._renewed_at > self._lease.total_seconds() * part

    def renew(self) -> None:
        """Extend the lease; a node that was declared dead stops its work at once."""
        before = self._monotonic()
        self._hurried = False
        try:
            pulse, strays = self._look()
        except BaseException:
            self._hurried = True
            raise
        if not pulse.alive:
            self._lose("another node declared this one dead")
            return
        self._measures.renewed(before - self._renewed_at, self._lease)
        self._renewed_at = before
        self._clock.heard(pulse.now, before)
        self._on_renewed(before, self._lease.total_seconds())
        self._notice_interruption(pulse.now)
        self._notice_leadership(pulse.term)
        self.pulse = pulse
        self.drain = pulse.drain
        self._notice_clock(pulse.behind)
        self._note_steps()
        self._stop_cancelled(pulse.own)
        self._hand_back(strays)
        gone = find_gone(pulse.neighbours, self._is_gone)
        if pulse.deaths or gone:
            self._bury(gone)
        if pulse.expiry is not None and pulse.expiry <= pulse.now:
            ended = self._store.transact(lambda tx: tx.attempts.expire(EXPIRE_BATCH))
            self.changes += ended
            self._measures.ran_out(ended)

    def _look(self) -> tuple[Pulse, set[Token]]:
        """The pulse, and runs that the database assigns to this node but that are not here, because
        a claim was lost. While a claim is in progress there is no way to know; the next renewal
        checks again."""
        slots = self._slots
        certain = slots is not None and slots.claiming.acquire(blocking=False)
        try:
            after = self._cursor.mark if self._renewals % LOOK_BACK_EVERY else None
            pulse = self._store.pulse(
                self.session_id, self._lease, self._queues, self._leads, after, self._namespaces
            )
            self._renewals += 1
            if slots is None or not certain:
                return pulse, set()
            return pulse, {run.token for run in pulse.own} - slots.working()
        finally:
            if slots is not None and certain:
                slots.claiming.release()

    def renew_as_ever(self) -> None:
        """Renew as if there had been no gap: time was simulated, no node was away."""
        self._last_renewal = None
        self._clock.watch.forget()
        self.renew()

    def _bury(self, gone: Sequence[str]) -> None:
        """Declare nodes dead, if this one may judge, and take over the runs of dead nodes.

        A node whose process has ended is dead, whatever its lease says. A node with a longer lease
        than this one is judged only after this one has renewed for that long.
        """

        def bury(tx: Tx) -> tuple[int, int]:
            dead = tx.nodes.bury_gone(gone)
            trusted = timedelta(seconds=self._monotonic() - self._trusted_since)
            if trusted >= self._lease:
                dead += tx.nodes.bury(trusted)
            for session_id in dead:
                log.warning("node session %s is dead; its runs are being taken over", session_id)
            return tx.attempts.take_over(TAKE_OVER_BATCH), len(dead)

        taken = TAKE_OVER_BATCH
        while taken == TAKE_OVER_BATCH:
            taken, buried = self._store.transact(bury)
            self.changes += taken
            self._measures.took_over(taken, buried)

    def _notice_leadership(self, term: int | None) -> None:
        before = None if self.pulse is None else self.pulse.term
        if self._leads and term is not None and term != before:
            log.info("this node is the leader, in term %d", term)
        elif before is not None and term is None:
            log.warning("this node is no longer the leader")

    def _notice_interruption(self, now: datetime) -> None:
        """After an outage or a jump of the clock, every node looks dead.

        So no node is declared dead until this one has renewed for a full lease without either.
        """
        moment = self._monotonic()
        lease = self._lease.total_seconds()
        if self._last_renewal is not None:
            then, then_moment = self._last_renewal
            away = moment - then_moment
            jump = (now - then).total_seconds() - away
            if away > lease * SAFETY or jump > lease / 3:
                log.warning(
                    "the clock jumped or the database was unreachable; no node is declared dead yet"
                )
                self._trusted_since = moment
        self._last_renewal = (now, moment)

    def _note_steps(self) -> None:
        """Record steps back of the clock, but not while it only stands still to catch up."""
        for step in self._clock.watch.take():
            if self.pulse is not None and not self.pulse.behind:
                since = timedelta(seconds=self._monotonic() - step.heard_at)
                note_step(self._store, step, self._lease, since)

    def _notice_clock(self, behind: timedelta) -> None:
        """Warn once that nothing is due while a clock that was set back catches up."""
        if behind >= CLOCK_BEHIND and not self._told_of_clock:
            log.warning(
                "this machine's clock is %s behind the latest time in the database; "
                "nothing is due until it has caught up",
                format_duration(timedelta(seconds=int(behind.total_seconds()))),
            )
        self._told_of_clock = behind >= CLOCK_BEHIND

    def _heal(self) -> None:
        """Now and then, wake schedules that no node would look at again."""
        if self._monotonic() - self._healed_at < HEAL_EVERY:
            return
        self._measures.woke(self._store.transact(wake_asleep))
        self._healed_at = self._monotonic()

    def obey(self) -> None:
        """Stop the runs of this node that were cancelled, and check whether it is to drain."""
        hinted, self._drain_hinted = self._drain_hinted, False
        works = self._slots is not None and bool(self._slots.working())
        if not works and not hinted:
            return

        def look(tx: Tx) -> tuple[list[OwnRun], Drain | None]:
            return tx.claims.own_runs(self.session_id), tx.nodes.get_drain(self.session_id)

        own, self.drain = self._store.read(look)
        self._stop_cancelled(own)

    def _stop_cancelled(self, own: Iterable[OwnRun]) -> None:
        for run in own:
            if run.cancel_reason is not None and self._slots is not None:
                self._slots.stop(run.token, run.cancel_reason)

    def _hand_back(self, strays: set[Token]) -> None:
        for token in strays:
            if self._store.transact(lambda tx, token=token: tx.attempts.hand_back(token)):  # type: ignore[misc]
                log.warning("run %s is returned to the queue: its claim was lost", token.run_id)

    def _lose(self, why: str) -> None:
        if not self.lost:
            log.error("this node lost its session: %s; its runs are stopped", why)
            self.lost = True
            self._measures.lost_session()
            if self._slots is not None:
                self._slots.stop_all("lost")

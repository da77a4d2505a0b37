"""Keeps a node's lease, buries dead nodes and takes over their runs; obeys requests to cancel,
and ends what nobody began in time."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.errors import Unavailable
from duebook.settings import RETENTION
from duebook.store.base import CLOCK_BEHIND
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.engine.slots import Places
    from duebook.store.base import OwnRun, Store, Tx

__all__ = ["Keeper"]

log = logging.getLogger(__name__)

TAKE_OVER_BATCH: Final = 100
EXPIRE_BATCH: Final = 1_000
PURGE_BATCH: Final = 200
PURGE_EVERY: Final = 60.0
SAFETY: Final = 0.8
"""The part of a lease after which a node that could not renew it stops its own work."""


class Keeper:
    """One per node; `step()` often, it renews only when a third of the lease has passed."""

    def __init__(
        self,
        store: Store,
        session_id: str,
        lease: timedelta,
        slots: Places | None,
        renewed: Callable[[float, float], None],
        monotonic: Callable[[], float] = time.monotonic,
        retention: timedelta = RETENTION,
    ) -> None:
        self._store = store
        self.session_id = session_id
        self._lease = lease
        self._slots = slots
        self._tell = renewed
        self._monotonic = monotonic
        self._retention = retention
        self._purged_at = float("-inf")
        self._trusted_since = self._renewed_at = monotonic()
        self._last_renewal: tuple[datetime, float] | None = None
        self._told_of_clock = False
        self.changes = 0
        """how many runs of others it took over or ended"""
        self.lost = False

    @property
    def now(self) -> datetime | None:
        """About what time it is on the books, whatever this machine's clock says."""
        if self._last_renewal is None:
            return None
        then, moment = self._last_renewal
        return then + timedelta(seconds=self._monotonic() - moment)

    @property
    def due_in(self) -> float:
        """Seconds until it wants to renew."""
        return self._lease.total_seconds() / 3 - (self._monotonic() - self._renewed_at)

    def step(self) -> None:
        """Stop what was cancelled, renew when it is time, and look after the dead."""
        try:
            self._step()
        except Unavailable as error:
            log.warning("cannot reach the books: %s", error)
        if self._monotonic() - self._renewed_at > self._lease.total_seconds() * SAFETY:
            self._lose("the lease could not be renewed in time")

    def _step(self) -> None:
        own, expiry, now = self._store.read(
            lambda tx: (tx.own_runs(self.session_id), tx.earliest_expiry(), tx.now)
        )
        self._stop_cancelled(own)
        if expiry is not None and expiry <= now:
            self.changes += self._store.transact(lambda tx: tx.expire(EXPIRE_BATCH))
        if self.due_in <= 0:
            self.renew()
        if self._monotonic() - self._purged_at >= PURGE_EVERY:
            self._purge()

    def renew(self) -> None:
        """Prolong the lease; a node that was declared dead stops its work at once."""
        before = self._monotonic()
        if not self._store.transact(self._renew):
            self._lose("another node declared this one dead")
            return
        self._renewed_at = before
        self._tell(before, self._lease.total_seconds())
        if self._slots is not None:
            self._hand_back_strays(self._slots)

    def renew_as_ever(self) -> None:
        """Renew as if that had been done all the time: nobody was away, time was simulated."""
        self._last_renewal = None
        self.renew()

    def _renew(self, tx: Tx) -> bool:
        if not tx.renew(self.session_id, self._lease):
            return False
        self._notice_interruption(tx.now)
        self._notice_clock(tx.behind)
        if self._monotonic() - self._trusted_since >= self._lease.total_seconds():
            for dead in tx.bury():
                log.warning("node session %s is dead, its runs are taken over", dead)
        self.changes += tx.take_over(TAKE_OVER_BATCH)
        return True

    def _notice_interruption(self, now: datetime) -> None:
        """After an outage, or a jump of the clock, everybody looks dead.

        So nobody is buried before this node has renewed for a full lease without either.
        """
        moment = self._monotonic()
        lease = self._lease.total_seconds()
        if self._last_renewal is not None:
            then, then_moment = self._last_renewal
            away = moment - then_moment
            jump = (now - then).total_seconds() - away
            if away > lease * SAFETY or jump > lease / 3:
                log.warning("the clock jumped or the books were out of reach; burying nobody yet")
                self._trusted_since = moment
        self._last_renewal = (now, moment)

    def _notice_clock(self, behind: timedelta) -> None:
        """Nothing is due while a clock that was set back catches up: say so, once."""
        if behind >= CLOCK_BEHIND and not self._told_of_clock:
            log.warning(
                "this machine's clock is %s behind the latest time on the books; "
                "nothing is due until it has caught up",
                format_duration(timedelta(seconds=int(behind.total_seconds()))),
            )
        self._told_of_clock = behind >= CLOCK_BEHIND

    def _purge(self) -> None:
        """Forget what is older than the retention, a small batch at a time."""
        purged = self._store.transact(lambda tx: tx.purge(tx.now - self._retention, PURGE_BATCH))
        if purged < PURGE_BATCH:
            self._purged_at = self._monotonic()

    def obey(self) -> None:
        """Stop the runs of this node that were cancelled."""
        self._stop_cancelled(self._store.read(lambda tx: tx.own_runs(self.session_id)))

    def _stop_cancelled(self, own: list[OwnRun]) -> None:
        for run in own:
            if run.cancel_reason is not None and self._slots is not None:
                self._slots.stop(run.token, run.cancel_reason)

    def _hand_back_strays(self, slots: Places) -> None:
        """Runs that the books give to this node, but nobody here works on: a claim got lost.

        While a claim is under way nobody can tell; the next renewal looks again.
        """
        if not slots.claiming.acquire(blocking=False):
            return
        try:
            own = self._store.read(lambda tx: tx.own_runs(self.session_id))
            strays = {run.token for run in own} - slots.working()
        finally:
            slots.claiming.release()
        for token in strays:
            log.warning("run %s is handed back: its claim got lost", token.run_id)
            self._store.transact(lambda tx, token=token: tx.hand_back(token))  # type: ignore[misc]

    def _lose(self, why: str) -> None:
        if not self.lost:
            log.error("this node's session is lost: %s; its work is stopped", why)
            self.lost = True
            if self._slots is not None:
                self._slots.stop_all("lost")

"""Turns due times into runs: takes due schedules, plans, commits; decides nothing itself."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.engine.books_clock import BooksClock
from duebook.engine.due_cursor import DueCursor
from duebook.engine.measures import Measures
from duebook.engine.verbose import tell_plans
from duebook.errors import DuebookError, shorten
from duebook.planner import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.engine.starting import Starter, Starting
    from duebook.model.plan import Plan
    from duebook.model.run import Claim
    from duebook.store.base import Store, Tx
    from duebook.store.values import Broken

__all__ = ["Ticker"]

log = logging.getLogger(__name__)

BATCH: Final = 1_000
TRY_AGAIN: Final = timedelta(minutes=10)
"""When to look again at a schedule that cannot be planned."""
MOST_TOLD: Final = 10_000
HELD_BY_OTHERS: Final = timedelta(milliseconds=20)
"""When to look again at due schedules that other nodes were just planning."""


class Ticked(NamedTuple):
    """A tick that was committed."""

    now: datetime
    took_any: bool
    wake_at: Callable[[], datetime | None] | None
    """returns when the next schedule is due for a look; None when the tick did not ask"""
    claims: Sequence[Claim] = ()
    """runs that start at once, on this node"""


class Ticker:
    """One per scheduler node; any number of them share the work."""

    def __init__(
        self,
        store: Store,
        session_id: str | None = None,
        batch: int = BATCH,
        term: Callable[[], int | None] | None = None,
        cursor: DueCursor | None = None,
        clock: BooksClock | None = None,
        measures: Measures | None = None,
        more_due: Callable[[], None] = lambda: None,
        starter: Starter | None = None,
    ) -> None:
        """With `term` it plans only while that returns the term under which this node leads.
        Tickers with the same `cursor` take turns. `more_due` is called when it has taken a full
        batch, before it plans it, so that another ticker may start meanwhile. With a `starter`,
        runs start on this node as soon as they are planned, as far as it has free slots for
        them."""
        self._store = store
        self.session_id = session_id
        self._term = term
        self._batch = self._limit = batch
        self._cursor = DueCursor() if cursor is None else cursor
        self._turn = self._cursor.turn
        self._clock = BooksClock() if clock is None else clock
        self._measures = Measures() if measures is None else measures
        self._more_due = more_due
        self._starter = starter
        self._done: tuple[list[Plan], int, int] = ([], 0, 0)
        """the last tick: its plans, how many runs they created, how many schedules it set aside"""
        self._names: dict[str, str] = {}
        """names of the schedules that it took last, if they will be logged"""
        self._wake_at: datetime | None = None
        self._alone: str | None = None
        """the schedule that it took last, if it was the only one"""
        self._told: set[tuple[str, int]] = set()
        """versions of unreadable schedules that were logged"""
        self.fired = 0
        """how many runs it has created"""
        self.queued = 0
        """how many of them were left to a dispatcher; a growing number means that there is work"""
        self.full = False
        """whether the last step took a whole batch, so that more may be due"""

    def step(self) -> datetime | None:
        """Plan what is due now; returns when to look again, None when nothing is foreseen.

        While another ticker of the process looks, this one waits, and uses that one's result if it
        can.
        """
        if self._term is not None and self._term() is None:
            self.full = False
            return None
        if (answer := self._turn.begin(self)) is not None:
            self.full, self._wake_at = False, answer.wake_at
            return answer.wake_at
        try:
            wake_at = self._step()
            self._turn.end(self, wake_at)
        finally:
            self._turn.pass_on(self)
        return wake_at

    def _step(self) -> datetime | None:
        if not self.full and not self._is_due():
            self._wake_at, now = self._look()
            if self._wake_at is None or self._wake_at > now:
                return self._wake_at
        wanted_at, self.full = self._wanted_at(), False
        asked_at = self._clock.monotonic()
        try:
            ticked = self._plan_and_begin()
        except DuebookError:  # the batch may have been too large
            self._cursor.forget()
            self._limit = max(self._limit // 2, 1)
            raise
        except Exception as error:
            self._cursor.forget()
            return self._narrow_down(error)
        self._clock.heard(ticked.now, asked_at)
        seconds = self._clock.monotonic() - asked_at
        latency = None
        if ticked.took_any and wanted_at is not None:
            latency = max((ticked.now - wanted_at).total_seconds(), 0.0) + seconds
        self._measures.planned(*self._done, seconds, latency)
        tell_plans(log, self._done[0], self._names)
        self._limit = min(self._limit * 2, self._batch)
        self._wake_at = self._next_look(ticked)
        return self._wake_at

    def _plan_and_begin(self) -> Ticked:
        if self._starter is None:
            return self._store.transact(lambda tx: self._tick(tx, None))
        with self._starter.attempt() as starting:
            ticked = self._store.transact(lambda tx: self._tick(tx, starting))
            starting.begin(ticked.claims)
            return ticked

    def _next_look(self, ticked: Ticked) -> datetime | None:
        if self.full:
            return ticked.now
        if ticked.wake_at is None:
            return None  # another node leads
        wake_at = ticked.wake_at()
        if not self._cursor.rest(ticked.now, wake_at):
            return ticked.now
        if not ticked.took_any and wake_at is not None and wake_at <= ticked.now:
            return ticked.now + HELD_BY_OTHERS
        return wake_at

    def _wanted_at(self) -> datetime | None:
        """When the next schedule to be taken should have been planned; a backlog continues after
        the last one taken, which was no later."""
        mark = self._cursor.mark if self.full else None
        return self._wake_at if mark is None else mark.wake_at

    def _is_due(self) -> bool:
        """Whether the time that it waited for has come, so that it need not look first."""
        now = self._clock.now
        return self._wake_at is not None and now is not None and self._wake_at <= now

    def _look(self) -> tuple[datetime | None, datetime]:
        self._turn.look(self)
        mark, asked_at = self._cursor.mark, self._clock.monotonic()
        wake_at, now = self._store.look_for_due(mark)
        self._clock.heard(now, asked_at)
        return wake_at, now

    def _tick(self, tx: Tx, starting: Starting | None) -> Ticked:
        self._done = ([], 0, 0)
        if not self._leads(tx):
            return Ticked(tx.now, took_any=False, wake_at=None)
        try:
            return self._take_and_plan(tx, starting)
        except BaseException:  # the store may retry the transaction
            self._cursor.forget()
            raise

    def _take_and_plan(self, tx: Tx, starting: Starting | None) -> Ticked:
        plans: list[Plan] = []
        self._alone = None  # if taking fails, the cause is unknown
        self._turn.look(self)
        if starting is not None:
            tx.plans.worker = starting.worker()
        snapshots, last, broken = self._cursor.take(tx, self._limit)
        if last is not None:
            if starting is not None:
                starting.give_up()
            tx.plans.worker = None
            self._turn.pass_on(self)
            self._more_due()
        self._log_broken(broken)
        self._alone = snapshots[0].schedule_id if len(snapshots) == 1 else None
        if log.isEnabledFor(logging.DEBUG):
            self._names = {snapshot.schedule_id: snapshot.name for snapshot in snapshots}
        for snapshot in snapshots:
            try:
                plans.append(plan(snapshot, tx.now))
            except Exception as error:  # one bad schedule must not hold up the others
                log.exception("cannot plan schedule %s", snapshot.name)
                _set_aside(tx, snapshot.schedule_id, error)
        fired = tx.plans.commit(plans, self.session_id)
        self._done = (plans, fired, len(snapshots) - len(plans) + len(broken))
        self.fired += fired
        self.queued += fired - len(tx.plans.claims)
        self.full = last is not None
        wake_at = None if self.full else tx.plans.wake_after_commit(self._cursor.mark)
        return Ticked(tx.now, bool(snapshots), wake_at, tx.plans.claims)

    def _log_broken(self, broken: Sequence[Broken]) -> None:
        """Log each unreadable schedule once, although it is looked at again and again."""
        if len(self._told) > MOST_TOLD:
            self._told.clear()
        for found in broken:
            if (found.id, found.version) not in self._told:
                self._told.add((found.id, found.version))
                log.error("schedule %s cannot be planned: %s", found.title, found.problem)

    def _leads(self, tx: Tx) -> bool:
        """Whether this node still leads; a commit under an old term must change nothing."""
        if self._term is None or self.session_id is None:
            return True
        term = self._term()
        return term is not None and tx.nodes.holds_term(self.session_id, term)

    def _narrow_down(self, error: Exception) -> datetime | None:
        """Halve a batch that the database refuses, until the schedule that spoils it is alone."""
        if (alone := self._alone) is not None:
            log.error("a schedule cannot be committed and is postponed: %s", error)
            self._store.transact(lambda tx: _set_aside(tx, alone, error))
        self._limit = max(self._limit // 2, 1)
        return self._store.look_for_due()[0]


def _set_aside(tx: Tx, schedule_id: str, error: Exception) -> None:
    """Mark the schedule with its problem; it is tried again later."""
    problem = shorten(f"{type(error).__name__}: {error}", 500)
    tx.plans.mark_problem(schedule_id, problem, tx.now + TRY_AGAIN)

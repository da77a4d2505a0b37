"""A node: one process with a session, whose threads call step() until it is told to stop."""

from __future__ import annotations

import logging
import os
import socket
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.clock import utc_now
from duebook.engine.dispatcher import Dispatcher
from duebook.engine.keeper import Keeper
from duebook.engine.performer import TargetPerformer
from duebook.engine.slots import Slots
from duebook.engine.ticker import Ticker
from duebook.errors import Conflict, DuebookError, Unavailable
from duebook.ids import new_id
from duebook.store.base import SessionInfo
from duebook.targets.spawner import lease_clock
from duebook.triggers import tzdata_version
from duebook.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.store.base import Store, Tx
    from duebook.targets.spawner import Spawner

__all__ = ["Node", "NodeOptions", "new_session"]

log = logging.getLogger(__name__)

POLL: Final = 0.1
"""How often a node looks whether another process changed the books."""
LONGEST_WAIT: Final = 30.0
RETRY: Final = 1.0
STOP_WITHIN: Final = 10.0
SPAWNER_PART: Final = 0.9
"""The part of a lease after which the spawner kills whatever the node has not stopped itself."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    slots: int = 10
    queues: tuple[str, ...] = ("default",)
    lease: timedelta = timedelta(seconds=30)
    shutdown_grace: timedelta = timedelta(seconds=10)


def new_session(roles: str) -> SessionInfo:
    """What this process says about itself when it begins."""
    host, version = socket.gethostname(), __version__
    return SessionInfo(new_id(), host, os.getpid(), roles, version, tzdata_version())


class Bell:
    """Wakes every loop of the node at once; a ring that nobody heard yet is not lost."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rings = 0

    def ring(self) -> None:
        with self._changed:
            self._rings += 1
            self._changed.notify_all()

    def wait(self, heard: int, timeout: float) -> int:
        """Wait for a ring after the `heard`-th; returns how many there were."""
        with self._changed:
            self._changed.wait_for(lambda: self._rings > heard, timeout)
            return self._rings


class Node:
    """Scheduler and worker in one; the spawner must have been started before any thread."""

    def __init__(self, store: Store, spawner: Spawner, options: NodeOptions | None = None) -> None:
        self._store = store
        self._spawner = spawner
        self._options = options or NodeOptions()
        self._bell = Bell()
        self._times_asked_to_stop = 0
        self._fatal: Conflict | None = None
        self._planning_over = threading.Event()
        self._keeping_over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._spawner_lock = threading.Lock()
        self._lease_granted = (lease_clock(), self._options.lease.total_seconds())

    def run(self) -> None:
        """Work until `stop()`, then hand back what is unfinished; the caller waits here.

        Raises Conflict when the books were taken away under it.
        """
        self._performer = TargetPerformer(self._store, self._spawner, self._revive_spawner)
        self._slots = Slots(self._store, self._performer, self._options.slots, self._bell.ring)
        self._begin_session()
        self._ticker = Ticker(self._store, self._keeper.session_id)
        self._dispatcher = Dispatcher(
            self._store, self._slots, self._keeper.session_id, self._options.queues
        )
        self._start("ticker", self._tick, self._planning_over)
        self._start("dispatcher", self._dispatch, self._planning_over)
        self._start(
            "keeper", self._keep, self._keeping_over, self._options.lease.total_seconds() / 6
        )
        self._watch()
        self._shut_down()
        if self._fatal is not None:
            raise self._fatal

    def stop(self) -> None:
        """Ask the node to end, and again to end without waiting for its runs.

        Safe to call from a signal handler, as it takes no lock.
        """
        self._times_asked_to_stop += 1

    def _begin_session(self, former: str | None = None) -> None:
        session = new_session("scheduler,worker")
        lease = self._options.lease

        def begin(tx: Tx) -> None:
            if former is not None:
                tx.end_session(former)
            tx.begin_session(session, lease)

        self._store.transact(begin)
        self._keeper = Keeper(
            self._store, session.id, lease, self._slots, self._lease_renewed, lease_clock
        )
        self._keeper.renew()

    def _lease_renewed(self, since: float, seconds: float) -> None:
        """The spawner ends all work a little before others may take it over."""
        self._lease_granted = (since, seconds * SPAWNER_PART)
        try:
            self._spawner.extend_lease(seconds * SPAWNER_PART, since)
        except Unavailable:
            self._revive_spawner()

    def _revive_spawner(self) -> None:
        with self._spawner_lock:
            if self._spawner.is_alive():
                return
            log.warning("the spawner is gone; it is started again")
            try:
                self._spawner.start()
                since, seconds = self._lease_granted
                self._spawner.extend_lease(seconds, since)
            except Unavailable as error:
                log.warning("%s", error)

    def _tick(self) -> datetime | None:
        before = self._ticker.fired
        wake_at = self._ticker.step()
        if self._ticker.fired > before:
            self._bell.ring()  # the dispatcher need not wait for the next look at the books
        return wake_at

    def _dispatch(self) -> datetime | None:
        return None if self._keeper.lost else self._dispatcher.step()

    def _keep(self) -> None:
        self._keeper.step()
        if self._keeper.lost and self._slots.wait_idle(0):
            self._begin_session(former=self._keeper.session_id)
            self._dispatcher.session_id = self._ticker.session_id = self._keeper.session_id
            self._bell.ring()
            log.info("this node goes on as session %s", self._keeper.session_id)

    def _start(
        self,
        name: str,
        step: Callable[[], datetime | None],
        over: threading.Event,
        longest: float = LONGEST_WAIT,
    ) -> None:
        thread = threading.Thread(
            target=self._loop, args=(step, over, longest), name=f"duebook-{name}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _loop(
        self, step: Callable[[], datetime | None], over: threading.Event, longest: float
    ) -> None:
        heard = 0
        while not over.is_set():
            try:
                wake_at = step()
                patience = longest if wake_at is None else self._seconds_until(wake_at)
            except DuebookError as error:
                log.warning("%s; trying again", error)
                patience = RETRY
            except Exception:  # a loop that ended would leave a node that only looks alive
                log.exception("a step failed; trying again")
                patience = RETRY
            heard = self._bell.wait(heard, min(max(patience, 0.0), longest))

    def _seconds_until(self, moment: datetime) -> float:
        """By the books' clock: this machine's may be wrong by hours."""
        return (moment - (self._keeper.now or utc_now())).total_seconds()

    def _watch(self) -> None:
        """Ring when anybody changed the books; losing this costs only latency."""
        seen = -1
        while not self._times_asked_to_stop:
            self._keeping_over.wait(POLL)
            self._performer.flush_logs()
            try:
                version = self._store.changed()
            except Conflict as error:
                log.critical("%s; this node ends", error)
                self._fatal = error
                return
            except DuebookError:
                continue
            if version != seen:
                seen = version
                self._bell.ring()

    def _shut_down(self) -> None:
        """No new work; what runs may finish within the grace, and is handed back beyond it."""
        *planning, keeping = self._threads
        self._planning_over.set()
        self._bell.ring()
        for thread in planning:  # a claim that is under way still becomes work
            thread.join()
        grace = self._options.shutdown_grace.total_seconds()
        if running := len(self._slots.working()):
            log.warning("waiting up to %.0f s for %d runs; ask again to stop now", grace, running)
        if not self._wait_idle(grace, impatient=True):
            self._slots.stop_all("shutdown")
            if not self._wait_idle(STOP_WITHIN):
                self._spawner.close()  # nothing may run on when the session has ended
                self._wait_idle(STOP_WITHIN)
        self._keeping_over.set()
        self._bell.ring()
        keeping.join(timeout=5)
        self._slots.close()
        try:
            self._store.transact(lambda tx: tx.end_session(self._keeper.session_id))
        except DuebookError as error:
            log.warning("could not say good-bye: %s", error)

    def _wait_idle(self, seconds: float, impatient: bool = False) -> bool:
        deadline = lease_clock() + seconds
        while not self._slots.wait_idle(POLL):
            self._performer.flush_logs()
            if lease_clock() > deadline or (impatient and self._times_asked_to_stop > 1):
                return False
        return True

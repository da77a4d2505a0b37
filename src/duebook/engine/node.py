"""A node: one process with a session, whose threads call step() until it is told to stop."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from duebook.backoff import backoff
from duebook.engine.advancer import Advancer
from duebook.engine.alarm import Alarm
from duebook.engine.alarms import Alarms
from duebook.engine.books_clock import BooksClock
from duebook.engine.clock_watch import notice_since_last_seen
from duebook.engine.dispatcher import Dispatcher
from duebook.engine.due_cursor import DueCursor
from duebook.engine.ending import Ending
from duebook.engine.keeper import Keeper
from duebook.engine.measures import Measures
from duebook.engine.node_options import Chore, NodeOptions
from duebook.engine.outage_log import OutageLog
from duebook.engine.performer import TargetPerformer
from duebook.engine.relay import Relay, RelaySetup
from duebook.engine.retention import Retention
from duebook.engine.sequencer import Sequencer
from duebook.engine.served_queues import ServedQueues
from duebook.engine.session import new_session
from duebook.engine.slots import Slots
from duebook.engine.spawner_lease import SpawnerLease
from duebook.engine.starting import Starter
from duebook.engine.step_places import FlowPlaces
from duebook.engine.step_threads import StepThreads
from duebook.engine.stranded import Stranded
from duebook.engine.ticker import Ticker
from duebook.engine.unserved import Unserved
from duebook.errors import Conflict, DuebookError, Unavailable, counted
from duebook.flows.flow_cache import FlowCache
from duebook.model.serving import NONE
from duebook.randomness import fraction
from duebook.store.values import News
from duebook.targets.node_secrets import offered_names
from duebook.targets.spawner import lease_clock
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.engine.places import Performer
    from duebook.model.node import Drain
    from duebook.store.base import Store, Tx
    from duebook.store.values import Pulse
    from duebook.targets.spawner import Spawner

__all__ = ["Chore", "Node", "NodeOptions"]

log = logging.getLogger(__name__)

POLL: Final = 0.1
"""How often the main thread checks whether to stop; news from other nodes wakes it at once."""
LONGEST_WAIT: Final = 3600.0
"""For loops that the keeper's pulse or news from other nodes wakes."""
SHORTEST_WAIT: Final = 0.02
"""Between two renewals of a keeper that has much to do."""
END_WITHIN: Final = 10.0
"""Seconds for work that was told to stop."""
_WORN_OUT: Final = "every slot is held by a task that does not stop; restart the node"


class Node:
    """Scheduler, worker and relay in one; start the spawner before any thread."""

    def __init__(
        self,
        store: Store,
        spawner: Spawner,
        options: NodeOptions | None = None,
        tasks: Tasks | None = None,
        measures: Measures | None = None,
        chores: Sequence[Chore] = (),
    ) -> None:
        """`chores` are work other than runs, for threads of this node."""
        self.measures = Measures() if measures is None else measures
        self._chores = [(chore, Alarm()) for chore in chores]
        self._store = store
        self._tasks = tasks or Tasks()
        self._spawner = spawner
        self._options = options or NodeOptions()
        self._alarms = Alarms()
        served = self._options.queues if "worker" in self._options.roles else ()
        self._queues = ServedQueues(store, served, self._alarms.dispatcher.ring)
        self._outage = OutageLog()
        self._stranded = Stranded(store)
        self._cursor = DueCursor()
        self._clock = BooksClock(lease_clock)
        self._times_asked_to_stop = 0
        self._fatal: Conflict | None = None
        self._drain: Drain | None = None
        self._rests = False
        """whether it has handed back the runs it had not started, because it drains"""
        self._planning_over = threading.Event()
        self._keeping_over = threading.Event()
        self._threads = StepThreads(self._outage, self.measures, lambda: self._keeper.session_id)
        self._first_session = threading.Event()
        self._spawner_lease = SpawnerLease(spawner, self._options.lease.total_seconds())

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Work until `stop()`, then hand back what is unfinished; blocks the caller.

        Calls `ready` once the node is registered in the database. Raises Conflict when the database
        was replaced or has become too new for it, or when tasks that do not stop hold all of its
        slots.
        """
        self._prepare()
        try:
            if not self._begin_first_session():
                return
        finally:
            if not self._first_session.is_set():
                self._slots.close()
        ready()
        self._start_threads()
        self._watch()
        self._shut_down()
        if self._fatal is not None:
            raise self._fatal

    def stop(self) -> None:
        """Ask the node to stop; ask again to stop without waiting for its runs.

        Safe to call from a signal handler, as it takes no lock.
        """
        self._times_asked_to_stop += 1

    @property
    def trouble(self) -> str | None:
        """Why this node cannot work at present; None if it can."""
        if self._times_asked_to_stop or self._fatal is not None:
            return "this node is stopping"
        if not self._first_session.is_set():
            return "this node is starting"
        if not self._keeper.holds_lease:
            return "this node could not renew its lease; it resumes work when it has a new one"
        return None

    def _prepare(self) -> None:
        options = self._options
        flow_cache = FlowCache()
        self._unserved = Unserved(self._store)
        self._performer = TargetPerformer(
            self._store,
            self._spawner,
            self._spawner_lease.revive,
            http_allow=options.http_allow,
            tasks=self._tasks,
            flow_cache=flow_cache,
            clock=self._clock,
            secrets=options.secrets,
            celery=options.celery,
            places=FlowPlaces(options.flow_directories, options.smtp),
            tell_celery=self._unserved.celery(options.namespaces),
        )
        self._advancer = Advancer(self._store, flow_cache, tracing=options.tracing)
        self._slots = Slots(
            self._store,
            self._traced(self._performer),
            options.slots,
            self._alarms.dispatcher.ring,
            measures=self.measures,
            advance=self._alarms.advancer.ring,
            clock=self._clock,
            may_begin=self._may_begin,
            is_told=self._store.tells_itself,
            tracing=options.tracing,
        )
        self._dispatcher = Dispatcher(
            self._store,
            self._slots,
            "",
            self._queues,
            lambda: options.known(self._tasks),
            measures=self.measures,
            labels=options.labels,
            namespaces=options.namespaces,
            clock=self._clock,
        )
        starter = Starter(self._slots, self._dispatcher, self._may_begin, self._doubt_claims)
        term = self._term if options.coordination == "leader" else None
        self._ticker, self._second_ticker = (
            Ticker(
                self._store,
                term=term,
                cursor=self._cursor,
                clock=self._clock,
                measures=self.measures,
                more_due=self._alarms.second_ticker.ring,
                starter=starter if self._store.starts_runs else None,
            )
            for _ in range(2)
        )
        self._sequencer = Sequencer(self._store)
        lent = (options.http_allow, options.smtp, self._spawner, options.namespaces)
        setup = RelaySetup(*lent, options.public_url)
        ring = self._alarms.relay.ring
        self._relay = Relay(self._store, setup, options.lease, self._unserved, ring=ring)

    def _start_threads(self) -> None:
        """One for each loop of its roles; that of the keeper is the last."""
        alarms, roles = self._alarms, self._options.roles
        loops: list[tuple[str, Callable[[], float], Alarm]] = []
        if "scheduler" in roles:
            loops.append(("ticker", self._tick, alarms.ticker))
            if self._store.parallel:
                loops.append(("second ticker", self._help, alarms.second_ticker))
            loops.append(("advancer", self._advance, alarms.advancer))
        if "worker" in roles:
            loops.append(("dispatcher", self._dispatch, alarms.dispatcher))
        if "relay" in roles and self._store.sequences:
            loops.append(("sequencer", self._sequence, alarms.sequencer))
        if "relay" in roles:
            loops.append(("relay", self._publish, alarms.relay))
        loops.append(("retention", Retention(self._store).step, alarms.retention))
        for name, step, alarm in loops:
            self._threads.start(name, step, alarm, self._planning_over)
        for chore, alarm in self._chores:
            chore.start(alarm.ring, self._queues.add)
            self._threads.start(chore.name, chore.step, alarm, self._planning_over)
        self._threads.start("scribe", self._write_logs, Alarm(), self._keeping_over)
        self._threads.start("keeper", self._keep, alarms.keeper, self._keeping_over)

    def _traced(self, performer: TargetPerformer) -> Performer[Any]:
        if (tracing := self._options.tracing) is None:
            return performer
        from duebook.engine.tracing import TracedPerformer

        tracing.read_from(self._store)
        return TracedPerformer(performer, tracing)

    def _term(self) -> int | None:
        return self._keeper.term

    def _may_begin(self) -> bool:
        return self._drain is None and self._keeper.holds_lease

    def _begin_first_session(self) -> bool:
        """False when it was asked to stop while the database was unavailable."""
        failures = 0
        while not self._times_asked_to_stop:
            began = time.monotonic()
            try:
                self._begin_session()
            except Unavailable as error:
                failures += 1
                self._outage.failed("start", error, began)
                self._keeping_over.wait(backoff(failures, fraction(id(self), failures)))
            else:
                self._outage.ended("start")
                return True
        return False

    def _begin_session(self, former: str | None = None) -> None:
        options = self._options
        works = "worker" in options.roles
        known, served = options.known(self._tasks) if works else (), tuple(self._queues)
        labels, namespaces = (options.labels, options.namespaces) if works else ((), NONE)
        offered = offered_names(options.secrets, namespaces)
        session = new_session(",".join(options.roles), known, served, labels, namespaces, offered)
        lease = options.lease

        def begin(tx: Tx) -> None:
            tx.nodes.begin_session(session, lease)  # first: it may wait for a migration
            notice_since_last_seen(tx, lease)
            if former is None:
                return
            tx.nodes.end_session(former)
            if (drain := tx.nodes.get_drain(former)) is not None:
                tx.nodes.drain(session.id, drain)

        self._store.transact(begin)
        self._keeper = Keeper(
            self._store,
            session.id,
            lease,
            self._slots,
            self._spawner_lease.renewed,
            lease_clock,
            queues=self._queues,
            namespaces=namespaces,
            leads=options.coordination == "leader" and "scheduler" in options.roles,
            cursor=self._cursor,
            clock=self._clock,
            measures=self.measures,
        )
        self._keeper.drain = self._drain
        self._first_session.set()
        followers = (
            self._dispatcher,
            self._ticker,
            self._second_ticker,
            self._unserved,
            self._queues,
        )
        for owner in followers:
            owner.session_id = session.id
        for chore, _ in self._chores:
            chore.owned_by(session.id)
        self._alarms.dispatcher.ring()
        try:
            self._keeper.renew()
        except Unavailable:  # the session has started anyway
            self._keeper.hurry()

    def _tick(self) -> float:
        return self._seconds_until(self._tick_by(self._ticker))

    def _help(self) -> float:
        """Plan beside the first ticker while more is due than one batch."""
        self._tick_by(self._second_ticker)
        return 0.0 if self._second_ticker.full else LONGEST_WAIT

    def _tick_by(self, ticker: Ticker) -> datetime | None:
        before = ticker.queued
        wake_at = ticker.step()
        if ticker.queued > before:
            self._alarms.dispatcher.ring()  # without waiting for the store's notification
        return wake_at

    def _advance(self) -> float:
        before = self._advancer.begun
        wake_at = self._advancer.step()
        if self._advancer.begun > before:
            self._alarms.dispatcher.ring()
        return self._seconds_until(wake_at)

    def _dispatch(self) -> float:
        try:
            rests = self._keeper.lost or self._drain is not None
            return self._seconds_until(None if rests else self._dispatcher.step())
        except Unavailable:
            self._doubt_claims()
            raise

    def _doubt_claims(self) -> None:
        """The last claim may or may not have been committed."""
        self._keeper.hurry()
        self._alarms.keeper.ring()

    def _sequence(self) -> float:
        wait = self._sequencer.step()
        return LONGEST_WAIT if wait is None else wait

    def _publish(self) -> float:
        return self._relay.step()

    def _keep(self) -> float:
        seen = self._keeper.pulse
        self._keeper.step()
        if self._keeper.lost:
            self._begin_again()
        if self._keeper.drain != self._drain and not self._planning_over.is_set():
            self._obey_drain(self._keeper.drain)
        if (pulse := self._keeper.pulse) is not None and pulse is not seen:
            self._pass_on(pulse)
        return max(min(self._keeper.due_in, self._options.lease.total_seconds() / 6), SHORTEST_WAIT)

    def _obey_drain(self, drain: Drain | None) -> None:
        """Start no more runs and hand back those not started; or resume."""
        self._drain, self._rests = drain, False
        if drain is None:
            log.info("this node executes runs again")
            self._alarms.dispatcher.ring()
            return
        with self._slots.claiming:  # so that the runs of a claim in progress have arrived
            self._slots.hand_back_buffered()
        self._rests = True
        running = counted(self._slots.performing, "run")
        log.warning("this node is draining: it starts no more runs; %s running", running)

    @property
    def _is_drained(self) -> bool:
        """Whether it was asked to stop once idle, and is idle."""
        drain = self._drain
        return drain is not None and drain.stops and self._rests and self._slots.wait_idle(0)

    def _write_logs(self) -> float:
        """In its own thread: while it waits for the database, others look after the lease."""
        self._performer.flush()
        self._unserved.write()
        return POLL

    def _begin_again(self) -> None:
        """Start another session once all work of the lost one has ended, including runs that a
        claim in progress may still have brought."""
        self._slots.stop_all("lost")
        with self._slots.claiming:
            if self._fatal is not None or not self._slots.wait_idle(0):
                return
            try:
                self._begin_session(former=self._keeper.session_id)
            except Conflict as error:
                self._give_up(error)
                return
        log.info("this node continues as session %s", self._keeper.session_id)

    def _pass_on(self, pulse: Pulse) -> None:
        """Wake other loops in time for work that they may not have heard of."""
        if pulse.wake_at is not None:
            self._cursor.look_back(pulse.wake_at)
        self._alarms.pass_on(pulse, self._relay.sinks, self._seconds_until)
        if pulse.queued:
            self._stranded.step()

    def _seconds_until(self, moment: datetime | None) -> float:
        """By the database's time: this machine's clock may be wrong by hours."""
        if moment is None:
            return LONGEST_WAIT
        return max((moment - self._clock.stamp()).total_seconds(), 0.0)

    def _watch(self) -> None:
        """Ring when any process changed the database; a lost ring only costs latency."""
        while not self._times_asked_to_stop and self._fatal is None:
            self._slots.look_after()
            self._keeper.guard()  # in case the keeper itself is stuck
            if self._slots.is_worn_out:
                self._give_up(Conflict(_WORN_OUT))
                return
            if self._is_drained:
                log.warning("this node has drained; it stops")
                return
            try:
                news = self._store.news(POLL)
            except Conflict as error:
                self._give_up(error)
                return
            except DuebookError:
                self._keeping_over.wait(POLL)
                continue
            self._hear(news)

    def _give_up(self, error: Conflict) -> None:
        log.critical("%s; this node stops", error)
        self._fatal = error

    def _hear(self, news: News) -> None:
        if News.LEAD in news and self._options.coordination == "leader":
            self._keeper.hurry()
            self._alarms.keeper.ring()
        if News.LOOK in news:
            self._keeper.hurry()
        if News.DRAIN in news:
            self._keeper.ask_drain()
        self._alarms.hear(news, self._relay.follows_log)  # last: the keeper knows why it wakes

    def _shut_down(self) -> None:
        """Take no new work; runs may finish within the grace period, then they are handed back."""
        *planning, _, keeping = self._threads.begun
        ending = Ending(
            self._store,
            self._slots,
            lambda: self._keeper,
            self._options.stop_within,
            lambda: self._times_asked_to_stop,
        )
        self._planning_over.set()
        self._alarms.ring_all_but_keeper()
        for _, alarm in self._chores:
            alarm.ring()
        for thread in planning:  # so that runs of a claim in progress arrive
            thread.join()
        self._relay.close()
        self._end_chores()
        self._slots.hand_back_buffered()
        if not ending.wait_for_runs():
            self._slots.stop_all("shutdown")
            if not ending.wait_idle(END_WITHIN):
                self._spawner.close()  # nothing may keep running after the session has ended
                ending.wait_idle(END_WITHIN)
        self._keeping_over.set()
        self._alarms.keeper.ring()
        keeping.join(timeout=5)
        self._slots.close()
        self._performer.close()
        try:
            self._store.transact(lambda tx: tx.nodes.end_session(self._keeper.session_id))
        except DuebookError as error:
            log.warning("could not sign off: %s", error)
        if self._options.tracing is not None:
            self._options.tracing.close()

    def _end_chores(self) -> None:
        for chore, _ in self._chores:
            try:
                chore.close()
            except DuebookError as error:
                log.warning("%s: %s", chore.name, error)

"""A simulated node: the real loops of a node, with slots that only pretend to work.

It never acts by itself: the simulation calls its steps in the order of virtual time.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.engine.advancer import Advancer
from duebook.engine.books_clock import BooksClock
from duebook.engine.dispatcher import Dispatcher
from duebook.engine.keeper import Keeper
from duebook.engine.places import Room
from duebook.engine.retention import Retention
from duebook.engine.settling import conclude
from duebook.engine.ticker import Ticker
from duebook.ids import new_id
from duebook.model.run import Outcome
from duebook.model.serving import NONE
from duebook.store.values import SessionInfo
from duebook.triggers import tzdata_version
from duebook.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.flows.flow_cache import FlowCache
    from duebook.model.run import Claim, Token
    from duebook.model.serving import Serving
    from duebook.store.base import Store
    from duebook.testing.clock import VirtualClock
    from duebook.testing.stand_ins import StandIns

__all__ = ["LEASE", "SimulatedNode"]

LEASE: Final = timedelta(minutes=1)
FOR_EVER: Final = timedelta(days=36_500)
QUEUES: Final = ("default",)


class VirtualPlaces:
    """Implements engine.slots.Places: work is just a time at which it ends."""

    def __init__(self, number: int, clock: VirtualClock, stand_ins: StandIns) -> None:
        self.claiming = threading.Lock()
        self._number = number
        self._clock = clock
        self._stand_ins = stand_ins
        self._work: dict[Token, tuple[datetime, Claim, Outcome]] = {}
        self.work_waits = False

    def room(self) -> Room:
        return Room(self._number - len(self._work), 0)

    @property
    def next_end(self) -> datetime | None:
        return min((ends_at for ends_at, _, _ in self._work.values()), default=None)

    def begin(self, claims: list[Claim]) -> None:
        for claim in claims:
            length, outcome = self._stand_ins.begin(claim)
            self._work[claim.token] = (self._clock() + length, claim, outcome)

    def working(self) -> set[Token]:
        return set(self._work)

    def stop(self, token: Token, reason: str) -> None:
        if token in self._work:
            _, claim, _ = self._work[token]
            self._work[token] = (self._clock(), claim, Outcome("cancelled", reason))

    def stop_all(self, reason: str) -> None:
        for token in self.working():
            self.stop(token, reason)

    def take_ended(self) -> list[tuple[Claim, Outcome]]:
        """The work that has ended by now, in the order of its end."""
        now = self._clock()
        ended = sorted(
            (work for work in self._work.values() if work[0] <= now), key=lambda work: work[0]
        )
        for _, claim, _ in ended:
            del self._work[claim.token]
        return [(claim, outcome) for _, claim, outcome in ended]


class SimulatedNode:
    """Scheduler and worker in one, with a session for each role."""

    def __init__(
        self,
        name: str,
        store: Store,
        clock: VirtualClock,
        stand_ins: StandIns,
        slots: int,
        flow_cache: FlowCache,
        namespaces: Serving,
    ) -> None:
        self.name = name
        self.alive = True
        self._store = store
        self._clock = clock
        self._stand_ins = stand_ins
        self._namespaces = namespaces
        self.places = VirtualPlaces(slots, clock, stand_ins)
        session_id = self._begin_session("worker", LEASE)
        self.keeper = Keeper(
            store, session_id, LEASE, self.places, lambda *_: None, clock.monotonic
        )
        self._retention = Retention(store, monotonic=clock.monotonic)
        self._retains_at = 0.0
        self._dispatcher = Dispatcher(
            store,
            self.places,
            session_id,
            QUEUES,
            lambda: stand_ins.tasks,
            clock.monotonic,
            namespaces=namespaces,
        )
        self._ticker = Ticker(store, clock=BooksClock(clock.monotonic))
        self._advancer = Advancer(store, flow_cache)
        self._scheduler: str | None = None
        self.scheduler_up()

    def _begin_session(self, role: str, lease: timedelta) -> str:
        tasks, queues, namespaces = (
            (self._stand_ins.tasks, QUEUES, self._namespaces)
            if role == "worker"
            else ((), (), NONE)
        )
        about = (__version__, tzdata_version(), tasks, queues)
        session = SessionInfo(new_id(), self.name, 0, role, *about, namespaces=namespaces)
        self._store.transact(lambda tx: tx.nodes.begin_session(session, lease))
        return session.id

    def tell_tasks(self, tasks: Sequence[str]) -> None:
        self._store.transact(lambda tx: tx.nodes.tell_tasks(self.session_id, tasks))

    def scheduler_up(self) -> None:
        if self._scheduler is None:
            self._scheduler = self._begin_session("scheduler", FOR_EVER)
            self._ticker.session_id = self._scheduler

    def scheduler_down(self) -> None:
        if (session_id := self._scheduler) is not None:
            self._store.transact(lambda tx: tx.nodes.end_session(session_id))
            self._scheduler = None

    def kill(self) -> None:
        """Stop without releasing anything; its lease expires."""
        self.alive = False
        self.scheduler_down()  # a scheduler holds nothing that others would wait for

    @property
    def keeps_at(self) -> datetime:
        """When its keeper will renew the lease."""
        return self._clock() + timedelta(seconds=max(self.keeper.due_in, 0))

    @property
    def plans(self) -> bool:
        return self.alive and self._scheduler is not None

    @property
    def scheduler_id(self) -> str:
        """The session under which it plans; "" while its scheduler is down."""
        return self._scheduler or ""

    def tick(self) -> datetime | None:
        """Plan what is due, and advance flows; returns when to check again.

        That is at once if a flow advanced: its end may have woken its schedule.
        """
        before = self._advancer.advanced
        moments = (self._ticker.step(), self._advancer.step())
        if self._advancer.advanced > before:
            return self._clock()
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def session_id(self) -> str:
        return self.keeper.session_id

    def keep(self) -> bool:
        """Renew the lease and take over from dead nodes; returns whether that changed any run."""
        before = self.keeper.changes
        self.keeper.step()
        if (now := self._clock.monotonic()) >= self._retains_at:
            self._retains_at = now + self._retention.step()
        return self.keeper.changes > before

    def obey(self) -> None:
        """Stop what was cancelled."""
        if self.places.working():
            self.keeper.obey()

    def work(self) -> tuple[bool, datetime | None]:
        """End finished work and start what is ready; returns whether there was any, and when more
        is ready."""
        ended = self.places.take_ended()
        if ended:
            self._store.transact(
                lambda tx: [conclude(tx, claim, outcome) for claim, outcome in ended]
            )
        before = self.places.room().free
        ready_at = self._dispatcher.step()
        return bool(ended) or self.places.room().free < before, ready_at

"""A simulated node: the loops of engine.node with the real ticker, advancer, dispatcher, keeper and
courier, each an actor; its clock is skewed, and it may die at any point."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from duebook.delivery.courier import Courier
from duebook.engine.advancer import Advancer
from duebook.engine.books_clock import BooksClock
from duebook.engine.clock_watch import notice_since_last_seen
from duebook.engine.dispatcher import Dispatcher
from duebook.engine.due_cursor import DueCursor
from duebook.engine.keeper import Keeper
from duebook.engine.settling import conclude, conclude_all, is_final
from duebook.engine.spawner_lease import SPAWNER_PART
from duebook.engine.ticker import Ticker
from duebook.errors import DuebookError, Unavailable
from duebook.flows.flow_cache import FlowCache
from duebook.ids import new_id
from duebook.model.serving import ALL
from duebook.store.values import SessionInfo
from duebook.testing.step_preparer import SimulatedPreparer
from duebook.triggers import tzdata_version
from duebook.version import __version__
from tests.sim.places import SimPlaces
from tests.sim.script import LIMITS, RATES
from tests.sim.store import TurnStore
from tests.sim.turns import Actor
from tests.sim.work import Performance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.model.consumer import Delivery, Report
    from duebook.model.run import Claim
    from duebook.store.base import Tx
    from duebook.store.values import Pulse
    from tests.sim.world import World

LEASE: Final = timedelta(seconds=12)
QUEUES: Final = ("default", *LIMITS, *RATES)
LONGEST: Final = 3600.0


class SimNode:
    """One process; after a restart, another SimNode."""

    def __init__(self, world: World, number: int, life: int) -> None:
        self.number = number
        self.name = f"node-{number}"
        self.mark = f"{self.name}/{life}"
        self.pid = 1_000 * (number + 1) + life
        self.alive = True
        self.stopped_until = 0.0
        self.deaf_until = 0.0
        self.countdown: dict[str, int] = {}
        """the number of points until it crashes or fails"""
        self._world = world
        self._drift = 1.0 + world.script.drift(number)
        self._origin = 1e5 * (number + 1)
        self.store = TurnStore(
            world.memory, world.database_clock, partial(world.point, self), world.committed
        )
        self.flow_cache = FlowCache()
        self.places = SimPlaces(
            world.script.slots,
            lambda: world.now,
            Performance(world.script, SimulatedPreparer(self.store, self.flow_cache)),
            self._say,
        )
        self.clock = BooksClock(self.monotonic)
        self.cursor = DueCursor()
        self.keeper: Keeper | None = None
        self.actors: dict[str, Actor] = {"start": Actor(f"{self.mark} start", self._start)}

    def monotonic(self) -> float:
        return self._origin + self._world.now * self._drift

    def _say(self, word: str, claim: Claim) -> None:
        self._world.say(word, claim, self)

    def die(self) -> None:
        """Stop everything at once, without any cleanup."""
        self.alive = False
        self.places.die()
        for actor in self.actors.values():
            actor.kill()
        self.store.close()

    # -- loops

    def _start(self) -> float:
        self._begin_session(None)
        loops: dict[str, Callable[[], float]] = {
            "ticker": self._tick,
            "advancer": self._advance,
            "dispatcher": self._dispatch,
            "settler": self._settle,
            "keeper": self._keep,
            "watch": self._watch,
            "courier": self._publish,
        }
        self._ticker = Ticker(self.store, self.session_id, cursor=self.cursor, clock=self.clock)
        self._advancer = Advancer(self.store, self.flow_cache)
        self._dispatcher = Dispatcher(
            self.store,
            self.places,  # type: ignore[arg-type]  # its lock is for turns
            self.session_id,
            QUEUES,
            monotonic=self.monotonic,
            clock=self.clock,
        )
        self._courier = Courier(
            self.store, self._world.consumer, self, 50, LEASE, monotonic=self.monotonic
        )
        for name, step in loops.items():
            self.actors[name] = Actor(f"{self.mark} {name}", step)
        return LONGEST

    @property
    def session_id(self) -> str:
        assert self.keeper is not None
        return self.keeper.session_id

    def _begin_session(self, former: str | None) -> None:
        about = (__version__, tzdata_version(), (), QUEUES)
        session = SessionInfo(new_id(), self.name, self.pid, "scheduler,worker,relay", *about)

        def begin(tx: Tx) -> None:
            if former is not None:
                tx.nodes.end_session(former)
            notice_since_last_seen(tx, LEASE)
            tx.nodes.begin_session(session, LEASE)

        self.store.transact(begin)
        self._world.lease_ends[self.mark] = self._world.now + LEASE.total_seconds()
        keeper = Keeper(
            self.store,
            session.id,
            LEASE,
            self.places,  # type: ignore[arg-type]  # its lock is for turns
            self._renewed,
            self.monotonic,
            queues=QUEUES,
            namespaces=ALL,
            cursor=self.cursor,
            clock=self.clock,
            is_gone=lambda _pid, _started: False,
        )
        self.keeper = keeper
        self.places.may_begin = lambda: keeper.holds_lease
        if former is not None:
            self._ticker.session_id = self._dispatcher.session_id = session.id
        try:
            keeper.renew()
        except Unavailable:
            keeper.hurry()

    def _renewed(self, since: float, seconds: float) -> None:
        ago = (self.monotonic() - since) / self._drift
        self.places.kill_at = self._world.now - ago + seconds * SPAWNER_PART
        self._world.lease_ends[self.mark] = self._world.now + seconds

    def _tick(self) -> float:
        before = self._ticker.queued
        wake_at = self._ticker.step()
        if self._ticker.queued > before:
            self.ring("dispatcher")
        return self._seconds_until(wake_at)

    def _advance(self) -> float:
        before = self._advancer.begun
        wake_at = self._advancer.step()
        if self._advancer.begun > before:
            self.ring("dispatcher")
        return self._seconds_until(wake_at)

    def _dispatch(self) -> float:
        assert self.keeper is not None
        try:
            return LONGEST if self.keeper.lost else self._seconds_until(self._dispatcher.step())
        except Unavailable:
            self.keeper.hurry()
            self.ring("keeper")
            raise

    def _settle(self) -> float:
        """Like engine.settler: settle final outcomes together and the others one by one, all by
        their tokens."""
        over = self.places.over()
        final = [w for w in over if is_final(w.claim, w.outcome)]
        if final:
            self.store.transact(lambda tx: conclude_all(tx, [(w.claim, w.outcome) for w in final]))
            self.places.forget(final)
        for work in over:
            if not is_final(work.claim, work.outcome):
                self.store.transact(lambda tx, w=work: conclude(tx, w.claim, w.outcome))  # type: ignore[misc]
                self.places.forget([work])
        if over:
            self.ring("dispatcher")
        return LONGEST

    def _keep(self) -> float:
        assert self.keeper is not None
        seen = self.keeper.pulse
        self.keeper.step()
        if self.keeper.lost:
            self._begin_again()
        if (pulse := self.keeper.pulse) is not None and pulse is not seen:
            self._pass_on(pulse)
        return max(min(self.keeper.due_in, LEASE.total_seconds() / 6), 0.02) / self._drift

    def _begin_again(self) -> None:
        self.places.stop_all("lost")
        with self.places.claiming:
            if self.places.working():
                self.ring("settler")
                return
            self._begin_session(former=self.session_id)
        self.ring("dispatcher")

    def _pass_on(self, pulse: Pulse) -> None:
        """Like engine.node: wake the other loops in time for changes whose hints they may have
        missed."""
        if pulse.wake_at is not None:
            self.cursor.look_back(pulse.wake_at)
            self.ring("ticker", self._seconds_until(pulse.wake_at))
        if pulse.queued:
            self.ring("dispatcher")
        if pulse.ready_at is not None:
            self.ring("dispatcher", self._seconds_until(pulse.ready_at))

    def _watch(self) -> float:
        assert self.keeper is not None
        self.keeper.guard()
        return 0.5

    def _publish(self) -> float:
        try:
            return self._courier.step()
        except DuebookError:
            self._courier.hurry()
            raise

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        """The outlet of the courier."""
        return self._world.deliver(deliveries)

    # -- time

    def ring(self, name: str, seconds: float = 0.0) -> None:
        if (actor := self.actors.get(name)) is not None:
            actor.ring(self._world.now + max(seconds, 0.0))

    def _seconds_until(self, moment: datetime | None) -> float:
        if moment is None or self.clock.now is None:
            return LONGEST if moment is None else 0.0
        return max((moment - self.clock.now).total_seconds(), 0.0) / self._drift

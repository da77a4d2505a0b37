"""Faults in a random order, repeatable by a seed: nodes are killed, stopped, cut off, cloned and
given wrong clocks, COMMITs get lost and the server crashes, while users change the database."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.chaos.fleet import LEASE, LOAD, Fleet, Member
from tests.chaos.flows import SCHEDULES
from tests.chaos.onlookers import Observer, People
from tests.chaos.points import POINTS
from tests.chaos.receiver import RELAYING, Receiver
from tests.chaos.recovery import Recovery
from tests.support.clock_files import set_clock
from tests.support.waiting import within

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.chaos.brokers import Brokers
    from tests.chaos.proxy import Loss
    from tests.support.bouncer import Bouncer

NODES: Final = 3
"""In addition to one that only faults of the server affect, so that dead nodes are followed in
time."""
HOUR: Final = 3600
BEAT: Final = "all-1"
"""A schedule that users do not change: it shows whether the fleet works."""
CALM_BEATS: Final = 8
"""Due times from which the normal lateness is measured."""
STOPPABLE: Final = [point for point in POINTS if point.startswith(("ticker", "dispatcher"))]


class Storm:
    """One storm over a fleet; `told` gets a line for each fault."""

    def __init__(
        self,
        fleet: Fleet,
        number: int,
        told: Callable[[str], None],
        brokers: Brokers | None = None,
        bouncer: Bouncer | None = None,
        earlier: Path | None = None,
    ) -> None:
        self._fleet, self._chance, self._told = fleet, Random(number), told
        self._over = threading.Event()
        self.recovery = Recovery(BEAT)
        people, losses = fleet.proxy(), Random(number + 2)
        people.lose = lambda: "reply" if losses.random() < 0.1 else ""
        theirs = [name for name in (*LOAD, *SCHEDULES) if name != BEAT]
        self._people = People(people.url, fleet.seen, theirs, Random(number + 1))
        self._observer = Observer(fleet.url, fleet.seen)
        self._receiver = Receiver(Random(number + 3))
        self._brokers, self._bouncer, self._earlier = brokers, bouncer, earlier
        self._faults: list[Callable[[], None]] = [
            self._kill,
            self._kill_with_its_spawner,
            self._kill_at_a_point,
            self._stop_briefly,
            self._stop_beyond_the_lease,
            self._stop_at_a_point,
            self._crash_the_server,
            self._lose_commits,
            self._lose_commits,
            self._black_hole,
            self._forgotten_connections,
            self._cut,
            self._leave,
            *([self._pause_the_brokers] if brokers else []),
            *([self._cut_the_pooler] if bouncer else []),
            *([self._roll_an_upgrade] if earlier else []),
        ]

    def blow(self, seconds: float, calm: float = 0) -> list[str]:
        """Cause faults for this many seconds, each kind in turn; then let everything heal, and
        check it.

        With `calm`, each fault is followed by a wait of at most this long until runs start on time.
        """
        fleet = self._fleet
        self._began = time.monotonic()
        fleet.load()
        fleet.load_flows()
        self._receiver.listen(fleet.world.book, "duebook.runs")
        if self._brokers:
            self._brokers.listen(fleet.world.book, "duebook.runs")
        fleet.node(**RELAYING)
        self._nodes = [self._new_node() for _ in range(NODES)]
        fleet.up()
        self._people.start()
        self._observer.start()
        if calm:
            fleet.wait_more(BEAT, CALM_BEATS)
            self.recovery.learn(fleet.world.evidence("start", BEAT)[-CALM_BEATS:])
        pile: list[Callable[[], None]] = []
        while time.monotonic() < self._began + seconds:
            if not pile:
                pile = self._chance.sample(self._faults, len(self._faults))
            fault = pile.pop()
            kind = fault.__name__.strip("_").replace("_", " ")
            self._tell(kind)
            began = time.time()
            fault()
            self.recovery.note(kind, began)
            fleet.wait_more(BEAT, 1)
            if calm:
                self._wait_for_calm(calm)
        self._tell("the storm is over")
        self._people.end()
        self._resume_all()
        fleet.end_load()
        fleet.drain()
        self._receiver.wait_for_all(fleet.url)
        if self._brokers:
            self._brokers.wait_for_all(fleet.url)
            self._brokers.testify(fleet.seen)
        self._observer.end()
        fleet.end()
        self._receiver.testify(fleet.seen)
        self._receiver.close()
        excesses = [f"limits: {excess}" for excess in self._observer.excesses]
        return [*fleet.verdict(), *excesses]

    def _tell(self, text: str) -> None:
        self._told(f"{time.monotonic() - self._began:6.1f} s  {text}")

    def _wait(self, seconds: float) -> None:
        self._over.wait(seconds)

    def _wait_for_calm(self, longest: float) -> None:
        since = time.time()

        def calm() -> bool:
            self._wait(0.2)  # each check reads all evidence
            return self.recovery.is_calm(self._fleet.world.evidence("start", BEAT), since)

        if not within(longest, calm):
            self._tell(f"  not on time again after {longest:g} s")

    def _resume_all(self) -> None:
        book = self._fleet.world.book
        for name in (*LOAD, *SCHEDULES):
            if book.schedules.get(name).status == "paused":
                book.schedules.resume(name)

    # -- nodes

    def _new_node(self, **options: Any) -> Member:
        """Start a node; now and then with a wrong clock, as a clone, deaf, behind PgBouncer, or
        with a leader."""
        if self._chance.random() < 0.5:
            clock = self._fleet.world.folder / f"clock-{len(self._fleet.members)}"
            set_clock(clock, self._chance.choice((-HOUR, HOUR, 90, -90)))
            options["clock"] = str(clock)
        if self._chance.random() < 0.5:
            options["clone"] = "localhost"
        if self._chance.random() < 0.3:
            options["coordination"] = "leader"
        if self._chance.random() < 0.2:
            options["deaf"] = True
        if self._bouncer and self._chance.random() < 0.4:
            options["way"] = self._bouncer.url(self._fleet.database)
        return self._fleet.node(proxied=True, **RELAYING, **options)

    def _pick(self) -> int:
        place = self._chance.randrange(NODES)
        process = self._nodes[place].process
        assert process.process.poll() is None, f"a node ended by itself: {process.log[-2000:]}"
        return place

    def _replace(self, place: int, **options: Any) -> None:
        self._nodes[place] = self._new_node(**options)

    def _kill(self) -> None:
        place = self._pick()
        self._nodes[place].process.end(signal.SIGKILL)
        self._replace(place)

    def _kill_with_its_spawner(self) -> None:
        """What it had started depends on supervisors alone."""
        place = self._pick()
        process = self._nodes[place].process
        spawner = process.spawner()
        process.end(signal.SIGKILL)
        with suppress(ProcessLookupError):  # it ends by itself when its node has ended
            os.kill(spawner, signal.SIGKILL)
        self._replace(place)

    def _kill_at_a_point(self) -> None:
        """The node may never reach the point."""
        place, point = self._pick(), self._chance.choice(POINTS)
        self._tell(f"  {point}")
        self._nodes[place].process.end(signal.SIGTERM)
        doomed = self._fleet.start(proxied=True, kill_at=point)
        deadline = time.monotonic() + 2 * LEASE
        while doomed.alive and time.monotonic() < deadline:
            self._wait(0.05)
        if doomed.alive:
            doomed.process.end(signal.SIGKILL)
        self._replace(place)

    def _leave(self) -> None:
        place = self._pick()
        self._nodes[place].process.end(signal.SIGTERM)
        self._replace(place)

    def _stop_briefly(self) -> None:
        node = self._nodes[self._pick()]
        self._fleet.stop(node)
        self._wait(self._chance.uniform(0.1, 0.7) * LEASE)
        node.process.send(signal.SIGCONT)

    def _stop_beyond_the_lease(self) -> None:
        node = self._nodes[self._pick()]
        self._fleet.stop(node)
        self._wait(self._chance.uniform(1.1, 2.0) * LEASE)
        node.process.send(signal.SIGCONT)

    def _stop_at_a_point(self) -> None:
        """A node that does not reach the point in time is killed, so that it does not stop there
        later."""
        place, point = self._pick(), self._chance.choice(STOPPABLE)
        self._tell(f"  {point}")
        self._nodes[place].process.end(signal.SIGTERM)
        node = self._fleet.start(proxied=True, stop_at=point)
        self._nodes[place] = node
        try:
            self._fleet.wait_stopped(node, 2 * LEASE)
        except AssertionError:
            node.process.end(signal.SIGKILL)
            self._replace(place)
            return
        self._wait(1.5 * LEASE)
        node.process.send(signal.SIGCONT)

    def _roll_an_upgrade(self) -> None:
        """A node of the earlier release works among the others, and gives way to one of this."""
        place = self._pick()
        self._nodes[place].process.end(signal.SIGTERM)
        earlier = self._fleet.start_up(self._earlier)
        earlier.process.wait_ready()
        self._fleet.wait_more(BEAT, CALM_BEATS)
        code = earlier.process.end(signal.SIGTERM)
        assert code == 0, earlier.process.log[-2000:]
        self._replace(place)

    # -- the server, and the way to it

    def _crash_the_server(self) -> None:
        self._fleet.crash_server()

    def _pause_the_brokers(self) -> None:
        assert self._brokers is not None
        self._brokers.pause()
        self._wait(LEASE)
        self._brokers.resume()

    def _cut_the_pooler(self) -> None:
        """PgBouncer drops all that it has, and lets nobody through for a while."""
        assert self._bouncer is not None
        self._bouncer.command(f"KILL {self._fleet.database}")
        self._wait(self._chance.uniform(0.1, 0.7) * LEASE)
        self._bouncer.command(f"RESUME {self._fleet.database}")

    def _lose_commits(self) -> None:
        proxy = self._nodes[self._pick()].proxy
        assert proxy is not None
        chance = Random(self._chance.random())

        def lose() -> Loss:
            return chance.choice(("", "request", "reply"))

        proxy.lose = lose
        self._wait(LEASE)
        proxy.lose = lambda: ""

    def _black_hole(self) -> None:
        proxy = self._nodes[self._pick()].proxy
        assert proxy is not None
        proxy.silence()
        self._wait(self._chance.uniform(0.3, 1.7) * LEASE)
        if self._chance.random() < 0.5:
            proxy.cut()
        proxy.let_through()

    def _forgotten_connections(self) -> None:
        proxy = self._nodes[self._pick()].proxy
        assert proxy is not None
        proxy.forget()

    def _cut(self) -> None:
        proxy = self._nodes[self._pick()].proxy
        assert proxy is not None
        proxy.cut()

"""One simulated world: true time, the database and its clock, the nodes and the users, and the
scheduler that picks whose turn it is. Everything follows from the script."""

from __future__ import annotations

import gc
import sqlite3
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Final
from unittest.mock import patch
from uuid import UUID

from duebook.backoff import backoff
from duebook.errors import DuebookError
from duebook.model.consumer import Consumer, Report
from duebook.store.sqlite.memory import Memory
from tests.chaos.witness import Delivery as Seen
from tests.chaos.witness import Glimpse, Witness
from tests.sim.books import ended_runs, has_ended, is_active, running_under, waiting_events
from tests.sim.node import LEASE, SimNode
from tests.sim.people import People
from tests.sim.store import TurnStore
from tests.sim.turns import Crash
from tests.support.nodes import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duebook.model.consumer import Delivery
    from duebook.model.event import Event
    from duebook.model.run import Claim
    from tests.sim.script import Fault, Script
    from tests.sim.turns import Actor

__all__ = ["World"]

START: Final = datetime(2026, 2, 28, 23, 59, tzinfo=UTC)
"""A minute before a day that a calendar may close."""
TURN: Final = 0.002
"""The most seconds that a turn takes, unless something is slow."""
SLOW_TURN: Final = 0.3
CALM: Final = 240.0
"""Seconds after the last fault within which everything has ended."""
GLIMPSE_EVERY: Final = 7.0
SECONDS: Final = LEASE.total_seconds()
FOLLOWED: Final = SECONDS * 5 / 3 + 2.0
"""A lease and two looks, plus the time that turns take."""
MOST_TURNS: Final = 400_000
ATTEMPTS: Final = 3
"""After which an event that its receiver rejects is given up."""
REJECTED: Final = 15
"""One of so many published events is never taken."""
HEARD_AFTER: Final = 0.25
"""Seconds within which news of several commits are combined, as by a node that watches the file."""
HINTED: Final = ("ticker", "advancer", "dispatcher", "keeper", "courier")


class World:
    """`run` simulates it; then the witness and the database show what happened."""

    def __init__(self, script: Script, breaks: bool = True) -> None:
        self.script = script
        self.now = 0.0
        self.seen = Witness()
        self.problems: list[str] = []
        self.trace: list[str] = []
        self.counts: Counter[str] = Counter()
        self.rejected: set[str] = set()
        """events that the receiver never takes"""
        self.points: set[str] = set()
        """the points at which nodes crashed"""
        self.lease_ends: dict[str, float] = {}
        self.memory = Memory()
        self.consumer = Consumer("default", "sim", "group", ("sim",), 4, ATTEMPTS)
        self._breaks = breaks
        self._offset = 0.0
        self._latest = START
        self._slow_until = 0.0
        self._skews = [script.skew(number) for number in range(script.nodes)]
        self._current = 0
        self._chance = script.chance("turns")
        self._ids = script.chance("ids")
        self._faults = list(script.faults)
        self._restarts: list[tuple[float, int, int]] = []
        self._skipped = 0.0
        """how much time the database's clock jumped over, whose due times are made up for"""
        self._hindered_until = 0.0
        """the end of the fault that lasts longest"""
        self._orphans: dict[str, float] = {}
        """sessions of dead nodes, and the time by which their runs must have been taken over"""
        self._glimpses_at = GLIMPSE_EVERY
        self._glimpses: dict[Glimpse, None] = {}
        self._seen_until = START - timedelta(days=1)
        self._happens_at = -inf
        """when something other than a turn or the end of work happens next"""
        self._looked_at = -1
        """how much had happened when it was last looked whether all is over"""
        self.nodes: list[SimNode] = []
        self.failing: int | None = None
        """at how many points from now what people do fails"""
        self._sweeps = False
        """whether what is left of a transaction that was cut off has to be collected"""

    # -- clocks and chance

    def database_clock(self) -> datetime:
        return START + timedelta(seconds=self.now + self._offset)

    def _note_time(self) -> datetime:
        """The latest time that the database has shown."""
        self._latest = max(self._latest, self.database_clock())
        return self._latest

    def _wall(self) -> int:
        """Nanoseconds by the wrong clock of the node whose turn it is."""
        skew = self._skews[self._current] if self._current < len(self._skews) else 0.0
        return int((START.timestamp() + self.now + skew) * 1e9)

    def _new_uuid(self, nanoseconds: int) -> UUID:
        number = (nanoseconds // 1_000_000 % (1 << 48)) << 80 | self._ids.getrandbits(80)
        return UUID(int=number & ~(0xF << 76) & ~(3 << 62) | 7 << 76 | 2 << 62)

    @contextmanager
    def _own_time(self) -> Iterator[None]:
        """Take ids and the clocks of nodes from this world."""
        wall = lambda: datetime.fromtimestamp(self._wall() / 1e9, UTC)  # noqa: E731
        with (
            patch("duebook.ids.uuid7", self._new_uuid),
            patch("duebook.ids.time_ns", self._wall),
            patch("duebook.engine.books_clock.utc_now", wall),
        ):
            yield

    # -- what happens

    def run(self) -> None:
        with self._own_time():
            store = TurnStore(self.memory, self.database_clock, self._people_point, self.committed)
            store.transact(lambda tx: tx.consumers.save_consumer(self.consumer, 0))
            self.people = People(self, store)
            self.people.begin()
            self.nodes = [SimNode(self, number, 0) for number in range(self.script.nodes)]
            self._live()
            self.seen.glimpses = list(self._glimpses)
            for node in self.nodes:
                if node.alive:
                    node.die()

    def _live(self) -> None:
        turns = 0
        while not self._is_over():
            turns += 1
            if turns > MOST_TURNS:
                self.problems.append(f"I2: it never came to rest in {MOST_TURNS} turns")
                return
            self._pass_time()
            if ready := self._ready():
                self._turn(*ready[self._chance.randrange(len(ready))])
            else:
                self.now = max(self._next_moment(), self.now)
        self.counts["turns"] += turns

    def _is_over(self) -> bool:
        calm = CALM + self._skipped
        if self.now > self.script.seconds + calm:
            self.problems.append(f"I2: it did not come to rest within {calm:.0f} s of calm")
            return True
        changes = self.memory.connection.total_changes
        if not self.people.is_done or changes + self.counts["deliveries"] == self._looked_at:
            return False
        self._looked_at = changes + self.counts["deliveries"]
        if is_active(self.memory.connection):
            return False
        arrived = {delivery.event for delivery in self.seen.deliveries}
        return not waiting_events(self.memory.connection, "sim", arrived)

    def _pass_time(self) -> None:
        """Do everything that happens by itself until now."""
        self._note_time()
        for node in self.nodes:
            if node.places.next_end <= self.now:
                node.places.pass_time()
            if node.places.has_ended:
                node.ring("settler")
        if self._happens_at <= self.now:
            self._happen()
            self._happens_at = self._next_happening()

    def _happen(self) -> None:
        """Faults, restarts, and looks at what has happened."""
        while self._faults and self._faults[0].at <= self.now:
            self._strike(self._faults.pop(0))
        for restart in [r for r in self._restarts if r[0] <= self.now]:
            self._restarts.remove(restart)
            _, number, life = restart
            self._current = number
            if not any(node.alive for node in self.nodes):
                self._hinder(0.0)
            self.nodes[number] = SimNode(self, number, life)
            self.say_line(f"node-{number}/{life} starts")
        if self.now >= self._glimpses_at:
            self._glimpses_at = self.now + GLIMPSE_EVERY
            found = [Glimpse(*run) for run in ended_runs(self.memory.connection, self._seen_until)]
            self._glimpses |= dict.fromkeys(found)
            self._seen_until = max((g.facts[1] for g in found), default=self._seen_until)
        for session in [s for s, limit in self._orphans.items() if limit < self.now]:
            del self._orphans[session]
            if left := running_under(self.memory.connection, session):
                self.problems.append(f"I8: run {left[0]} of dead session {session} waits too long")

    def _ready(self) -> list[tuple[SimNode | None, Actor]]:
        now = self.now
        ready: list[tuple[SimNode | None, Actor]] = [
            (node, actor)
            for node in self.nodes
            if node.alive and node.stopped_until <= now
            for actor in node.actors.values()
            if actor.next_turn <= now
        ]
        if self.people.actor.next_turn <= now:
            ready.append((None, self.people.actor))
        return ready

    def _next_happening(self) -> float:
        moments = [self._glimpses_at, *(fault.at for fault in self._faults[:1])]
        moments += [at for at, _, _ in self._restarts]
        moments += [limit + 1e-6 for limit in self._orphans.values()]
        return min(moments)

    def _next_moment(self) -> float:
        moments = [self._happens_at, self.people.actor.next_turn]
        for node in self.nodes:
            moments.append(node.places.next_end)
            if node.alive:
                wakes = [actor.next_turn for actor in node.actors.values()]
                moments.append(max(min(wakes), node.stopped_until))
        return min(moments)

    def _turn(self, node: SimNode | None, actor: Actor) -> None:
        slow = SLOW_TURN if self.now < self._slow_until else TURN
        self.now += self._chance.random() * slow
        self._current = self.script.nodes if node is None else node.number
        self.say_line(actor.name)
        try:
            actor.resume()
        except Crash:
            assert node is not None
            self._die(node)
            self._sweeps = True
        except DuebookError as error:
            self.say_line(f"  {type(error).__name__}: {error}")
            self._fail(actor)
            self._sweeps = True
        except Exception as error:
            self.problems.append(f"I2: {actor.name} raised {type(error).__name__}: {error}")
            self._fail(actor)
        else:
            if actor.wait is not None:
                actor.failures = 0
                actor.ring(self.now + actor.wait)
        if self._sweeps:
            self._sweeps = False
            gc.collect()

    def _fail(self, actor: Actor) -> None:
        actor.rest(self.now + backoff(actor.failures + 1, self._chance.random()))

    # -- faults

    def _strike(self, fault: Fault) -> None:
        node = self.nodes[fault.node % len(self.nodes)]
        self.say_line(f"fault {fault}")
        match fault.kind:
            case "crash" | "fail":
                node.countdown[fault.kind] = int(fault.size)
                return  # it is counted when it happens
            case "stop":
                node.stopped_until = self.now + fault.size
            case "deaf":
                node.deaf_until = self.now + fault.size
            case "slow":
                self._slow_until = self.now + fault.size
            case "jump":
                self._skews[node.number] += fault.size
            case "database_jump":
                self._offset += fault.size
                self._skipped += max(fault.size, 0.0)
        self._count(fault.kind, 0.0 if fault.kind == "jump" else abs(fault.size))

    def _count(self, kind: str, seconds: float) -> None:
        self.counts[kind] += 1
        self._hinder(seconds)

    def _hinder(self, seconds: float) -> None:
        """Who would follow the dead may be kept from it until that is over."""
        self._hindered_until = max(self._hindered_until, self.now + seconds)
        until = self._hindered_until + FOLLOWED + SECONDS
        self._orphans = {s: max(limit, until) for s, limit in self._orphans.items()}
        self._happens_at = -inf

    def point(self, node: SimNode, name: str) -> None:
        """Called for a node before and after each statement and COMMIT."""
        if not node.alive:
            raise Crash
        self.counts["points"] += 1
        for kind in ("crash", "fail"):
            if kind in node.countdown:
                node.countdown[kind] -= 1
                if node.countdown[kind] <= 0:
                    del node.countdown[kind]
                    self.say_line(f"  {kind} at {name}")
                    self._count(kind, 0.0)
                    if kind == "crash":
                        self.points.add(name)
                        raise Crash
                    raise _outage()

    def _people_point(self, name: str) -> None:
        if self.failing is not None:
            self.failing -= 1
            if self.failing <= 0:
                self.failing = None
                self._sweeps = True
                self.say_line(f"  people fail at {name}")
                self.counts["fail"] += 1
                raise _outage()

    def _die(self, node: SimNode) -> None:
        self.say_line(f"{node.mark} dies")
        session = None if node.keeper is None else node.session_id
        node.die()
        if session is not None:
            self._orphans[session] = max(self.now, self._hindered_until) + FOLLOWED + SECONDS
        away = round(self._chance.choice((0.5, 3.0, 20.0)) * (0.5 + self._chance.random()), 3)
        self._restarts.append((self.now + away, node.number, int(node.mark.split("/")[1]) + 1))
        self._happens_at = -inf
        self.seen.pids[node.mark] = node.pid

    # -- what is seen

    def say_line(self, text: str) -> None:
        self.trace.append(f"{self.now:.6f} {text}")

    def committed(self) -> None:
        """Send hints to every node that can hear; a lost hint only costs time."""
        self.counts["commits"] += 1
        for node in self.nodes:
            if node.alive and node.deaf_until <= self.now:
                for name in HINTED:
                    node.ring(name, HEARD_AFTER)

    def say(self, word: str, claim: Claim, node: SimNode) -> None:
        """Record evidence of work, outside of the database."""
        run = claim.run
        due = 0.0 if run.due_at is None else run.due_at.timestamp()
        self.seen.pids[node.mark] = node.pid
        line = Evidence(
            *(word, run.schedule or "", run.id, run.attempt, due, node.pid, node.mark, self.now)
        )
        self.seen.evidence.append(line)
        self.counts[f"work {word}"] += 1
        self.counts["steps"] += word == "start" and run.step is not None
        self.say_line(f"  {word} {line.schedule} {run.id} {run.attempt}")
        if word == "start" and run.due_at is not None and run.due_at > self._note_time():
            self.problems.append(f"I7: {run.schedule} began before {run.due_at}")
        parent = run.parent_run_id
        if word == "start" and parent and has_ended(self.memory.connection, parent):
            self.problems.append(f"F8: step {run.step} of {parent} began after its flow had ended")
        if self.now > self.lease_ends.get(node.mark, inf):
            self.problems.append(f"I3: {run.schedule} {run.id} worked beyond the lease of its node")

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        """The receiver of events, which refuses some for a while."""
        report = Report()
        held: set[str] = set()
        for delivery in deliveries:
            event = delivery.event
            if event.key not in held and self._is_rejected(event):
                held.add(event.key)
                self.rejected.add(event.id)
                report.rejected[event.id] = "simulated: it is wrong"
                continue
            if event.key in held or self._chance.random() < 0.05:
                held.add(event.key)
                report.undelivered[event.id] = "simulated: it is busy"
                continue
            self.say_line(f"  event {event.key} {event.position}")
            self.counts["deliveries"] += 1
            self.seen.deliveries.append(Seen("sim", event.id))
        return report

    def _is_rejected(self, event: Event) -> bool:
        number = event.data.get("n") if isinstance(event.data, dict) else None
        return number is not None and round(number * 100) % REJECTED == 0


def _outage() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("simulated: disk I/O error")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR, "SQLITE_IOERR"
    return error

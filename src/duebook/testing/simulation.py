"""Simulates days of scheduling in seconds: nothing waits, and every run is reproducible."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.book import Book
from duebook.closing import Closing
from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.flows.build import build
from duebook.flows.flow_cache import FlowCache
from duebook.model.serving import choose_serving
from duebook.store.sqlite import SqliteStore
from duebook.testing.clock import VirtualClock
from duebook.testing.directory import SimulatedDirectory
from duebook.testing.node import LEASE, SimulatedNode
from duebook.testing.stand_ins import StandIns
from duebook.testing.step_preparer import SimulatedPreparer
from duebook.timetext import parse_duration, parse_instant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from duebook.model.run import Run
    from duebook.store.values import LedgerEntry

__all__ = ["Simulation"]

MOST_STEPS: Final = 100_000
"""Steps at one instant after which the simulation reports an endless loop."""
EVERYTHING: Final = 1_000_000


class Simulation(Closing):
    """A temporary database, simulated nodes and a virtual clock that starts at `start`.

    >>> from duebook import cron
    >>> with Simulation(start="2026-02-07T12:00:00Z") as sim:
    ...     sim.task("etl", takes="90m")
    ...     _ = sim.book.schedules.create("etl", trigger=cron("0 * * * *"), target="etl")
    ...     sim.advance("3h")
    ...     [run.status for run in sim.runs("etl")]
    ['succeeded', 'running']
    """

    def __init__(
        self,
        start: str | datetime = "2026-01-01T00:00:00Z",
        nodes: int = 1,
        slots: int = 1_000,
        namespace: str = "default",
        serve: str | Sequence[str] | None = None,
    ) -> None:
        """The nodes execute runs of the namespaces in `serve` (`"*"` for all); the default is
        `namespace`, the namespace of `book`."""
        if isinstance(nodes, bool) or not isinstance(nodes, int) or not 1 <= nodes <= 100:
            raise Invalid(f"nodes {shorten(nodes)} is not a number from 1 to 100")
        folder = tempfile.mkdtemp(prefix="duebook-simulation-")
        self._clock = VirtualClock(parse_instant(start))
        self._store = SqliteStore(Path(folder) / "duebook.db", self._clock, durable=False)
        self._finalizer = weakref.finalize(self, _end, self._store, folder)
        self._flow_cache = FlowCache()
        self._stand_ins = StandIns(SimulatedPreparer(self._store, self._flow_cache))
        self._slots = slots
        self._turn = 0
        self._watchful_until = self.now
        self._expiry: datetime | None = None
        self._nodes: list[SimulatedNode] = []
        self._folder = folder
        self._directory: SimulatedDirectory | None = None
        self.book = Book(self._store, namespace)
        self._serve = serve
        for _ in range(nodes):
            self.start_node()

    @property
    def now(self) -> datetime:
        return self._clock()

    def task(
        self,
        name: str,
        takes: str | timedelta = "0s",
        fails: int = 0,
        error: str | None = None,
        output: Any = None,
    ) -> None:
        """Register or change a task: each attempt takes as long as `takes`, the next `fails`
        attempts fail, whichever run they belong to, and later attempts return `output`.

        A schedule with a command needs no task: use the schedule's name to control its command, and
        `flow.step` to control a step of a flow. A run of an unknown task waits.
        """
        self._stand_ins.add(name, takes, fails, error, output)
        for node in self._alive:
            node.tell_tasks(self._stand_ins.tasks)

    def flow(self, source: str, name: str = "flow") -> None:
        """Write a flow file; a node reads it immediately, as with `--flows`.

        While the scheduler is down, the file is not read, and due times of its flows wait until
        the scheduler is up again. `name` is used for a flow without a name. Raises Invalid with
        every problem in the file.
        """
        built = build(source, f"{name}.yaml", name)
        if built.problems:
            raise Invalid("; ".join(map(str, built.problems)))
        if self._directory is None:
            path = Path(self._folder) / "simulation"
            self._directory = SimulatedDirectory(path, self._store, self.book.namespace)
        self._directory.write(built.flows[0].name, source)
        self._attend()

    def delete_flow(self, name: str) -> None:
        """Delete the file of a flow; raises NotFound if it does not exist."""
        if self._directory is None or not self._directory.delete(name):
            raise NotFound(f'flow "{shorten(name)}" has no file')
        self._attend()

    def _attend(self) -> None:
        """Let the first node that plans read the flow directory."""
        planning = [node for node in self._alive if node.plans]
        if self._directory is not None and planning:
            self._directory.read(planning[0].scheduler_id)

    # -- time

    def advance(self, length: str | timedelta) -> None:
        """Advance the clock; everything that is due, finishes or fails in that time happens."""
        self.advance_to(self.now + parse_duration(length))

    def advance_to(self, instant: str | datetime) -> None:
        """Like `advance`; raises Invalid if the instant is in the past."""
        target = parse_instant(instant)
        following = self._come_to_rest()
        steps = 0
        while (moment := self._next(following)) is not None and moment <= target:
            steps = steps + 1 if moment <= self.now else 0
            if steps > MOST_STEPS:
                raise _restless(self.now)
            self._clock.move_to(max(moment, self.now))
            if self._keep() or (following is not None and following <= self.now):
                following = self._come_to_rest()
        self._clock.move_to(target)
        self._keep()

    def _next(self, following: datetime | None) -> datetime | None:
        """The time of the next step: `following`, or when a keeper must check for dead nodes."""
        moments = [] if following is None else [following]
        if self.now < self._watchful_until:
            moments += [node.keeps_at for node in self._alive]
        return min(moments, default=None)

    def _keep(self) -> bool:
        """Whether the keepers recovered or ended work of dead nodes.

        While no node has died, leases are renewed only when something happens: renewals in between
        would change nothing.
        """
        if self.now >= self._watchful_until:
            self._renew_all()
        due = [node for node in self._alive if node.keeps_at <= self.now]
        if self._expiry is not None and self._expiry <= self.now and not due:
            due = self._alive[:1]
            due[0].keeper.hurry()
        return any([node.keep() for node in due])  # noqa: C419 - each of them

    def _renew_all(self) -> None:
        nodes = [node for node in self._alive if node.keeps_at <= self.now]
        if nodes:
            self._store.transact(lambda tx: [tx.nodes.renew(n.session_id, LEASE) for n in nodes])
        for node in nodes:
            node.keeper.renew_as_ever()

    def _come_to_rest(self) -> datetime | None:
        """Do everything that is possible at this instant; returns when the next thing happens."""
        for _ in range(MOST_STEPS):
            wake_at = self._tick()
            busy, moments = wake_at is not None and wake_at <= self.now, [wake_at]
            for node in self._alive:
                node.obey()
                did, ready_at = node.work()
                busy = busy or did
                moments += [ready_at, node.places.next_end]
            if not busy:
                self._expiry = self._store.read(lambda tx: tx.attempts.earliest_expiry())
                moments.append(self._expiry if self._alive else None)
                return min((moment for moment in moments if moment is not None), default=None)
        raise _restless(self.now)

    def _tick(self) -> datetime | None:
        """The nodes take turns; when none plans, nothing is due."""
        planning = [node for node in self._alive if node.plans]
        if not planning:
            return None
        self._turn += 1
        return planning[self._turn % len(planning)].tick()

    # -- faults

    @property
    def _alive(self) -> list[SimulatedNode]:
        return [node for node in self._nodes if node.alive]

    def scheduler_down(self) -> None:
        """Stop planning until `scheduler_up`; workers continue with queued runs."""
        for node in self._alive:
            node.scheduler_down()

    def scheduler_up(self) -> None:
        for node in self._alive:
            node.scheduler_up()
        self._attend()

    def kill_node(self, which: int | str) -> None:
        """Kill a node while it works, by its number or name (`run.node`).

        Other nodes take over its runs when its lease expires.
        """
        node = self._node(which)
        if not node.alive:
            raise Conflict(f"{node.name} is already dead")
        node.kill()
        self._attend()
        self._watch()

    def start_node(self, serve: str | Sequence[str] | None = None) -> str:
        """Start another node, optionally for other namespaces; returns its name."""
        name = f"node-{len(self._nodes)}"
        asked = self._serve if serve is None else serve
        namespaces = choose_serving(asked, self.book.namespace, program=True, named=True)
        world = (self._store, self._clock, self._stand_ins, self._slots, self._flow_cache)
        self._nodes.append(SimulatedNode(name, *world, namespaces))
        self._attend()
        self._watch()
        return name

    def _watch(self) -> None:
        """Until dead nodes are cleaned up, keepers check for them as often as in real operation."""
        self._watchful_until = self.now + 3 * LEASE

    def _node(self, which: int | str) -> SimulatedNode:
        for number, node in enumerate(self._nodes):
            if which in (number, node.name):
                return node
        raise NotFound(f'there is no node "{which}"; the nodes are {self._names()}')

    def _names(self) -> str:
        return ", ".join(node.name for node in self._nodes)

    # -- results

    def runs(self, name: str | None = None) -> list[Run]:
        """Runs of a schedule (deleted ones included) or a flow, or all runs, oldest first."""
        try:
            runs = self.book.runs.list(name, limit=EVERYTHING)
        except NotFound:
            if name not in {view.name for view in self.book.flows.list(limit=1_000)}:
                raise
            runs = self.book.runs.list(flow=name, limit=EVERYTHING)
        runs.reverse()
        runs.sort(key=lambda run: run.created_at)
        return runs

    def ledger(self, name: str) -> list[LedgerEntry]:
        """The due times of a schedule that did not run, oldest first."""
        return self.book.schedules.ledger(name, limit=EVERYTHING)[::-1]

    def close(self) -> None:
        self._finalizer()


def _restless(now: datetime) -> RuntimeError:
    return RuntimeError(
        f"{MOST_STEPS} steps at {now} without time passing: something repeats for ever"
    )


def _end(store: SqliteStore, folder: str) -> None:
    store.close()
    shutil.rmtree(folder, ignore_errors=True)

"""A storm in which the clock of the database steps back and forth while nodes are killed and
stopped: nothing is lost or doubled, and the database's own check agrees.

All nodes and users use one clock, which a file shifts: for them it is the database's clock.
"""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from duebook.balance import check_books
from duebook.book import Book
from duebook.store.postgres import PostgresStore
from tests.chaos.checker import check
from tests.chaos.fleet import LEASE, LOAD, Fleet, Member
from tests.support.clock_files import set_clock
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

NODES: Final = 3
BACK: Final = timedelta(minutes=47)
AHEAD: Final = timedelta(seconds=12)
"""Due times that the clock shows too early are decided then; afterwards nothing is due until that
time comes again."""
NAMES: Final = tuple(name for name in LOAD if name not in ("failing", "cancel"))


class DatabaseClock:
    """The machine's clock, shifted by the seconds in a file."""

    def __init__(self, fleet: Fleet) -> None:
        self.file = fleet.world.folder / "database-clock"
        self.shift = timedelta()
        self.set(timedelta())

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.shift

    def set(self, shift: timedelta) -> None:
        set_clock(self.file, shift.total_seconds())
        self.shift = shift


class ClockStorm:
    """One storm; `told` gets a line for each fault."""

    def __init__(self, fleet: Fleet, number: int, told: Callable[[str], None]) -> None:
        self._fleet, self._chance, self._told = fleet, Random(number), told
        self._clock = DatabaseClock(fleet)
        self._store = PostgresStore(fleet.url, self._clock)
        fleet.world.use(Book(self._store))
        self._over = threading.Event()

    def blow(self, seconds: float) -> list[str]:
        """Cause each fault in turn for this many seconds; returns what is wrong then."""
        fleet = self._fleet
        began = time.monotonic()
        fleet.load(NAMES)
        self._nodes = [self._node() for _ in range(NODES)]
        fleet.wait_more("all-1", 2)
        faults = [self._step_back, self._step_ahead, self._step_back_and_kill, self._stop_and_step]
        pile: list[Callable[[], None]] = []
        while pile or time.monotonic() < began + seconds:
            pile = pile or self._chance.sample(faults, len(faults))
            fault = pile.pop()
            self._told(f"{time.monotonic() - began:6.1f} s  {fault.__name__.strip('_')}")
            fault()
            self._told(f"{time.monotonic() - began:6.1f} s    the clock is right again")
            fleet.wait_more("all-1", 2)
        self._wait_for_the_clock()
        fleet.end_load()
        fleet.drain()
        fleet.end()
        return self._verdict()

    def _verdict(self) -> list[str]:
        fleet = self._fleet
        fleet.seen.evidence = fleet.world.evidence()
        # recorded times and times of the evidence are from different clocks: leases, starts and
        # takeovers are not compared
        books = fleet.books()
        endless = [row | {"expires_at": datetime.max.replace(tzinfo=UTC)} for row in books.sessions]
        books = replace(books, sessions=endless)
        wrong = [text for text in check(books, fleet.seen) if not text.startswith(("I7", "I8"))]
        checked = check_books(self._store)
        wrong += [f"db check: {finding}" for finding in checked.findings if finding.problem]
        if not any("clock stepped back" in finding.text for finding in checked.findings):
            wrong.append("db check does not say that the clock stepped back")
        return wrong

    # -- faults

    def _node(self) -> Member:
        return self._fleet.node(database_clock=str(self._clock.file))

    def _wait(self, seconds: float) -> None:
        self._over.wait(seconds)

    def _step_back(self) -> None:
        self._clock.set(-BACK)
        self._wait(self._chance.uniform(1, 2) * LEASE)
        self._clock.set(timedelta())

    def _step_ahead(self) -> None:
        self._clock.set(AHEAD)
        self._wait(self._chance.uniform(0.5, 1) * LEASE)
        self._clock.set(timedelta())
        self._wait_for_the_clock()

    def _step_back_and_kill(self) -> None:
        """Its runs are taken over although its lease seems to last another 47 minutes."""
        place = self._chance.randrange(NODES)
        self._clock.set(-BACK)
        self._nodes[place].process.end(signal.SIGKILL)
        dead = self._nodes[place].process.pid
        eventually(lambda: not self._has_work(dead))
        self._nodes[place] = self._node()
        self._clock.set(timedelta())

    def _stop_and_step(self) -> None:
        node = self._nodes[self._chance.randrange(NODES)]
        self._fleet.stop(node)
        self._clock.set(-BACK)
        self._wait(1.5 * LEASE)
        self._clock.set(timedelta())
        node.process.send(signal.SIGCONT)

    def _has_work(self, pid: int) -> bool:
        books = self._fleet.books()
        mine = {session["id"] for session in books.sessions if session["pid"] == pid}
        return any(run["status"] == "running" and run["session_id"] in mine for run in books.runs)

    def _wait_for_the_clock(self) -> None:
        """Wait until nothing that is decided is in the future."""

        def come() -> bool:
            marks = [s["watermark"] for s in self._fleet.books().schedules if s["watermark"]]
            return all(mark <= self._clock() for mark in marks)

        eventually(come)

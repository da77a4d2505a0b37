"""The server of the nodes crashes, and its synchronous standby is promoted, while nodes are killed:
nothing that was acknowledged is lost, and nothing is doubled."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Final

from tests.chaos.fleet import LEASE, Fleet
from tests.chaos.onlookers import Observer, People
from tests.chaos.recovery import Recovery
from tests.support.postgres import PASSWORD, USER, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NODES: Final = 3
BEAT: Final = "all-1"
NAMES: Final = (BEAT, "all-2", "cron", "queue", "skip", "pair", "narrow", "failing")
CALM_BEATS: Final = 8
DATABASE: Final = "books"


class FailoverStorm:
    """One failover of a working fleet; `told` gets a line for each fault."""

    def __init__(
        self, fleet: Fleet, standby: Server, number: int, told: Callable[[str], None]
    ) -> None:
        self._fleet, self._standby = fleet, standby
        self._chance, self._told = Random(number), told
        self._pause = threading.Event()
        self.recovery = Recovery(BEAT)

    def blow(self) -> list[str]:
        """Returns what is wrong once everything has healed."""
        fleet = self._fleet
        fleet.load(NAMES)
        nodes = [fleet.node() for _ in range(NODES)]
        theirs = [name for name in NAMES if name != BEAT]
        people = People(fleet.url, fleet.seen, theirs, self._chance)
        observer = Observer(fleet.url, fleet.seen)
        people.start()
        observer.start()
        fleet.wait_more(BEAT, CALM_BEATS)
        self.recovery.learn(fleet.world.evidence("start", BEAT)[-CALM_BEATS:])
        began = time.time()
        self._told("the primary crashes, and the standby is promoted")
        with fleet.fault("server"):
            fleet.server.stop(signal.SIGQUIT)
            self._pause.wait(self._chance.uniform(0, LEASE / 2))
            if self._chance.random() < 0.5:
                self._told("  a node is killed meanwhile")
                nodes[0].process.end(signal.SIGKILL)
            self._standby.promote()
        self.recovery.note("failover to the standby", began)
        fleet.node()
        fleet.wait_more(BEAT, CALM_BEATS)
        people.end()
        for name in theirs:
            if fleet.world.book.schedules.get(name).status == "paused":
                fleet.world.book.schedules.resume(name)
        fleet.end_load()
        fleet.drain()
        observer.end()
        fleet.end()
        excesses = [f"limits: {excess}" for excess in observer.excesses]
        return [*fleet.verdict(), *excesses]


@contextmanager
def open_pair(folder: Path) -> Iterator[tuple[Fleet, Server]]:
    """A fleet with a primary, and a standby that the primary waits for."""
    primary = Server(durable=True)
    try:
        primary.execute(f"CREATE DATABASE {DATABASE}")
        standby = Server(durable=True, primary=primary)
        try:
            primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.execute("SELECT pg_reload_conf()")
            hosts = ",".join(f"127.0.0.1:{server.port}" for server in (primary, standby))
            url = f"postgresql://{USER}:{PASSWORD}@{hosts}/{DATABASE}"
            fleet = Fleet(folder, primary, url)
            try:
                yield fleet, standby
            finally:
                fleet.close()
        finally:
            standby.close()
    finally:
        primary.close()

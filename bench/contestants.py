"""Duebook and its peers behind one interface: they get start times, and work in processes."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from bench import peers
from bench.nodes import node
from bench.program import HOLD, NOTES
from duebook.ids import new_id
from duebook.model.definition import load_spec
from duebook.store.postgres import PostgresStore
from duebook.store.values import NewSchedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import Server

    from duebook.store.base import Tx

__all__ = ["DUEBOOK", "Note", "Stage", "Worker", "stage"]

DUEBOOK: Final = "Duebook"
BATCH: Final = 1_000


class Note(NamedTuple):
    """When a job should have started, and when it did; in seconds since 1970."""

    due: float
    started: float

    @property
    def late(self) -> float:
        return self.started - self.due


class Worker(Protocol):
    """A process that works."""

    @property
    def pid(self) -> int: ...

    def kill(self) -> None: ...


class Stage:
    """The database of one contestant, its worker processes, and the notes of its jobs."""

    def __init__(self, name: str, url: str, folder: Path, stack: ExitStack) -> None:
        self.name, self.url = name, url
        self._notes = folder / "notes"
        self._notes.touch()
        self._stack = stack
        self.worker: Worker | None = None
        """the last one started"""

    def add(self, begin: float, rate: float, seconds: float) -> None:
        """Add jobs that should start at `begin`, and after that `rate` times per second."""
        if self.name == DUEBOOK:
            add_schedules(self.url, [begin + n / rate for n in range(round(rate * seconds))])
        else:
            peers.call(self.name, "later", self.url, begin, rate, seconds)

    def start(self, hold: float = 0) -> Worker:
        """Start a worker process; its jobs take `hold` seconds before they write a note."""
        env = {NOTES: str(self._notes), HOLD: str(hold)}
        if self.name == DUEBOOK:
            self.worker = self._stack.enter_context(node(self.url, env=env))
        else:
            work = peers.Worker(self.name, "work", self.url, self._notes, env=env)
            self.worker = self._stack.enter_context(work)
        return self.worker

    def notes(self) -> list[Note]:
        lines = self._notes.read_text().splitlines(keepends=True)
        return [Note(*map(float, line.split())) for line in lines if line.endswith("\n")]

    def wait(self, number: int, until: float) -> list[Note]:
        """Wait until this many jobs have written a note, but at most until the time `until`."""
        while len(found := self.notes()) < number and time.time() < until:
            time.sleep(0.05)
        return found


@contextmanager
def stage(server: Server, name: str) -> Iterator[Stage]:
    with ExitStack() as stack:
        if name == DUEBOOK:
            url = stack.enter_context(server.database())
        else:
            url = stack.enter_context(peers.place(server, name))
        folder = Path(stack.enter_context(TemporaryDirectory()))
        with ExitStack() as workers:
            yield Stage(name, url, folder, workers)


def add_schedules(url: str, times: list[float]) -> None:
    """A schedule for each time, due once."""
    made = []
    for number, at in enumerate(times):
        due = datetime.fromtimestamp(at, UTC)
        form = {"target": {"task": "note_due"}, "trigger": {"at": due.isoformat()}}
        spec = load_spec(form | {"overlap": "allow"}, f"job-{number}")
        made.append(NewSchedule(new_id(), "default", f"job-{number}", spec, due, due))

    def add(tx: Tx, first: int) -> None:
        some = made[first : first + BATCH]
        tx.schedules.create_schedules(some, "bench", datetime.now(UTC))

    with closing(PostgresStore(url)) as store:
        for first in range(0, len(made), BATCH):
            store.transact(partial(add, first=first))

"""Threads beside a fleet: users who change the database and record the responses, and an observer
who reads it again and again and remembers which runs had ended."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from duebook.book import Book
from duebook.errors import DuebookError
from duebook.store.opening import open_store
from tests.chaos.checker import facts_of
from tests.chaos.witness import Answer, Glimpse
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.chaos.witness import Witness

LOOK = "SELECT * FROM duebook.runs WHERE finished_at > now() - interval '3 s'"
COUNTS = """
SELECT 'queue ' || r.queue AS gate, count(*) AS running, q.concurrency AS most
FROM duebook.runs AS r JOIN duebook.queues AS q ON q.name = r.queue
WHERE r.status = 'running' AND q.concurrency IS NOT NULL GROUP BY r.queue, q.concurrency
UNION ALL
SELECT 'schedule ' || schedule_id, count(*),
    CASE WHEN bool_or(exclusive) THEN 1 ELSE max(max_concurrent) END
FROM duebook.runs WHERE status = 'running' AND (exclusive OR max_concurrent IS NOT NULL)
GROUP BY schedule_id
UNION ALL
SELECT 'flow ' || flow, count(*), 2
FROM duebook.runs WHERE status = 'running' AND queue = '@flow' AND flow = 'inner'
GROUP BY flow"""


class Onlooker:
    """A thread that repeats something until it is told to stop; the database may be unreachable."""

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def act(self) -> None:
        raise NotImplementedError

    def _loop(self) -> None:
        while not self._over.wait(self._wait):
            with suppress(DuebookError, psycopg.OperationalError):
                self.act()


class Observer(Onlooker):
    """Records which runs have ended, and whether more are active than the limits allow."""

    def __init__(self, url: str, seen: Witness) -> None:
        super().__init__(wait=0.3)
        self._url, self._seen = url, seen
        self.excesses: list[dict[str, Any]] = []

    def act(self) -> None:
        with psycopg.connect(
            self._url, row_factory=dict_row, options="-c timezone=UTC", connect_timeout=2
        ) as connection:
            for run in connection.execute(LOOK).fetchall():
                glimpse = Glimpse(run["id"], run["attempt"], facts_of(run))
                self._seen.glimpses.append(glimpse)
            counts = connection.execute(COUNTS).fetchall()
            self.excesses += [row for row in counts if row["running"] > row["most"]]


class People(Onlooker):
    """Trigger, cancel, retry, update, pause, resume and create, and record the responses."""

    def __init__(self, url: str, seen: Witness, names: list[str], chance: Random) -> None:
        super().__init__(wait=0.25)
        self._url, self._seen, self._names, self._chance = url, seen, names, chance
        self._book: Book | None = None
        self._made = 0

    @property
    def book(self) -> Book:
        if self._book is None:
            self._book = Book(open_store(self._url))
        return self._book

    def end(self) -> None:
        super().end()
        if self._book is not None:
            self._book.close()

    def act(self) -> None:
        deeds: list[Callable[[str], None]] = [
            self._trigger,
            self._update,
            self._create,
            self._cancel,
            self._retry,
            self._pause,
        ]
        self._chance.choice(deeds)(self._chance.choice(self._names))

    def _told(self, what: str, id_: str, version: int | None = None) -> None:
        self._seen.answers.append(Answer(what, id_, version))

    def _trigger(self, name: str) -> None:
        self._told("triggered", self.book.schedules.trigger(name).id)

    def _update(self, name: str) -> None:
        payload = {"number": self._chance.randrange(1_000_000)}
        made = self.book.schedules.update(name, payload=payload)
        self._told("updated", made.id, made.version)

    def _create(self, _name: str) -> None:
        self._made += 1
        made = self.book.schedules.create(
            f"made-{self._made}", trigger={"cron": "0 0 29 2 *"}, target={"command": ["true"]}
        )
        self._told("created", made.id)

    def _pause(self, name: str) -> None:
        """Pause a schedule, or resume it if it is paused."""
        if self.book.schedules.get(name).status == "paused":
            self.book.schedules.resume(name)
        else:
            self._seen.paused.add(name)
            self.book.schedules.pause(name)

    def _cancel(self, name: str) -> None:
        for run in self.book.runs.list(name, limit=2):
            if run.status in ("queued", "running"):
                self.book.runs.cancel(run.id)
                self._told("cancelled", run.id)

    def _retry(self, name: str) -> None:
        for run in self.book.runs.list(name, limit=20):
            if run.status == "failed" and run.flow is None:
                self._seen.reopened.add(run.id)
                self.book.runs.retry(run.id)
                self._told("retried", run.id, run.attempt)
                return

"""How fast worker processes empty a queue: the real dispatcher, slots, threads and settler."""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import psycopg

from duebook.book import Book
from duebook.engine.alarm import Alarm
from duebook.engine.dispatcher import Dispatcher
from duebook.engine.garbage import collect_seldom
from duebook.engine.performer import TargetPerformer
from duebook.engine.session import new_session
from duebook.engine.slots import Slots
from duebook.errors import Unavailable
from duebook.ids import new_id
from duebook.model.serving import ALL
from duebook.store.opening import open_store
from duebook.store.postgres.connection import SCHEMA
from duebook.targets.spawner import Spawner
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.postgres import Server

    from duebook.store.base import Store

__all__ = [
    "KINDS",
    "LEASE",
    "LEFT",
    "Kind",
    "execute",
    "runs_per_second",
    "worker",
]

COPY = """
INSERT INTO {runs} (id, schedule_id, version, origin, wakes, created_at, ready_at, namespace,
    trigger, queue, priority, task, exclusive, max_takeovers, status)
SELECT new.value, r.schedule_id, r.version, r.origin, r.wakes, r.created_at, r.ready_at,
    r.namespace, r.trigger, r.queue, r.priority, r.task, r.exclusive, r.max_takeovers, r.status
FROM {runs} AS r CROSS JOIN """
LEFT = "SELECT count(*) FROM runs WHERE status <> 'succeeded'"
WORK = 0.001
LEASE = timedelta(days=365)
"""Here no keeper renews it."""
HELD = 0.02
"""Seconds until an idle worker checks again whether others have released runs."""


async def idle_async() -> None:
    pass


def idle_sync() -> None:
    pass


async def wait_async() -> None:
    await asyncio.sleep(WORK)


def wait_sync() -> None:
    time.sleep(WORK)


async def wait_long_async() -> None:
    await asyncio.sleep(10 * WORK)


def wait_long_sync() -> None:
    time.sleep(10 * WORK)


@dataclass(frozen=True)
class Kind:
    """Tasks of one kind, and how many run at once."""

    words: str
    function: Callable[..., Any]
    slots: int
    target: str | dict[str, Any] = "job"
    """what its runs execute: the function, unless it is a command"""


KINDS = (
    Kind("async, no-op", idle_async, 2_000),
    Kind("sync, no-op", idle_sync, 50),
    Kind("async, 1 ms each, 50 slots", wait_async, 50),
    Kind("sync, 1 ms each, 50 slots", wait_sync, 50),
    Kind("async, 10 ms each, 50 slots", wait_long_async, 50),
    Kind("sync, 10 ms each, 50 slots", wait_long_sync, 50),
    Kind("async, 1 ms each, 500 slots", wait_async, 500),
    Kind("async, 10 ms each, 500 slots", wait_long_async, 500),
)


def runs_per_second(
    kind: Kind,
    number: int,
    server: Server | None,
    processes: int = 1,
    spawner: Spawner | None = None,
) -> float:
    """With this many worker processes, on PostgreSQL, or in a SQLite file if there is no server.

    Commands need a `spawner` that has been started.
    """
    with _place(server) as place:
        store = open_store(place)
        book = Book(store, tasks=_tasks(kind))
        definition: dict[str, Any] = {"trigger": {"every": "9d"}, "target": kind.target}
        book.schedules.create("job", overlap="allow", **definition)
        book.schedules.trigger("job")
        store.close()
        _copy_run(place, number - 1)
        if processes == 1:
            seconds = drain(kind, place, spawner=spawner)
        else:
            seconds = drain_together(kind, place, processes)
        left = execute(place, LEFT)
        assert left == [(0,)], left
    return number / seconds


def _tasks(kind: Kind) -> Tasks:
    tasks = Tasks()
    tasks.add(kind.function, "job")
    return tasks


def drain(
    kind: Kind,
    place: str,
    begin: Callable[[], object] = lambda: None,
    spawner: Spawner | None = None,
) -> float:
    """The seconds in which one worker executes all that is ready; `begin` is called first."""
    store = open_store(place)
    with worker(kind, store, spawner) as perform_all:
        begin()
        taken = perform_all()
    store.close()
    return taken


@contextmanager
def worker(
    kind: Kind, store: Store, spawner: Spawner | None = None
) -> Iterator[Callable[[], float]]:
    """A lasting worker; each call executes all that is ready, and returns the seconds until the
    last run ended. It may detect only later, by checking whole queues, that no more wait."""
    tasks = _tasks(kind)
    session = new_session("worker", tasks.names, namespaces=ALL)
    store.transact(lambda tx: tx.nodes.begin_session(session, LEASE))
    alarm = Alarm()
    performer = TargetPerformer(store, spawner or Spawner(), lambda: None, tasks=tasks)
    slots = Slots(store, performer, kind.slots, alarm.ring)
    dispatcher = Dispatcher(store, slots, session.id, ("default",), lambda: tasks.names)

    def step() -> bool:
        """Whether there is more to come; a query that the database aborts is repeated, as in a
        node."""
        try:
            return dispatcher.step() is not None
        except Unavailable:
            return True

    def perform_all() -> float:
        began = ended = time.perf_counter()
        more = step()
        while (working := slots.working()) or more:
            alarm.wait(1 if working else HELD)
            if working:
                ended = time.perf_counter()
            more = step()
        return ended - began

    with _collector_of_a_node():
        yield perform_all
    slots.close()
    performer.close()


def drain_together(kind: Kind, place: str, processes: int) -> float:
    """The seconds in which this many worker processes execute all that is ready, from the moment
    when all of them were ready to start."""
    context = get_context("spawn")
    begin, ends = context.Barrier(processes + 1), context.Queue()
    crew = [
        context.Process(target=_member, args=(kind, place, begin, ends)) for _ in range(processes)
    ]
    for process in crew:
        process.start()
    try:
        begin.wait(60)
        began = time.perf_counter()
        last: float = max(ends.get(timeout=300) for _ in crew)
    finally:
        for process in crew:
            process.join(10)
            process.kill()
    return last - began


def _member(kind: Kind, place: str, begin: Any, ends: Any) -> None:
    drain(kind, place, begin.wait)
    ends.put(time.perf_counter())


@contextmanager
def _collector_of_a_node() -> Iterator[None]:
    """Settings of the garbage collector that a node uses in its own process, and peers do not."""
    former = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*former)
        gc.unfreeze()


@contextmanager
def _place(server: Server | None) -> Iterator[str]:
    if server is not None:
        with server.database() as url:
            yield url
        return
    with TemporaryDirectory(prefix="duebook-bench-", dir=Path.cwd()) as folder:  # on a real disk
        yield f"{folder}/books.db"


def _copy_run(place: str, number: int) -> None:
    """Copy the only run this many times."""
    ids = [new_id() for _ in range(number)]
    if place.startswith("postgresql"):
        copy = COPY.format(runs="active_runs")
        execute(place, f"{copy} unnest(%s::text[]) AS new (value)", ids)
        execute(place, "ANALYZE active_runs")
    else:
        execute(place, f"{COPY.format(runs='runs')} json_each(?) AS new", json.dumps(ids))


def execute(place: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    if not place.startswith("postgresql"):
        with sqlite3.connect(place) as file:
            return file.execute(statement, values).fetchall()
    with psycopg.connect(place, options=f"-c search_path={SCHEMA}") as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []

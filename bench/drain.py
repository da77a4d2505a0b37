"""How fast one worker process empties a queue: the real dispatcher, slots, threads and settler."""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
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
from duebook.ids import new_id
from duebook.model.serving import ALL
from duebook.store.opening import open_store
from duebook.store.postgres.connection import SCHEMA
from duebook.targets.spawner import Spawner
from duebook.targets.task import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.postgres import Server

__all__ = ["KINDS", "Kind", "execute", "runs_per_second", "seconds_to_drain"]

COPY = """
INSERT INTO runs (id, schedule_id, version, origin, wakes, created_at, ready_at, namespace, trigger,
    queue, priority, task, exclusive, max_takeovers, status)
SELECT new.value, r.schedule_id, r.version, r.origin, r.wakes, r.created_at, r.ready_at,
    r.namespace, r.trigger, r.queue, r.priority, r.task, r.exclusive, r.max_takeovers, r.status
FROM runs AS r CROSS JOIN """
LEFT = "SELECT count(*) FROM runs WHERE status <> 'succeeded'"
WORK = 0.001


async def idle_async() -> None:
    pass


def idle_sync() -> None:
    pass


async def wait_async() -> None:
    await asyncio.sleep(WORK)


def wait_sync() -> None:
    time.sleep(WORK)


@dataclass(frozen=True)
class Kind:
    """Tasks of one sort, and how many at once."""

    words: str
    function: Callable[[], Any]
    slots: int


KINDS = (
    Kind("async, no-op", idle_async, 2_000),
    Kind("sync, no-op", idle_sync, 50),
    Kind("async, 1 ms each, 50 slots", wait_async, 50),
    Kind("sync, 1 ms each, 50 slots", wait_sync, 50),
)


def runs_per_second(kind: Kind, number: int, server: Server | None) -> float:
    """On PostgreSQL, or in a SQLite file when there is no server."""
    tasks = Tasks()
    tasks.add(kind.function, "job")
    return number / seconds_to_drain("job", number, kind.slots, Spawner(), server, tasks)


def seconds_to_drain(
    target: str | dict[str, Any],
    number: int,
    slots: int,
    spawner: Spawner,
    server: Server | None,
    tasks: Tasks,
) -> float:
    """From the first claim until the last of so many runs of `target` is settled."""
    with _place(server) as place, _collector_of_a_node():
        store = open_store(place)
        book = Book(store, tasks=tasks)
        definition: dict[str, Any] = {"trigger": {"every": "9d"}, "target": target}
        book.schedules.create("job", overlap="allow", **definition)
        book.schedules.trigger("job")
        _copy_run(place, number - 1)
        session = new_session("worker", tasks.names, namespaces=ALL)
        store.transact(lambda tx: tx.nodes.begin_session(session, timedelta(minutes=5)))
        alarm = Alarm()
        performer = TargetPerformer(store, spawner, lambda: None, tasks=tasks)
        places = Slots(store, performer, slots, alarm.ring)
        dispatcher = Dispatcher(store, places, session.id, ("default",), lambda: tasks.names)
        began = time.perf_counter()
        dispatcher.step()
        while places.working():
            alarm.wait(1)
            dispatcher.step()
        taken = time.perf_counter() - began
        places.close()
        performer.close()
        store.close()
        left = execute(place, LEFT)
        assert left == [(0,)], left
    return taken


@contextmanager
def _collector_of_a_node() -> Iterator[None]:
    """What a node does in its own process, and peers do not."""
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
    with TemporaryDirectory(prefix="duebook-bench-", dir=Path.cwd()) as folder:  # a real disk
        yield f"{folder}/books.db"


def _copy_run(place: str, number: int) -> None:
    """The one run that is there, so many times again."""
    ids = [new_id() for _ in range(number)]
    if place.startswith("postgresql"):
        execute(place, f"{COPY} unnest(%s::text[]) AS new (value)", ids)
        execute(place, "ANALYZE runs")
    else:
        execute(place, f"{COPY} json_each(?) AS new", json.dumps(ids))


def execute(place: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    if not place.startswith("postgresql"):
        with sqlite3.connect(place) as file:
            return file.execute(statement, values).fetchall()
    with psycopg.connect(place, options=f"-c search_path={SCHEMA}") as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []

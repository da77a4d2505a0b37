"""Events per second on PostgreSQL: due times, Kafka, consumers; and how long delivery takes.

    python -m bench.events [--quick]

Due times that write events are compared with due times that create runs. Kafka is librdkafka's mock
cluster in a separate process, over the real protocol.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.kafka import Kafka

from bench.fire import BATCH, EXPRESSION, SPEC, Clock
from bench.goals import Goals, show
from bench.server import durable_server
from duebook.book import Book
from duebook.clock import utc_now
from duebook.delivery.courier import Courier
from duebook.delivery.handling import TransactionCourier
from duebook.engine.garbage import collect_seldom
from duebook.engine.sequencer import Sequencer
from duebook.engine.ticker import Ticker
from duebook.ids import new_id
from duebook.model.consumer import new_consumer
from duebook.model.definition import load_spec
from duebook.model.event import new_draft
from duebook.sinks.kafka import KafkaSink
from duebook.store.postgres import PostgresStore
from duebook.store.values import NewSchedule
from duebook.targets.addresses import read_networks
from duebook.targets.posting import Poster
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from tests.support.postgres import Server

    from duebook.model.consumer import Consumer
    from duebook.store.base import Tx

DUE = 5 * BATCH
ROUNDS = 5
EVENTS = 20_000
KEYS = 1_000
RATE = 100
SECONDS = 10
EVENT = SPEC | {"target": {"event": {"topic": "orders", "data": {"shop": 7}}}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try everything with few events")
    if parser.parse_args().quick:
        globals().update(DUE=BATCH, ROUNDS=2, EVENTS=2_000, SECONDS=3)
    collect_seldom()  # as a node does
    with durable_server() as server:
        found = measure(server)
    runs, events, stamped, kafka, consumed, counted, p50, p99, due_p50, due_p99 = found
    show("due times per second, as runs", [runs])
    show("  as events", [events])
    show("positions stamped per second", [stamped])
    show("delivered per second to a function with its own transaction", [counted])
    show(f"on its way at {RATE} events per second: median, ms", [p50])
    show("from its due time through a node: median, ms", [due_p50])
    goals = Goals()
    goals.at_least("due times as events, of those as runs", 0.6, [events / runs])
    goals.at_least("delivered per second to Kafka", 10_000, [kafka])
    goals.at_least("delivered per second to a function", 10_000, [consumed])
    goals.below(f"on its way at {RATE} events per second: p99, ms", 50, [p99])
    goals.below("from its due time through a node: p99, ms", 50, [due_p99])
    sys.exit(goals.exit_code)


def measure(server: Server) -> tuple[float, ...]:
    fired: dict[str, list[float]] = {"runs": [], "events": []}
    for _ in range(3):  # in turn, because the machine may be busy at times
        for kind, form in (("runs", SPEC), ("events", EVENT)):
            fired[kind].append(due_per_second(server, form))
    runs, events = (statistics.median(fired[kind]) for kind in ("runs", "events"))
    with opened(server) as store:
        stamped = fill(store)
        consumed = delivered(store, "function", lambda consumer: Courier(store, consumer, Idle()))
        counted = delivered(
            store,
            "transaction",
            lambda consumer: TransactionCourier(store, consumer, None, function=ignore),
        )
        with tempfile.TemporaryDirectory() as folder, closing(Kafka(Path(folder))) as cluster:
            sink = KafkaSink(cluster.servers, Poster(read_networks("127.0.0.0/8")))
            kafka = delivered(store, "bus", lambda consumer: Courier(store, consumer, sink))
            sink.close()
    with opened(server) as store:
        way = on_the_way(store)
    return runs, events, stamped, kafka, consumed, counted, *way, *since_due(server)


@contextmanager
def opened(server: Server, clock: Clock | None = None) -> Iterator[PostgresStore]:
    with server.database() as url, closing(PostgresStore(url, clock)) as store:
        yield store


def due_per_second(server: Server, form: dict[str, Any]) -> float:
    clock = Clock()
    with opened(server, clock) as store:
        spec = load_spec(form | {"trigger": {"cron": EXPRESSION}}, "job")

        def add(tx: Tx) -> None:
            due_at = clock.now + timedelta(minutes=1)
            for n in range(DUE):
                tx.schedules.create_schedule(
                    new_id(), "default", f"job-{n}", spec, due_at, due_at, ""
                )

        store.transact(add)
        ticker, speeds = Ticker(store), []
        for _ in range(ROUNDS):
            clock.now += timedelta(minutes=1)
            began, before = time.perf_counter(), ticker.fired
            while ticker.fired - before < DUE:
                ticker.step()
            speeds.append(DUE / (time.perf_counter() - began))
    return statistics.median(speeds)


def fill(store: PostgresStore) -> float:
    """Write the log and assign positions; returns positions per second."""
    for start in range(0, EVENTS, BATCH):
        drafts = [
            new_draft(new_id(), "default", "orders", None, f"key-{n % KEYS}", {"n": n})
            for n in range(start, start + BATCH)
        ]
        store.transact(lambda tx, drafts=drafts: tx.events.append_events(drafts))  # type: ignore[misc]
    sequencer, began = Sequencer(store), time.perf_counter()
    while sequencer.step() is not None:
        pass
    return EVENTS / (time.perf_counter() - began)


class Idle:
    """An outlet that accepts everything."""

    def deliver(self, deliveries: Any) -> Any:  # noqa: ARG002
        from duebook.model.consumer import Report

        return Report()


def ignore(event: Any, connection: Any) -> None: ...


def delivered(store: PostgresStore, name: str, make: Callable[[Consumer], Courier]) -> float:
    wanted = new_consumer("default", name, "group", None, 8, 5)
    courier = make(store.transact(lambda tx: tx.consumers.save_consumer(wanted, 0)))
    began = time.perf_counter()
    while courier.step() == 0:
        pass
    took = time.perf_counter() - began
    courier.close()
    return EVENTS / took


def on_the_way(store: PostgresStore) -> tuple[float, float]:
    """Milliseconds from the publisher's call to the consumer's loop, while a relay runs."""
    book, stop, lengths = Book(store), threading.Event(), []
    sequencer = Sequencer(store)

    def sequence() -> None:
        while not stop.is_set():
            if sequencer.step() is None:
                store.news(0.1)

    def publish() -> None:
        for n in range(RATE * SECONDS):
            stop.wait(1 / RATE)
            book.events.publish("orders", {"sent": time.perf_counter()}, key=f"key-{n % KEYS}")

    threads = [threading.Thread(target=sequence), threading.Thread(target=publish)]
    for thread in threads:
        thread.start()
    for event in book.events.consume("orders", "watch"):
        lengths.append((time.perf_counter() - event.data["sent"]) * 1e3)
        if len(lengths) == RATE * SECONDS:
            break
    stop.set()
    for thread in threads:
        thread.join()
    return statistics.median(lengths), statistics.quantiles(lengths, n=100)[98]


def since_due(server: Server) -> tuple[float, float]:
    """Milliseconds from due times to the consumer's loop: a separate node plans and sequences."""
    lengths: list[float] = []
    with server.database() as url, closing(PostgresStore(url)) as store:
        words = ["--database", url, "up", "--roles", "scheduler,relay", "--quiet"]
        argv = [sys.executable, "-m", "duebook", *words]
        node = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        try:
            add_due_times(store, utc_now() + timedelta(seconds=8))
            for event in Book(store).events.consume("orders", "watch"):
                late = utc_now() - parse_instant(event.meta["due_at"])
                lengths.append(late / timedelta(milliseconds=1))
                if len(lengths) == RATE * SECONDS:
                    break
        finally:
            node.terminate()
            node.wait(30)
    return statistics.median(lengths), statistics.quantiles(lengths, n=100)[98]


def add_due_times(store: PostgresStore, begin: datetime) -> None:
    made = []
    for n in range(RATE * SECONDS):
        at = begin + timedelta(seconds=n / RATE)
        spec = load_spec(EVENT | {"trigger": {"at": at.isoformat()}}, f"job-{n}")
        made.append(NewSchedule(new_id(), "default", f"job-{n}", spec, at, at))
    store.transact(lambda tx: tx.schedules.create_schedules(made, "", utc_now()))
    assert utc_now() < begin


if __name__ == "__main__":
    main()

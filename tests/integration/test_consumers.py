"""Programs that consume events on PostgreSQL are killed at their work: each event counts once."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import Any

import psycopg

from duebook.book import Book
from duebook.engine.sequencer import Sequencer
from duebook.store.postgres import PostgresStore
from tests.support.waiting import eventually

EVENTS = 1_500
KEYS = 20


def consumer(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "tests.integration.consumer_driver", url]
    )


def test_consumers_killed_in_the_middle_of_their_batches_count_each_event_once(
    postgres_url: str,
) -> None:
    def rows(sql: bytes) -> list[tuple[Any, ...]]:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            return connection.execute(sql).fetchall()

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE bills (id serial, key text, n integer)")
    with closing(PostgresStore(postgres_url)) as store:
        book = Book(store)
        workers = [consumer(postgres_url) for _ in range(2)]
        try:
            for round_ in range(5):
                for n in range(round_ * 300, (round_ + 1) * 300):
                    book.events.publish("orders", {"n": n}, key=f"key-{n % KEYS}")
                seen = len(rows(b"SELECT 1 FROM bills"))
                Sequencer(store).step()
                eventually(lambda seen=seen: len(rows(b"SELECT 1 FROM bills")) > seen)  # type: ignore[misc]
                workers[round_ % 2].kill()
                workers[round_ % 2].wait()
                workers[round_ % 2] = consumer(postgres_url)
            eventually(lambda: len(rows(b"SELECT DISTINCT n FROM bills")) == EVENTS)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        assert book.events.dead_letters() == []
    assert len(rows(b"SELECT 1 FROM bills")) == EVENTS, "none counted twice"
    backwards = (
        b"SELECT a.n, b.n FROM bills AS a JOIN bills AS b ON a.key = b.key"
        b" AND a.id < b.id AND a.n > b.n"
    )
    assert rows(backwards) == []

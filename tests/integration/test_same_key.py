"""The same idempotency key many times at once, from threads of several processes."""

from __future__ import annotations

import multiprocessing
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest

from duebook.book import Book
from duebook.book.idempotency import IdempotencyKey, perform_once
from duebook.store.opening import open_store

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier
    from pathlib import Path

    from duebook.store.base import Store

THREADS: Final = 10


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "books.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


def ask(place: str, number: int, ready: Barrier, answers: Any) -> None:
    """One process: each of its threads would make a schedule of its own."""
    with closing(open_store(place)) as store:
        threads = [
            threading.Thread(target=request, args=(store, f"job-{number}-{thread}", ready, answers))
            for thread in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def request(store: Store, name: str, ready: Barrier, answers: Any) -> None:
    def work(joined: Store) -> dict[str, Any]:
        made = Book(joined).schedules.create(name, trigger={"every": "1h"}, target="report")
        return {"id": made.id}

    ready.wait(60)
    try:
        answers.put(perform_once(store, IdempotencyKey("token POST", "order-17", "body"), work))
    except Exception as error:
        answers.put(repr(error))


@pytest.mark.parametrize("number", [2, pytest.param(5, marks=pytest.mark.long)])
def test_the_same_key_many_times_at_once_makes_one_schedule_and_one_answer(
    place: str, number: int
) -> None:
    with closing(open_store(place)) as store:
        context = multiprocessing.get_context("spawn")
        ready, answers = context.Barrier(number * THREADS), context.Queue()
        processes = [
            context.Process(target=ask, args=(place, process, ready, answers), daemon=True)
            for process in range(number)
        ]
        for process in processes:
            process.start()
        got = [answers.get(timeout=60) for _ in range(number * THREADS)]
        for process in processes:
            process.join(20)
        (made,) = Book(store).schedules.list()
        assert sorted(map(str, got)) == sorted(
            [
                str(({"id": made.id}, False)),
                *[str(({"id": made.id}, True))] * (number * THREADS - 1),
            ]
        )

"""Ten processes compete for the same work: one gets it, and no limit is exceeded."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.store.postgres import PostgresStore
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBER = 10
AHEAD = 2.0
"""Seconds from an order to its moment: time for the order to arrive."""
HOUR = timedelta(hours=1)
ROOT = Path(__file__).parents[2]
NEVER = {"cron": "0 0 29 2 *"}
TRUE = {"command": ["true"]}


class Claimers:
    """Ten processes, started once."""

    def __init__(self) -> None:
        self._sessions = count()
        argv = [sys.executable, "-m", "tests.chaos.claimer"]
        pipe = subprocess.PIPE
        self._processes = [
            subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)  # noqa: S603
            for _ in range(NUMBER)
        ]

    def go(
        self, url: str, do: str, number: int = NUMBER, **order: Any
    ) -> list[list[dict[str, Any]]]:
        """What each process got."""
        at = time.time() + AHEAD
        chosen = self._processes[:number]
        for process in chosen:
            words = {"do": do, "url": url, "session": f"claimer-{next(self._sessions)}", "at": at}
            assert process.stdin is not None
            process.stdin.write(json.dumps(words | order) + "\n")
            process.stdin.flush()
        return [json.loads(self._answer(process)) for process in chosen]

    @staticmethod
    def _answer(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the process has ended"
        return line

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            process.wait(PATIENCE)
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture(scope="module")
def claimers() -> Iterator[Claimers]:
    with closing(Claimers()) as begun:
        yield begun


def add(book: Book, name: str, runs: int, **policies: Any) -> None:
    """A schedule with this many runs to claim."""
    book.schedules.create(name, trigger=NEVER, target=TRUE, **policies)
    for _ in range(runs):
        book.schedules.trigger(name)


def add_due(url: str, *names: str) -> None:
    """Schedules that were created an hour ago, and have become due."""
    made_at = datetime.now(UTC) - HOUR
    with Book(PostgresStore(url, lambda: made_at)) as book:
        for name in names:
            book.schedules.create(name, trigger={"at": made_at + HOUR}, target=TRUE)


def flat(got: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [claim for claims in got for claim in claims]


def most_at_once(claims: list[dict[str, Any]]) -> int:
    """The most claims that were certainly active at the same time."""
    changes = sorted([(c["began"], 1) for c in claims] + [(c["ended"], -1) for c in claims])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


# -- one due time, one run


@pytest.mark.parametrize("number", [pytest.param(5, marks=pytest.mark.long), 10])
def test_of_many_that_plan_one_due_schedule_exactly_one_fires(
    claimers: Claimers, book: Book, postgres_url: str, number: int
) -> None:
    add_due(postgres_url, "job")
    got = flat(claimers.go(postgres_url, "tick", number=number))
    assert sorted(answer["fired"] for answer in got) == [0] * (number - 1) + [1]
    (run,) = book.runs.list("job")
    assert run.due_at is not None


def test_many_due_schedules_fire_once_each_whoever_plans_them(
    claimers: Claimers, book: Book, postgres_url: str
) -> None:
    add_due(postgres_url, *(f"job-{n}" for n in range(50)))
    got = flat(claimers.go(postgres_url, "tick"))
    assert sum(answer["fired"] for answer in got) == 50
    keys = {(run.schedule, run.due_at) for run in book.runs.list(limit=1000)}
    assert len(keys) == len(book.runs.list(limit=1000)) == 50


def test_of_ten_that_claim_one_run_exactly_one_succeeds(
    claimers: Claimers, book: Book, postgres_url: str
) -> None:
    add(book, "job", 1)
    got = claimers.go(postgres_url, "claim", queue="default", hold=0)
    assert sorted(len(claims) for claims in got) == [0] * 9 + [1]
    (run,) = book.runs.list("job")
    assert (run.status, run.attempt) == ("succeeded", 1)


# -- limits


def test_ten_claimers_never_exceed_the_concurrency_of_a_queue(
    claimers: Claimers, book: Book, postgres_url: str
) -> None:
    book.queues.limit("narrow", concurrency=3)
    add(book, "job", 60, queue="narrow", overlap="allow")
    got = flat(claimers.go(postgres_url, "claim", queue="narrow", hold=0.05, limit=2))
    assert 1 < most_at_once(got) <= 3
    assert len({claim["run"] for claim in got}) == len(got) == 60


def test_ten_claimers_never_exceed_the_rate_of_a_queue(
    claimers: Claimers, book: Book, postgres_url: str
) -> None:
    add(book, "job", 80, queue="rare", overlap="allow")
    book.queues.limit("rare", rate="5/s")
    got = flat(claimers.go(postgres_url, "claim", seconds=3, queue="rare", hold=0, limit=3))
    for first in got:  # in any window, of the claims certainly requested and started within it
        for last in got:
            within = [
                c for c in got if first["asked"] <= c["asked"] and c["began"] <= last["began"]
            ]
            assert len(within) <= 5 or last["began"] - first["asked"] >= 1
    began = sorted(run.started_at for run in book.runs.list("job", limit=100) if run.started_at)
    assert len(began) >= 5
    for first_at, sixth_at in zip(began, began[5:], strict=False):
        assert sixth_at - first_at >= timedelta(seconds=1), "by the database's clock, exactly"


def test_ten_claimers_never_exceed_the_limit_of_a_schedule(
    claimers: Claimers, book: Book, postgres_url: str
) -> None:
    add(book, "four", 60, overlap="allow", max_concurrent=4)
    add(book, "free", 20, overlap="allow")
    got = flat(claimers.go(postgres_url, "claim", queue="default", hold=0.05, limit=3))
    assert 1 < most_at_once([claim for claim in got if claim["schedule"] == "four"]) <= 4
    assert len({claim["run"] for claim in got}) == len(got) == 80


def test_ten_claimers_never_begin_two_runs_that_exclude_each_other(
    claimers: Claimers, book: Book, postgres_url: str
) -> None:
    policies = ("skip", "queue", "latest", "cancel")
    for overlap in policies:
        add(book, overlap, 10, overlap=overlap)
    got = flat(claimers.go(postgres_url, "claim", queue="default", hold=0.02, limit=2))
    for overlap in policies:
        assert most_at_once([c for c in got if c["schedule"] == overlap]) == 1
    assert len({claim["run"] for claim in got}) == len(got) == 40


@pytest.mark.parametrize("runs", [60, pytest.param(200, marks=pytest.mark.long)])
def test_all_that_is_queued_is_claimed_once(
    claimers: Claimers, book: Book, postgres_url: str, runs: int
) -> None:
    add(book, "job", runs, overlap="allow")
    got = flat(claimers.go(postgres_url, "claim", queue="default", hold=0, limit=5))
    assert len(got) == runs
    assert {claim["attempt"] for claim in got} == {1}

    def statuses() -> set[str]:
        return {run.status for run in book.runs.list("job", 1000)}

    eventually(lambda: statuses() == {"succeeded"}, told=statuses)

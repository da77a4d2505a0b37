"""The ends of logs that people follow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from duebook.api.log_tails import LogTail, LogTails
from duebook.book import Book
from duebook.clock import utc_now
from duebook.model.run import LogLine
from duebook.store.sqlite import SqliteStore
from duebook.store.values import START, Page

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.model.run import Run


class Printing:
    """A run that prints; counts how often it is looked at."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.lines: list[tuple[Page, LogLine]] = []
        self.looks = 0
        self.now = 0.0

    def print(self, number: int) -> None:
        first = len(self.lines)
        self.lines += [
            (Page(1, n), LogLine(utc_now(), "stdout", str(n))) for n in range(first, first + number)
        ]

    def look(self, place: Page, limit: int) -> tuple[Run, list[tuple[Page, LogLine]]]:
        self.looks += 1
        later = [(p, t) for p, t in self.lines if (p.attempt, p.seq) > (place.attempt, place.seq)]
        return self.run, later[:limit]

    def tail(self) -> LogTail:
        return LogTail(self.look, lambda: self.now)


@pytest.fixture
def printing(tmp_path: Path) -> Printing:
    with Book(SqliteStore(tmp_path / "books.db")) as book:
        book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
        return Printing(book.schedules.trigger("job")._replace(status="running"))


async def read(tail: LogTail, place: Page = START) -> tuple[Page, int]:
    """All there is after a place: the last place, and how many lines."""
    number = 0
    while lines := (await tail.after(place))[1]:
        place, number = lines[-1][0], number + len(lines)
    return place, number


def test_many_readers_cost_as_many_looks_as_one(printing: Printing) -> None:
    async def follow() -> None:
        tail, places = printing.tail(), [START] * 100
        for _ in range(5):
            printing.print(3)
            printing.now += 1
            found = await asyncio.gather(*(tail.after(place) for place in places))
            assert {len(lines) for _, lines in found} == {3}
            places = [lines[-1][0] for _, lines in found]
        assert printing.looks == 5

    asyncio.run(follow())


def test_who_comes_later_or_is_behind_gets_every_line(printing: Printing) -> None:
    async def follow() -> None:
        tail = printing.tail()
        printing.print(3_000)
        middle = Page(1, 2_999)
        assert await read(tail, middle) == (middle, 0)
        assert await read(tail) == (middle, 3_000)
        printing.print(6_000)
        printing.now += 1
        assert await read(tail, middle) == (Page(1, 8_999), 6_000)
        assert await read(tail, Page(1, 3_500)) == (Page(1, 8_999), 5_499)

    asyncio.run(follow())


def test_a_run_that_has_ended_is_said_to_only_with_its_last_lines(printing: Printing) -> None:
    async def follow() -> None:
        tail = printing.tail()
        await tail.after(START)
        printing.print(2_500)
        printing.now += 1
        printing.run = printing.run._replace(status="succeeded")
        assert await read(tail) == (Page(1, 2_499), 2_500)
        run, lines = await tail.after(Page(1, 2_499))
        assert (run.status, lines) == ("succeeded", [])

    asyncio.run(follow())


def test_tails_are_forgotten_with_their_last_reader(printing: Printing) -> None:
    known = LogTails()
    with known.of("a", printing.look) as first:
        with known.of("a", printing.look) as second, known.of("b", printing.look) as other:
            assert second is first
            assert other is not first
        with known.of("a", printing.look) as third:
            assert third is first
    with known.of("a", printing.look) as fresh:
        assert fresh is not first

"""Simulations of stored schedules: with their past, their pauses and their exceptions."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from tests.support.builders import add_run, add_schedule, begin, claim, settle

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.builders import VirtualClock


@pytest.fixture
def book(store: Store) -> Book:
    return Book(store)


def test_runs_take_as_long_as_the_percentile_of_their_past(
    store: Store, clock: VirtualClock, book: Book
) -> None:
    schedule = add_schedule(store, "job")
    add_schedule(store, "other")
    for seconds in (1, 2, 30):
        begin(store, f"node-{seconds}")
        add_run(store, schedule)
        (claimed,) = claim(store, f"node-{seconds}")
        clock.advance(timedelta(seconds=seconds))
        settle(store, claimed.token)
    for percentile, seconds in ((50, 2), (95, 30)):
        report = book.simulate(days=1, percentile=percentile)
        found = {one.name: one for one in report.outlooks}
        assert found["job"].takes == timedelta(seconds=seconds)
        assert (found["job"].takes_from, found["other"].takes_from) == ("past", "assumed")
        assert report.assumed == ("other",)


def test_pauses_skips_and_limits_of_queues_count(clock: VirtualClock, book: Book) -> None:
    for name in ("paused", "resumes", "skips"):
        book.schedules.create(name, trigger={"every": "1h"}, target={"command": ["true"]})
    book.schedules.pause("paused")
    book.schedules.pause("resumes", until=clock.now + timedelta(hours=12, minutes=30))
    book.schedules.skip_next("skips")
    book.queues.limit("default", concurrency=1)
    report = book.simulate(days=1, start=clock.now, takes={"*": "10m"})
    found = {one.name: one for one in report.outlooks}
    assert [found[name].runs for name in ("paused", "resumes", "skips")] == [0, 12, 22]
    assert found["skips"].skips == {"skipped_by_user": 1}
    assert found["skips"].waiting == 1  # due at the very end, behind another
    assert report.peak == 1
    assert report.late_most == timedelta(minutes=10)
    assert book.schedules.get("skips").version == 1
    assert not book.runs.list()


def test_a_due_time_that_a_user_moved_is_no_skip_of_a_gate(clock: VirtualClock, book: Book) -> None:
    book.schedules.create("job", trigger={"every": "1h"}, target={"command": ["true"]})
    book.schedules.reschedule("job", clock.now + timedelta(hours=3, minutes=30))
    report = book.simulate(days=1, start=clock.now)
    assert (report.skips, report.runs) == ({"moved": 1}, 24)
    assert report.breaches(max_skips=0) == []
    book.schedules.create(
        "slow", trigger={"every": "1h"}, target={"command": ["true"]}, overlap="latest"
    )
    report = book.simulate(days=1, start=clock.now, takes={"slow": "150m"})
    assert (report.skips["moved"], report.skips["superseded"] > 5) == (1, True)
    assert len(report.breaches(max_skips=0)) == 2

"""How fast history is deleted: in batches that stay brief, with pauses between them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from duebook.engine.retention import BRIEF, EVERY, FEWEST, MOST, REST, Retention
from duebook.errors import Unavailable
from duebook.settings import RETENTION
from duebook.store.values import Purged

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


class History:
    """Stands for a store with some old runs, each of which takes a while to delete."""

    def __init__(self, runs: int, seconds_each: float) -> None:
        self.runs = runs
        self.seconds_each = seconds_each
        self.clock = 100.0
        self.asked: list[tuple[datetime, int, datetime | None]] = []
        self.broken = False
        self.retention = Retention(cast("Store", self), monotonic=lambda: self.clock)

    def transact(self, work: Callable[[Any], Any]) -> Any:
        if self.broken:
            raise Unavailable("gone")
        return work(SimpleNamespace(upkeep=self, now=NOW))

    def purge(self, before: datetime, limit: int, after: datetime | None) -> Purged:
        self.asked.append((before, limit, after))
        number = min(self.runs, limit)
        self.runs -= number
        self.clock += number * self.seconds_each
        return Purged(number, NOW - timedelta(seconds=self.runs) if number == limit else None)

    @property
    def limits(self) -> list[int]:
        return [limit for _, limit, _ in self.asked]


def test_nothing_that_is_younger_than_the_retention_is_deleted() -> None:
    history = History(0, 0)
    assert history.retention.step() == EVERY
    assert history.asked == [(NOW - RETENTION, FEWEST, None)]


def test_batches_that_are_quick_grow_until_they_are_large_enough() -> None:
    history = History(1_000_000, seconds_each=0)
    for _ in range(9):
        assert history.retention.step() == 0
    assert history.limits[:3] == [FEWEST, 2 * FEWEST, 4 * FEWEST]
    assert history.limits[-1] == MOST


def test_batches_that_take_long_get_smaller_again_but_not_too_small() -> None:
    history = History(1_000_000, seconds_each=0)
    for _ in range(9):
        history.retention.step()
    history.seconds_each = BRIEF
    for _ in range(9):
        history.retention.step()
    assert history.limits[9:12] == [MOST, MOST // 2, MOST // 4]
    assert history.limits[-1] == FEWEST


def test_most_of_the_time_is_left_to_others() -> None:
    history = History(1_000, seconds_each=0.001)
    began = history.clock
    pause = history.retention.step()
    assert pause == pytest.approx(REST * (history.clock - began))
    assert REST >= 4


def test_a_batch_begins_where_the_last_one_ended_and_the_next_round_at_the_beginning() -> None:
    history = History(FEWEST + 10, seconds_each=0)
    history.retention.step()
    assert history.retention.step() == EVERY
    history.retention.step()
    assert [after for *_, after in history.asked] == [None, NOW - timedelta(seconds=10), None]


def test_a_batch_that_failed_is_tried_again_from_where_it_began() -> None:
    history = History(10 * FEWEST, seconds_each=0)
    history.retention.step()
    history.broken = True
    with pytest.raises(Unavailable):
        history.retention.step()
    history.broken = False
    history.retention.step()
    assert history.limits == [FEWEST, 2 * FEWEST]
    assert history.asked[-1][-1] is not None

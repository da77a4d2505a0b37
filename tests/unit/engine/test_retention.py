"""How fast history is deleted: in batches that stay brief, with pauses between them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from duebook.engine.retention import ANEW, BRIEF, EVERY, FEWEST, MOST, REST, Retention
from duebook.errors import Unavailable
from duebook.model.history import Keeps, NamespaceKeep, SweptKeep
from duebook.settings import RETENTION
from duebook.store.values import Place, Swept

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
DEFAULT = SweptKeep(RETENTION, (), among=False)


class Books:
    """Stands for a store with some old runs, each of which takes a while to delete."""

    def __init__(self, runs: int, seconds_each: float) -> None:
        self.runs = runs
        self.seconds_each = seconds_each
        self.clock = 100.0
        self.asked: list[tuple[SweptKeep, int, Place | None]] = []
        self.purged: list[tuple[datetime, int, datetime]] = []
        self.pages: list[str] = []
        self.known = Keeps()
        self.broken = False
        self.retention = Retention(cast("Store", self), monotonic=lambda: self.clock)

    def transact(self, work: Callable[[Any], Any]) -> Any:
        if self.broken:
            raise Unavailable("gone")
        return work(SimpleNamespace(history=self, upkeep=self, now=NOW))

    def keeps(self) -> Keeps:
        return self.known

    def sweep(self, swept: SweptKeep, limit: int, after: Place | None) -> Swept:
        self.asked.append((swept, limit, after))
        number = min(self.runs, limit)
        self.runs -= number
        self.clock += number * self.seconds_each
        return Swept(number, number, Place(NOW, self.runs) if number else after)

    def sweep_schedules(self, after: str, limit: int) -> tuple[Swept, str | None]:
        assert limit > 0
        self.pages.append(after)
        return Swept(0, 0, None), None

    def purge(self, before: datetime, limit: int, long_ago: datetime) -> int:
        self.purged.append((before, limit, long_ago))
        return 0

    @property
    def limits(self) -> list[int]:
        return [limit for _, limit, _ in self.asked]


def test_nothing_that_is_younger_than_its_keep_is_deleted() -> None:
    books = Books(0, 0)
    assert books.retention.step() == EVERY
    assert books.asked == [(DEFAULT, FEWEST, None)]
    assert books.purged == [(NOW - RETENTION, FEWEST, NOW - RETENTION)]


def test_batches_that_are_quick_grow_until_they_are_large_enough() -> None:
    books = Books(1_000_000, seconds_each=0)
    for _ in range(9):
        assert books.retention.step() == 0
    assert books.limits[:3] == [FEWEST, 2 * FEWEST, 4 * FEWEST]
    assert books.limits[-1] == MOST


def test_batches_that_take_long_get_smaller_again_but_not_too_small() -> None:
    books = Books(1_000_000, seconds_each=0)
    for _ in range(9):
        books.retention.step()
    books.seconds_each = BRIEF
    for _ in range(9):
        books.retention.step()
    assert books.limits[9:12] == [MOST, MOST // 2, MOST // 4]
    assert books.limits[-1] == FEWEST


def test_most_of_the_time_is_left_to_others() -> None:
    books = Books(1_000, seconds_each=0.001)
    began = books.clock
    pause = books.retention.step()
    assert pause == pytest.approx(REST * (books.clock - began))
    assert REST >= 4


def test_a_sweep_goes_on_where_the_last_one_ended_and_begins_anew_once_a_day() -> None:
    books = Books(FEWEST + 10, seconds_each=0)
    books.retention.step()
    assert books.retention.step() == EVERY
    books.retention.step()
    assert [after for *_, after in books.asked] == [None, Place(NOW, 10), Place(NOW, 0)]
    books.clock += ANEW
    books.retention.step()
    assert books.asked[-1][-1] is None


def test_a_batch_that_failed_is_tried_again_from_where_it_began() -> None:
    books = Books(10 * FEWEST, seconds_each=0)
    books.retention.step()
    books.broken = True
    with pytest.raises(Unavailable):
        books.retention.step()
    books.broken = False
    books.retention.step()
    assert books.limits == [FEWEST, 2 * FEWEST]
    assert books.asked[-1][-1] is not None


def test_namespaces_that_keep_equally_long_are_swept_together() -> None:
    books = Books(0, 0)
    month, week = timedelta(days=30), timedelta(days=7)
    books.known = Keeps(
        {
            "*": NamespaceKeep(timedelta(days=365)),
            "a": NamespaceKeep(month),
            "b": NamespaceKeep(week),
            "c": NamespaceKeep(month),
            "d": NamespaceKeep(None, NOW),
        }
    )
    books.retention.step()
    assert [swept for swept, *_ in books.asked] == [
        SweptKeep(timedelta(days=365), ("a", "b", "c"), among=False),
        SweptKeep(week, ("b",), among=True),
        SweptKeep(month, ("a", "c"), among=True),
    ]
    year_ago = NOW - timedelta(days=365)
    assert books.purged == [(year_ago, FEWEST, year_ago)]


def test_what_is_small_is_kept_for_the_default_however_short_runs_are_kept() -> None:
    books = Books(0, 0)
    books.known = Keeps({"*": NamespaceKeep(timedelta(days=1))})
    books.retention.step()
    assert books.purged == [(NOW - timedelta(days=1), FEWEST, NOW - RETENTION)]


def test_a_keep_that_changes_amid_a_round_is_swept_in_the_next() -> None:
    books = Books(10 * FEWEST, seconds_each=0)
    books.retention.step()
    books.known = Keeps({"a": NamespaceKeep(timedelta(days=1))})
    assert books.retention.step() == EVERY
    assert len(books.asked) == 1
    books.retention.step()
    assert [swept.namespaces for swept, *_ in books.asked[1:]] == [("a",)]

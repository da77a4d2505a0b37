"""Where a worker goes on in each queue: behind what it has claimed, and at times from the front."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from duebook.engine.work_cursor import (
    LONGEST_COMMIT,
    LONGEST_LOOK_BACK,
    LOOK_BACK_PART,
    MOST_PLACES,
    MOST_PRIORITIES,
    WorkCursor,
)
from duebook.store.values import WHOLE_QUEUE, Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.store.values import QueuePart, QueueParts

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
PLACE = ("default", "shop")
WHOLE = {PLACE: WHOLE_QUEUE}


def claim(priority: int, ready_at: datetime) -> Any:
    return SimpleNamespace(run=SimpleNamespace(priority=priority, ready_at=ready_at))


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def is_in(parts: Sequence[QueuePart], priority: int, ready_at: datetime) -> bool:
    """As the statements compare: the rank and the instant from the start on, then the rank."""
    rank = -priority
    return any((rank, ready_at) >= (p.rank, p.since) and rank <= p.last for p in parts)


class Looks:
    """Stands for the database: how long each look takes, and in which parts it looked."""

    def __init__(
        self, seconds: float = 0.0, places: tuple[tuple[str, str], ...] = (PLACE,)
    ) -> None:
        self.cursor = WorkCursor()
        self.at = 100.0
        self.seconds = seconds
        self.places = places
        self.first: tuple[int, datetime] | None = None
        """rank and readiness of the first run of each place, where the database tells them"""
        self.parts: list[QueueParts] = []

    def look(self) -> Work:
        return self.cursor.look(self._look, lambda: self.at)

    def _look(self, parts: QueueParts) -> Work:
        self.at += self.seconds
        self.parts.append(parts)
        firsts = {} if self.first is None else dict.fromkeys(self.places, self.first)
        return Work(tuple(self.places), None, NOW, firsts)


def test_a_queue_of_which_nothing_was_claimed_is_looked_at_whole() -> None:
    looks = Looks(seconds=1)
    looks.look()
    assert looks.cursor.parts(PLACE) == WHOLE_QUEUE
    looks.cursor.claimed(PLACE, [], NOW)
    looks.look()
    assert looks.parts == [{}, {}]


def test_the_next_claim_goes_on_behind_the_last_one_of_each_priority() -> None:
    cursor = WorkCursor()
    cursor.claimed(PLACE, [claim(5, ago(90)), claim(5, ago(80)), claim(0, ago(70))], NOW)
    parts = cursor.parts(PLACE)
    assert not is_in(parts, 5, ago(85))
    assert is_in(parts, 5, ago(80))
    assert not is_in(parts, 0, ago(71))
    assert is_in(parts, 0, ago(70))


def test_other_priorities_and_places_are_looked_at_whole() -> None:
    cursor = WorkCursor()
    cursor.claimed(PLACE, [claim(5, ago(80)), claim(0, ago(70))], NOW)
    for priority in (9, 3, -1):
        assert is_in(cursor.parts(PLACE), priority, ago(1_000_000))
    assert cursor.parts(("default", "billing")) == WHOLE_QUEUE


def test_a_run_that_is_committed_a_little_later_than_it_is_ready_is_not_left_behind() -> None:
    cursor = WorkCursor()
    cursor.claimed(PLACE, [claim(0, NOW)], NOW)
    assert is_in(cursor.parts(PLACE), 0, NOW - LONGEST_COMMIT)


def test_whole_queues_are_looked_at_again_after_some_times_what_that_took() -> None:
    looks = Looks(seconds=0.05)
    looks.look()
    looks.cursor.claimed(PLACE, [claim(0, ago(60))], NOW)
    looks.at += LOOK_BACK_PART * 0.05 - 0.01
    looks.look()
    assert looks.parts[-1] == {PLACE: looks.cursor.parts(PLACE)}
    assert not is_in(looks.cursor.parts(PLACE), 0, ago(61))
    looks.at += 0.02
    looks.look()
    assert looks.parts[-1] == WHOLE
    assert looks.cursor.parts(PLACE) == WHOLE_QUEUE


def test_a_look_that_takes_no_time_is_always_at_whole_queues() -> None:
    looks = Looks(seconds=0)
    for _ in range(3):
        looks.look()
        looks.cursor.claimed(PLACE, [claim(0, ago(60))], NOW)
    assert looks.parts == [{}, WHOLE, WHOLE]


def test_what_whole_queues_cost_is_what_they_take_longer_than_parts_at_the_best_of_times() -> None:
    looks = Looks(seconds=0.05)
    looks.look()
    looks.cursor.claimed(PLACE, [claim(0, ago(60))], NOW)
    looks.look()  # parts take as long, because of others
    looks.at += LOOK_BACK_PART * 0.05
    for _ in range(3):
        looks.look()
        looks.cursor.claimed(PLACE, [claim(0, ago(60))], NOW)
    assert looks.parts[2:] == [WHOLE, WHOLE, WHOLE]


def test_however_long_a_look_takes_whole_queues_are_looked_at_again_in_the_end() -> None:
    looks = Looks(seconds=100)
    looks.look()
    looks.cursor.claimed(PLACE, [claim(0, ago(60))], NOW)
    looks.at += LONGEST_LOOK_BACK
    looks.look()
    assert looks.parts[-1] == WHOLE


def test_who_finds_nothing_in_parts_of_queues_looks_again_at_whole_ones() -> None:
    looks = Looks(seconds=0.125, places=())
    looks.look()
    looks.cursor.claimed(PLACE, [claim(0, ago(60))], NOW)
    looks.seconds = 0
    looks.at += 4
    assert looks.look().next_at == NOW + timedelta(seconds=LOOK_BACK_PART * 0.125 - 4)
    looks.at += LOOK_BACK_PART * 0.125 - 4
    assert looks.look().next_at is None
    assert looks.parts[-1] == WHOLE


def test_while_no_run_may_begin_the_next_looks_go_on_behind_the_marks() -> None:
    looks = Looks(seconds=0.05, places=())
    looks.cursor.claimed(PLACE, [claim(0, ago(60))], NOW)
    looks.look()
    looks.look()
    assert looks.parts == [WHOLE, {PLACE: looks.cursor.parts(PLACE)}]
    assert looks.cursor.parts(PLACE) != WHOLE_QUEUE


def test_the_next_claim_goes_back_only_if_the_first_run_is_behind_its_mark() -> None:
    looks = Looks(seconds=0.05)
    looks.look()
    for first, goes_back in (((0, ago(59)), False), ((0, ago(61)), True), ((-5, ago(99)), False)):
        looks.cursor.claimed(PLACE, [claim(0, ago(60))], NOW)
        looks.at += LOOK_BACK_PART * 0.05
        looks.first = first
        looks.look()
        assert looks.parts[-1] == WHOLE
        assert (looks.cursor.parts(PLACE) == WHOLE_QUEUE) is goes_back


def test_a_run_behind_a_mark_is_reached_in_the_end_though_others_always_come_first() -> None:
    looks = Looks(seconds=0.05)
    looks.look()
    looks.first = (-5, ago(1))
    began = looks.at
    while looks.at < began + LONGEST_LOOK_BACK:
        looks.cursor.claimed(PLACE, [claim(5, ago(2)), claim(0, ago(60))], NOW)
        looks.at += LOOK_BACK_PART * 0.05
        looks.look()
    assert looks.cursor.parts(PLACE) == WHOLE_QUEUE


def test_the_marks_of_very_many_places_are_forgotten() -> None:
    looks = Looks(places=())
    looks.look()
    for number in range(MOST_PLACES + 1):
        looks.cursor.claimed(("default", f"shop-{number}"), [claim(0, ago(60))], NOW)
    looks.at += LONGEST_LOOK_BACK
    looks.look()
    looks.look()
    assert len(looks.parts[-2]) == MOST_PLACES + 1
    assert looks.parts[-1] == {}


def test_the_marks_of_very_many_priorities_are_forgotten() -> None:
    cursor = WorkCursor()
    cursor.claimed(PLACE, [claim(-n, ago(60)) for n in range(MOST_PRIORITIES)], NOW)
    assert len(cursor.parts(PLACE)) == MOST_PRIORITIES + 1
    cursor.claimed(PLACE, [claim(7, ago(60))], NOW)
    assert cursor.parts(PLACE) == WHOLE_QUEUE


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(10, 99)), max_size=20), st.data())
def test_the_parts_are_in_the_order_of_the_queue_and_leave_out_only_what_is_behind_a_mark(
    claimed: list[tuple[int, int]], data: st.DataObject
) -> None:
    cursor = WorkCursor()
    runs = sorted((-priority, -seconds) for priority, seconds in claimed)
    cursor.claimed(PLACE, [claim(-rank, ago(-seconds)) for rank, seconds in runs], NOW)
    parts = cursor.parts(PLACE)
    assert list(parts) == sorted(parts)
    assert all(one.last < two.rank for one, two in pairwise(parts))
    priority, seconds = data.draw(st.integers(-6, 6)), data.draw(st.integers(0, 100))
    behind = [s for p, s in claimed if p == priority]
    assert is_in(parts, priority, ago(seconds)) == (not behind or seconds <= min(behind))

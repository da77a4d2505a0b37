"""How many runs a node may claim ahead, by how quickly its places end them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duebook.engine.pace import FORGET_AFTER, MOST, WORTH, Pace


def work(pace: Pace, number: int, seconds: float, at_once: int = 1, start: float = 0.0) -> float:
    """So many runs one after another, each of that length; returns when the last has ended."""
    now = start
    for _ in range(number):
        for _ in range(at_once):
            pace.began(now)
        now += seconds
        for _ in range(at_once):
            pace.ended(now)
    return now


def test_before_anything_has_ended_nothing_is_claimed_ahead() -> None:
    pace = Pace()
    assert pace.ahead(0.0) == 0
    pace.began(0.0)
    assert pace.ahead(1.0) == 0


@given(st.integers(1, 50), st.floats(0.0001, 0.04), st.integers(1, 20))
def test_as_many_as_the_places_end_in_a_moment(number: int, seconds: float, at_once: int) -> None:
    pace = Pace()
    now = work(pace, number, seconds, at_once)
    expected = min(at_once / seconds * WORTH, MOST)
    assert abs(pace.ahead(now) - expected) <= 1.001  # it counts whole ones


def test_nothing_is_claimed_ahead_of_long_runs_though_they_end_together() -> None:
    pace = Pace()
    now = work(pace, 1, 10.0, at_once=50)
    assert pace.ahead(now) == 0


def test_rest_between_two_bursts_says_nothing_about_speed() -> None:
    pace = Pace()
    now = work(pace, 10, 0.001)
    now = work(pace, 10, 0.001, start=now + 0.5 * FORGET_AFTER)
    assert abs(pace.ahead(now) - WORTH / 0.001) <= 1


def test_after_a_long_rest_other_work_may_come() -> None:
    pace = Pace()
    now = work(pace, 10, 0.001) + 2 * FORGET_AFTER
    pace.began(now)
    assert pace.ahead(now) == 0


def test_a_node_that_gets_stuck_claims_less_and_less_ahead() -> None:
    pace = Pace()
    now = work(pace, 1_000, 0.001)
    before = pace.ahead(now)
    pace.began(now)
    seen = [pace.ahead(now + 0.1 * n) for n in range(30)]
    assert seen == sorted(seen, reverse=True)
    assert before >= 49
    assert seen[-1] == 0

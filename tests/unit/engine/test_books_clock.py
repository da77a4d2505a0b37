"""The time on the books, reckoned from what transactions heard."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from duebook.engine.books_clock import PERIOD, BooksClock

BEGIN = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Monotonic:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def seconds(amount: float) -> timedelta:
    return timedelta(seconds=amount)


def test_nothing_is_known_before_anything_was_heard() -> None:
    assert BooksClock().now is None


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 0.5)), min_size=1))
def test_it_is_never_behind_and_off_by_no_more_than_the_quickest_answer(
    questions: list[tuple[float, float]],
) -> None:
    """Each is asked some seconds after the last, and takes some until the books look at theirs."""
    monotonic = Monotonic()
    clock = BooksClock(monotonic)
    answers: list[tuple[float, float]] = []
    for pause, delay in questions:
        monotonic.now += pause
        asked_at = monotonic.now
        monotonic.now += delay
        clock.heard(BEGIN + seconds(monotonic.now), asked_at)
        answers.append((asked_at, delay))
    assert clock.now is not None
    ahead = (clock.now - (BEGIN + seconds(monotonic.now))).total_seconds()
    latest = answers[-1][0]
    quickest = min(delay for asked_at, delay in answers if asked_at > latest - PERIOD)
    assert -1e-5 <= ahead <= quickest + 1e-5


def test_a_clock_that_was_set_forward_is_believed_at_once_and_one_set_back_too() -> None:
    monotonic = Monotonic()
    clock = BooksClock(monotonic)
    for moment in (BEGIN, BEGIN + seconds(3_600), BEGIN - seconds(3_600)):
        clock.heard(moment, monotonic.now)
        assert clock.now == moment

"""Limits of queues: texts of rates, and what begins within any window of their period."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.errors import Invalid
from duebook.model.queue import EXACT, Begun, Queue, QueueLimiter, Rate, read_rate

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "count", "seconds"),
    [("10/s", 10, 1), ("100/m", 100, 60), ("5 / 10s", 5, 10), ("5/90s", 5, 90)],
)
def test_a_rate_is_a_number_in_a_period(text: str, count: int, seconds: int) -> None:
    rate = read_rate("rate", text)
    assert rate == Rate(count, timedelta(seconds=seconds))
    assert read_rate("rate", str(rate)) == rate


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("often", "rate often is not a rate such as 10/s"),
        ("0/s", "the number must be between 1 and"),
        ("5/0s", "the period must be between 1s and 1d"),
        ("5/2d", "the period must be between 1s and 1d"),
        ("5/x", "rate:"),
        (7, "rate 7 is not a rate"),
        ("-1/s", "is not a rate"),
        ("٥/s", "is not a rate"),
    ],
)
def test_a_rate_that_is_none_is_refused_with_what_would_be_right(value: object, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read_rate("rate", value)


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (Rate(0, timedelta(seconds=1)), "the number must be between 1 and"),
        (Rate(5, timedelta(seconds=1.5)), "in whole seconds"),
        (Rate(5, timedelta(days=2)), "the period must be between 1s and 1d"),
    ],
)
def test_a_rate_that_a_program_built_is_checked_too(rate: Rate, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read_rate("rate", rate)


# -- what begins within any window of the period

PERIOD = timedelta(seconds=10)
MICRO = timedelta(microseconds=1)
waits = st.one_of(
    st.sampled_from([timedelta(), MICRO, PERIOD / 100, PERIOD / 2, PERIOD - MICRO, PERIOD]),
    st.integers(0, 12_000_000).map(lambda micros: timedelta(microseconds=micros)),
)
asks = st.lists(st.tuples(waits, st.integers(0, 400)), max_size=40)


def limiter(count: int, *begun: Begun) -> QueueLimiter:
    return QueueLimiter(Queue("q", rate=Rate(count, PERIOD)), begun)


def most_within(begun: list[tuple[datetime, int]], length: timedelta) -> int:
    """In any window: one that begins with a beginning has the most."""
    return max(
        sum(number for at, number in begun if since <= at < since + length) for since, _ in begun
    )


def ask(
    limiter: QueueLimiter, asks: list[tuple[timedelta, int]]
) -> tuple[QueueLimiter, list[tuple[datetime, int]]]:
    """One after the other, each after its wait and for as many as it wants."""
    now, begun = NOW, []
    for wait, wanted in asks:
        now += wait
        number = min(wanted, limiter.room(now, 0))
        begun.append((limiter.instant(now), number))
        limiter = limiter.passed(now, number)
    return limiter, begun


@given(st.integers(1, EXACT), asks)
def test_in_no_window_more_begin_than_the_rate_allows_and_never_fewer_than_could(
    count: int, asks: list[tuple[timedelta, int]]
) -> None:
    now, passed, begun = NOW, limiter(count), list[tuple[datetime, int]]()
    for wait, wanted in asks:
        now += wait
        fits = count - sum(number for at, number in begun if at > now - PERIOD)
        assert passed.room(now, 0) == fits
        number = min(wanted, fits)
        begun.append((now, number))
        passed = passed.passed(now, number)
    assert not begun or most_within(begun, PERIOD) <= count


@given(st.integers(EXACT + 1, 1_000), asks)
def test_a_large_rate_is_kept_in_steps_and_rounded_against_who_asks(
    count: int, asks: list[tuple[timedelta, int]]
) -> None:
    passed, begun = ask(limiter(count), asks)
    if begun:
        assert most_within(begun, PERIOD) <= count
        end = begun[-1][0] + PERIOD
        kept = sum(number for at, number in begun if at > end - PERIOD - PERIOD / EXACT)
        assert passed.room(end, 0) >= count - kept, "at most one step later than could be"


@given(st.integers(1, 1_000_000), asks)
def test_a_gate_keeps_few_entries_whatever_its_rate(
    count: int, asks: list[tuple[timedelta, int]]
) -> None:
    many = [(wait / 50, wanted) for wait, wanted in asks for _ in range(10)]
    passed, _ = ask(limiter(count), many)
    assert len(passed.begun) <= 2 * EXACT + 2


@given(st.integers(1, 1_000), asks, waits)
def test_a_gate_says_when_the_next_one_may_pass(
    count: int, asks: list[tuple[timedelta, int]], wait: timedelta
) -> None:
    passed, begun = ask(limiter(count), asks)
    now = (begun[-1][0] if begun else NOW) + wait
    opens_at = passed.opens_at(now)
    if opens_at is None:
        assert passed.room(now, 0) > 0
    else:
        assert passed.room(opens_at - MICRO, 0) == 0
        assert passed.room(opens_at, 0) > 0


def test_one_period_later_is_another_window() -> None:
    passed = limiter(2).passed(NOW, 2)
    assert passed.opens_at(NOW) == NOW + PERIOD
    assert passed.room(NOW + PERIOD - MICRO, 0) == 0
    assert passed.room(NOW + PERIOD, 0) == 2


@given(asks, st.integers(1, 10_000_000))
def test_a_clock_that_is_set_back_by_less_than_the_period_breaks_no_window(
    asks: list[tuple[timedelta, int]], micros: int
) -> None:
    passed, begun = ask(limiter(5), asks)
    if not begun:
        return
    now = begun[-1][0] - timedelta(microseconds=micros)
    assert not passed.is_ahead(now)
    for wait in (timedelta(), PERIOD / 3, PERIOD / 3, PERIOD / 3, PERIOD):
        now += wait
        number = passed.room(now, 0)
        begun.append((passed.instant(now), number))
        passed = passed.passed(now, number)
    assert most_within(begun, PERIOD) <= 5
    assert passed.room(now + PERIOD, 0) == 5


def test_a_clock_that_is_set_back_far_shuts_the_queue_for_one_period_only() -> None:
    passed = limiter(2).passed(NOW, 2)
    now = NOW - timedelta(hours=3)
    assert passed.is_ahead(now)
    passed = passed.set_back(now)
    assert (passed.room(now, 0), passed.opens_at(now)) == (0, now + PERIOD)
    assert passed.room(now + PERIOD, 0) == 2


def test_what_began_counts_under_another_rate_and_period() -> None:
    passed = limiter(3).passed(NOW, 3)
    now = NOW + timedelta(seconds=15)
    assert passed.room(now, 0) == 3
    longer = QueueLimiter(
        Queue("q", rate=Rate(5, timedelta(seconds=30))), passed.passed(now, 1).begun
    )
    assert longer.room(now, 0) == 1
    assert longer.opens_at(now) is None
    assert (
        QueueLimiter(Queue("q", rate=Rate(2, timedelta(seconds=30))), longer.begun).room(now, 0)
        == 0
    )


def test_a_queue_without_a_rate_goes_by_its_concurrency_alone() -> None:
    held = QueueLimiter(Queue("q", concurrency=3), (Begun(NOW, 7),))
    early = NOW - timedelta(hours=1)
    assert (held.room(early, 1), held.opens_at(early), held.instant(early)) == (2, None, early)
    assert held.passed(NOW, 2) is held
    assert not held.is_ahead(early)

"""Limits of queues: texts of rates, and the bucket of tokens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.errors import Invalid
from duebook.model.queue import Gate, Queue, Rate, read_rate

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "count", "seconds"),
    [("10/s", 10, 1), ("100/m", 100, 60), ("5 / 10s", 5, 10), ("5/90s", 5, 90)],
)
def test_a_rate_is_a_number_in_a_while(text: str, count: int, seconds: int) -> None:
    rate = read_rate("rate", text)
    assert rate == Rate(count, timedelta(seconds=seconds))
    assert read_rate("rate", str(rate)) == rate


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("often", "rate often is no rate such as 10/s"),
        ("0/s", "the number is not 1 to"),
        ("5/0s", "the while is not 1s to 1d"),
        ("5/2d", "the while is not 1s to 1d"),
        ("5/x", "rate:"),
        (7, "rate 7 is no rate"),
        ("-1/s", "is no rate"),
        ("٥/s", "is no rate"),
    ],
)
def test_a_rate_that_is_none_is_refused_with_what_would_be_right(value: object, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        read_rate("rate", value)


def test_a_clock_that_ran_back_changes_no_tokens() -> None:
    gate = Gate(Queue("q", rate=Rate(10, timedelta(seconds=1))), 4.0, NOW)
    assert gate.tokens_at(NOW - timedelta(hours=1)) == 4.0


@given(
    st.integers(1, 50),
    st.integers(1, 100),
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 30)), max_size=60),
)
def test_in_no_stretch_more_begin_than_the_rate_allows(
    count: int, seconds: int, asks: list[tuple[int, int]]
) -> None:
    """Whoever asks when: at most a full bucket and what flows in meanwhile."""
    rate = Rate(count, timedelta(seconds=seconds))
    gate, now = Gate(Queue("q", rate=rate), float(count), NOW), NOW
    begun: list[tuple[datetime, int]] = []
    for milliseconds, wanted in asks:
        now += timedelta(milliseconds=milliseconds)
        given_now = min(wanted, gate.room(now, 0))
        gate = Gate(gate.queue, gate.tokens_at(now) - given_now, now)
        begun.append((now, given_now))
    for start, (since, _) in enumerate(begun):
        total = 0
        for at, number in begun[start:]:
            total += number
            assert total <= count + (at - since).total_seconds() * rate.per_second + 1e-3


@given(st.integers(1, 1000), st.integers(1, 86_400), st.floats(0, 0.99))
def test_a_gate_says_when_the_next_one_may_pass(count: int, seconds: int, tokens: float) -> None:
    gate = Gate(Queue("q", rate=Rate(count, timedelta(seconds=seconds))), tokens, NOW)
    opens_at = gate.opens_at(NOW)
    assert opens_at is not None
    assert gate.room(NOW, 0) == 0
    assert gate.room(opens_at + timedelta(milliseconds=1), 0) >= 1
    assert gate.opens_at(opens_at + timedelta(milliseconds=1)) is None

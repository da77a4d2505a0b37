"""Retries: how long to wait after which failure, and which failures are worth it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.errors import Invalid
from duebook.model.retry import Retry, load_retry
from duebook.model.run import Outcome
from duebook.randomness import fraction

FAILED = Outcome("failed", "exit", "ValueError: no such file", 3)
SECOND = timedelta(seconds=1)


def delays(retry: Retry, outcome: Outcome = FAILED) -> list[float]:
    """The waits after the first, second, … failure, up to the last try."""
    found = []
    for failures in range(1, 20):
        delay = retry.delay_after(outcome, failures, "run")
        if delay is None:
            break
        found.append(delay.total_seconds())
    return found


def test_attempts_count_the_first_try() -> None:
    assert delays(Retry(attempts=1)) == []
    assert len(delays(Retry(attempts=4))) == 3


def test_the_delay_doubles_up_to_its_limit() -> None:
    retry = Retry(attempts=7, delay=10 * SECOND, max_delay=100 * SECOND, jitter=False)
    assert delays(retry) == [10, 20, 40, 80, 100, 100]


def test_a_backoff_of_one_is_a_fixed_delay() -> None:
    assert delays(Retry(attempts=4, delay=5 * SECOND, backoff=1, jitter=False)) == [5, 5, 5]


def test_a_delay_beyond_the_limit_is_cut_from_the_first_failure_on() -> None:
    retry = Retry(attempts=3, delay=50 * SECOND, max_delay=20 * SECOND, jitter=False)
    assert delays(retry) == [20, 20]


def test_a_delay_of_zero_stays_zero() -> None:
    assert delays(Retry(attempts=3, delay=timedelta())) == [0, 0]


def test_the_largest_backoff_does_not_overflow() -> None:
    retry = Retry(1_000, timedelta(days=30), 100.0, timedelta(days=30), jitter=False)
    assert retry.delay_after(FAILED, 999, "run") == timedelta(days=30)


@given(st.integers(1, 8), st.text(max_size=20))
def test_jitter_shortens_by_up_to_a_half_and_is_the_same_for_the_same_run(
    failures: int, seed: str
) -> None:
    plain = Retry(attempts=10, jitter=False).delay_after(FAILED, failures, seed)
    shaken = Retry(attempts=10).delay_after(FAILED, failures, seed)
    assert plain is not None
    assert shaken is not None
    assert plain / 2 <= shaken <= plain
    assert shaken == Retry(attempts=10).delay_after(FAILED, failures, seed)


@given(st.lists(st.text(max_size=10), min_size=1, max_size=4))
def test_a_fraction_is_from_zero_up_to_one_and_repeatable(seed: list[str]) -> None:
    assert 0 <= fraction(*seed) < 1
    assert fraction(*seed) == fraction(*seed)


def test_runs_that_failed_together_do_not_return_together() -> None:
    found = {Retry().delay_after(FAILED, 1, f"run-{number}") for number in range(100)}
    assert len(found) == 100


@pytest.mark.parametrize("status", ["succeeded", "cancelled"])
def test_only_failures_are_tried_again(status: Any) -> None:
    assert Retry().delay_after(Outcome(status), 1, "run") is None


@pytest.mark.parametrize(
    ("on", "outcome", "worth"),
    [
        ((), FAILED, True),
        ((3,), FAILED, True),
        ((4, 75), FAILED, False),
        (("exit",), FAILED, True),
        (("timeout",), FAILED, False),
        (("timeout",), Outcome("failed", "timeout", "too long"), True),
        (("ValueError",), FAILED, True),
        (("OSError", 3), FAILED, True),
        (("Value",), FAILED, False),
        ((0,), Outcome("failed", None, None, None), False),
        (("x",), Outcome("failed"), False),
        ((503,), Outcome("failed", "http_status", "answered 503", 503), True),
        ((503,), Outcome("failed", "http_status", "answered 404", 404), False),
        ((), Outcome("failed", "template", "http url: it has no value"), False),
        (("refused",), Outcome("failed", "refused", "it is loopback"), False),
    ],
)
def test_on_names_exit_codes_reasons_and_errors(on: Any, outcome: Outcome, worth: bool) -> None:
    assert bool(delays(Retry(on=on), outcome)) == worth


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"attempts": 0}, "attempts"),
        ({"attempts": 1_001}, "attempts"),
        ({"attempts": True}, "attempts"),
        ({"attempts": 2.5}, "attempts"),
        ({"delay": "soon"}, "delay"),
        ({"delay": "31d"}, "30 days"),
        ({"max_delay": "5w"}, "30 days"),
        ({"backoff": 0.5}, "backoff"),
        ({"backoff": 101}, "backoff"),
        ({"backoff": "2"}, "backoff"),
        ({"backoff": float("nan")}, "backoff"),
        ({"jitter": 1}, "jitter"),
        ({"on": [None]}, "retry on"),
        ({"on": [""]}, "retry on"),
        ({"on": [True]}, "retry on"),
        ({"often": 3}, "often"),
        ("often", "object"),
        (True, "object"),
        ([3], "object"),
    ],
)
def test_a_wrong_retry_names_its_part(form: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        load_retry(form)


def test_a_number_is_a_number_of_attempts() -> None:
    assert load_retry(5) == Retry(attempts=5)
    assert load_retry(Retry(attempts=5)) == Retry(attempts=5)


retries = st.builds(
    Retry,
    attempts=st.integers(1, 1_000),
    delay=st.integers(0, 2_592_000).map(lambda seconds: timedelta(seconds=seconds)),
    backoff=st.one_of(st.integers(1, 100), st.floats(1, 100)),
    max_delay=st.integers(0, 2_592_000).map(lambda seconds: timedelta(seconds=seconds)),
    jitter=st.booleans(),
    on=st.lists(st.one_of(st.integers(0, 255), st.text(min_size=1, max_size=9))).map(tuple),
)


@given(retries)
def test_the_json_form_comes_back(retry: Retry) -> None:
    assert load_retry(retry.to_json()) == retry


@given(retries, st.integers(1, 1_000))
def test_no_delay_is_longer_than_the_limit_or_negative(retry: Retry, failures: int) -> None:
    delay = retry.delay_after(Outcome("failed"), failures, "run")
    assert delay is None or timedelta() <= delay <= retry.max_delay

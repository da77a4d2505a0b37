"""Whether the database's clock stepped back, by what was heard and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duebook.engine.clock_watch import ClockWatch

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("said", "asked_at", "heard_at", "steps"),
    [
        (10, 10.0, 10.1, False),
        (10, 10.0, 17.0, False),
        (10, 2.0, 17.0, False),
        (3_000, 10.0, 10.1, False),
        (-1, 10.0, 10.1, True),
        (-2_820, 10.0, 10.1, True),
        (9.5, 10.0, 10.1, False),
        (5, 10.0, 10.1, False),
        (5, 60.0, 60.1, True),
        (-5, -6.0, 1.0, False),
    ],
    ids=[
        "it goes on",
        "a slow answer",
        "asked before the other was heard",
        "it jumps ahead",
        "it goes back a little",
        "it goes back by 47 minutes",
        "it goes a little too slow",
        "it stands still for a while",
        "it went back while nobody heard it",
        "a transaction that began earlier is heard later",
    ],
)
def test_only_what_is_certain_is_a_step(
    said: float, asked_at: float, heard_at: float, steps: bool
) -> None:
    watch = ClockWatch()
    watch.heard(NOON, 0.0, 0.1)
    watch.heard(NOON + seconds(said), asked_at, heard_at)
    assert bool(watch.take()) is steps
    assert watch.take() == []


def test_a_step_tells_what_it_lies_between() -> None:
    watch = ClockWatch()
    watch.heard(NOON, 0.0, 0.0)
    watch.heard(NOON - timedelta(minutes=47), 10.0, 10.0)
    (step,) = watch.take()
    assert step.before == NOON + seconds(10)
    assert step.earliest == step.noticed - seconds(10)

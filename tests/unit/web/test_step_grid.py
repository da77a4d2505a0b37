"""The steps of a flow by its last runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from duebook.model.step_history import StepMark
from duebook.web.step_grid import StepRow

START = datetime(2026, 1, 5, tzinfo=UTC)


def row(*seconds: int) -> StepRow:
    marks = [
        StepMark(str(n), "load", str(n), "succeeded", None, START, START + timedelta(seconds=took))
        for n, took in enumerate(seconds)
    ]
    return StepRow("load", [*marks, None])


def test_a_step_is_slower_when_its_latest_time_stands_out() -> None:
    assert row(60, 60, 62, 120).slower
    assert not row(60, 120, 60, 62).slower
    assert not row(1, 1, 1, 3).slower, "two seconds are not worth a word"
    assert not row().slower


def test_the_latest_is_the_last_that_ended() -> None:
    latest = row(60, 120).latest
    assert latest is not None
    assert latest.took == timedelta(seconds=120)

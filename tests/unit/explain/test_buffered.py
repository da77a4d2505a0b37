"""What is said of runs that a node has claimed and not begun."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from duebook.explain.runs import explain_run
from duebook.explain.words import Clock
from duebook.model.run import Run

NOW: Final = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
CLOCK: Final = Clock("UTC", NOW)
BUFFERED: Final = Run(
    *("r1", "default", None, None, None, None, "enqueue", "enqueue", "default", 0),
    *("running", 1, 0, 0, None, NOW, NOW, NOW),
    node="host",
)


def test_a_buffered_run_is_about_to_begin() -> None:
    told = explain_run(BUFFERED, CLOCK, NOW)
    assert told.verdict == "running"
    assert "claimed by host, about to start" in told.text


def test_a_run_that_was_cancelled_in_the_buffer_did_not_wait_for_another_attempt() -> None:
    ended = BUFFERED._replace(status="cancelled", finished_at=NOW + timedelta(seconds=1))
    assert "before it started" in explain_run(ended, CLOCK, NOW).text
    waited = ended._replace(claimed_at=None)
    assert "while waiting for attempt 2" in explain_run(waited, CLOCK, NOW).text

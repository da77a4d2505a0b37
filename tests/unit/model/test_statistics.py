"""The figures of runs: success, percentiles of duration and lateness, days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from duebook.model.codec import decode, encode
from duebook.model.insight import RunMark
from duebook.model.statistics import Statistics, by_day, figures, measure

BEGIN = datetime(2026, 1, 5, 0, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def mark(number: int, status: str = "succeeded", late: int = 0) -> RunMark:
    due = BEGIN + number * HOUR
    began = due + late * SECOND
    ended = began + (number + 1) * SECOND
    return RunMark(str(number), status, "schedule", 1, 1, due, due, began, ended)  # type: ignore[arg-type]


def test_figures_of_runs() -> None:
    whole = figures([mark(n, "failed" if n == 9 else "succeeded", n) for n in range(10)])
    assert whole.success_rate == 0.9
    assert whole.median_duration == 6 * SECOND
    assert whole.longest_duration == 10 * SECOND
    assert whole.highest_lateness == 9 * SECOND


def test_no_runs_have_no_figures() -> None:
    found = measure("job", [], "UTC")
    assert (found.total.runs, found.total.success_rate, found.days) == (0, None, ())
    assert (found.since, found.last_success_at, found.last_lateness) == (None, None, None)


def test_days_are_those_of_the_zone() -> None:
    days = by_day([mark(0), mark(20)], "Asia/Tokyo")
    assert [day.day.day for day in days] == [6, 5]


def test_the_last_success_is_not_the_last_run() -> None:
    found = measure("job", [mark(0), mark(1, late=3), mark(2, "failed", late=7)], "UTC")
    assert found.last_success_at == BEGIN + HOUR + 5 * SECOND
    assert (found.last_duration, found.last_lateness) == (3 * SECOND, 7 * SECOND)
    assert found.since == BEGIN


def test_statistics_are_read_back_from_their_json() -> None:
    found = measure("job", [mark(0), mark(30, "failed")], "Europe/Brussels")
    form = encode(found)
    assert form["days"][0]["day"] == "2026-01-06"
    assert form["total"]["success_rate"] == 0.5
    assert decode(Statistics, form) == found

"""Simulations of many schedules: in bulk as one by one, with limits, over changes of clocks."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.budget import Budget
from duebook.errors import InvalidTime, OverBudget
from duebook.foresight.simulate import simulate
from duebook.model.calendar_days import DaySet
from duebook.model.calendar_use import CalendarUse
from duebook.model.plan import WindowSpan
from duebook.model.queue import Queue, QueueLimiter
from tests.support.examples import some_of
from tests.unit.foresight.builders import START, entry, report

if TYPE_CHECKING:
    from duebook.foresight.entry import Entry
    from duebook.model.calendar_use import CalendarMode

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)

MODES: Final[tuple[CalendarMode, ...]] = ("only", "except")
CLOSED = DaySet.of([date(2026, 3, 28)])
WINDOWS = st.builds(
    lambda start, length: WindowSpan("w", START + start * HOUR, START + (start + length) * HOUR),
    st.integers(-3, 30),
    st.integers(1, 9),
)
DEFINITIONS = st.fixed_dictionaries(
    {
        "trigger": st.sampled_from(
            [
                {"every": "9m"},
                {"every": "50m"},
                {"cron": "*/15 * * * *", "tz": "Europe/Brussels"},
                {"daily": ["02:30", "03:00"], "tz": "Europe/Brussels"},
                [{"cron": "0 * * * *"}, {"every": "45m"}],
                {"at": "2026-03-28T03:00:00Z"},
            ]
        ),
        "takes": st.sampled_from(["0s", "20s", "5m", "14m", "3h"]),
        "overlap": st.sampled_from(["skip", "queue", "latest", "cancel", "allow"]),
    },
    optional={
        "jitter": st.sampled_from(["1m", "2h"]),
        "exclude": st.just(["2026-03-28"]),
        "calendar": st.sampled_from(
            [CalendarUse("c", mode, roll, 1, CLOSED) for mode in MODES for roll in ("skip", "next")]
        ),
        "windows": st.lists(WINDOWS, max_size=2),
        "priority": st.integers(-1, 1),
        "timeout": st.just("10m"),
        "expire_after": st.just("30m"),
        "max_concurrent": st.integers(1, 3),
        "queue": st.sampled_from(["default", "heavy", "slow"]),
    },
)


def outcome(entries: list[Entry]) -> list[Any]:
    """All that can be told apart."""
    return [
        (
            one.name,
            sorted(one.figures.trace or []),
            dict(+one.figures.skips),
            sorted(one.figures.late),
            one.figures.overlaps,
            one.figures.busy,
            sorted((run.due_at, run.status, run.started_at) for run in one.runs),
        )
        for one in entries
    ]


@given(
    st.lists(DEFINITIONS, min_size=1, max_size=3),
    st.sampled_from([None, None, 1, 3]),
    st.sampled_from([7 * DAY, timedelta(hours=5)]),
)
@settings(max_examples=some_of(75), deadline=None, derandomize=some_of(75) < 75)
def test_stepping_in_bulk_equals_the_event_loop(
    definitions: list[dict[str, Any]], workers: int | None, week: timedelta
) -> None:
    """Also over the end of a `week`, after which the next is taken."""
    if workers is not None:  # whose turn it is, of several queues, is not counted in bulk
        definitions = [one | {"queue": "default"} for one in definitions]
    found = []
    for in_bulk in (True, False):
        entries = [entry(f"s{number}", **one) for number, one in enumerate(definitions)]
        limiters = [QueueLimiter(Queue("heavy", concurrency=1))]
        until = START + DAY + timedelta(hours=5)
        with patch("duebook.foresight.simulate.WEEK", week):
            done = simulate(entries, START, until, workers, limiters, in_bulk=in_bulk)
        told = report(done)
        found.append((outcome(entries), told.peak, told.busiest, told.running, told.hours))
    assert found[0] == found[1]


def test_runs_that_take_too_long_are_skipped_and_late_behind_few_workers() -> None:
    entries = [
        entry("etl", "0 * * * *", "90m"),
        entry("a", "0 2 * * *", "10m"),
        entry("b", "0 2 * * *", "10m"),
    ]
    told = report(simulate(entries, START, START + DAY, workers=1))
    by_name = {one.name: one for one in told.outlooks}
    assert by_name["etl"].skips["overlap"] == 12
    assert by_name["etl"].overlaps == 12
    assert {by_name["a"].late_most, by_name["b"].late_most} == {
        timedelta(minutes=30),
        timedelta(minutes=40),
    }
    assert told.peak == 1
    assert told.holdups[0].schedule == "etl"
    assert set(told.holdups[0].others) >= {"a", "b"}


def test_without_a_limit_the_peak_is_how_many_workers_are_needed() -> None:
    entries = [entry(f"s{number}", "0 3 * * *", "10m") for number in range(7)]
    told = report(simulate(entries, START, START + DAY))
    assert (told.peak, told.peak_at) == (7, START + timedelta(hours=3))
    assert told.late_most == timedelta()
    assert told.busiest[0].started == 7
    assert told.busiest[0].schedules == tuple(f"s{number}" for number in range(7))


def test_a_busy_minute_does_not_name_schedules_that_are_paused_then() -> None:
    entries = [entry(name, "0 3 * * *", "10m") for name in ("paused", "runs", "rests")]
    entries[0].snapshot.status, entries[0].wake_at = "paused", None
    span = WindowSpan("db", START, START + DAY)
    entries[2].snapshot.windows = (span,)
    told = report(simulate(entries, START, START + DAY))
    assert told.busiest[0].schedules == ("runs",)


def test_a_change_of_clocks_is_told_with_what_it_moves() -> None:
    entries = [entry("night", {"cron": "30 2 * * *", "tz": "Europe/Brussels"})]
    told = report(simulate(entries, START, START + 4 * DAY))
    (change,) = told.clock_changes
    assert (change.schedule, change.wall) == ("night", "2026-03-29 02:30")
    assert told.runs == 4


def test_a_dependency_that_is_never_met_is_a_skip() -> None:
    entries = [
        entry("late", "0 4 * * *"),
        entry("early", "0 3 * * *", depends_on=[{"schedule": "late", "within": "1h"}]),
    ]
    told = report(simulate(entries, START, START + DAY))
    assert told.skips == {"dependency": 1}


def test_runs_that_never_start_count_as_late() -> None:
    limiters = [QueueLimiter(Queue("default", concurrency=0))]
    entries = [entry("stuck", "0 3 * * *")]
    told = report(simulate(entries, START, START + DAY, limiters=limiters))
    assert told.late_most == timedelta(hours=21)
    assert told.outlooks[0].waiting == 1


def test_due_times_that_wait_for_each_other_are_counted_and_late() -> None:
    entries = [entry("slow", {"every": "2m"}, "60m", overlap="queue")]
    told = report(simulate(entries, START, START + DAY))
    assert told.due_times == 720
    assert (told.runs, told.outlooks[0].waiting) == (24, 696)
    assert told.late_most > timedelta(hours=23)


def test_stepping_in_bulk_stays_within_its_budget() -> None:
    entries = [entry(f"s{n}", {"every": "1s"}, "0s", overlap="allow") for n in range(3)]
    with pytest.raises(OverBudget):
        simulate(entries, START, START + 300 * DAY, budget=Budget(0.01))


def test_a_simulation_stays_within_its_budget() -> None:
    entries = [entry(f"s{n}", "* * * * *", "2m", overlap="queue") for n in range(20)]
    with pytest.raises(OverBudget):
        simulate(entries, START, START + 300 * DAY, budget=Budget(0.01))


def test_progress_is_told_up_to_the_end() -> None:
    heard: list[tuple[float, int]] = []
    simulate([entry("job")], START, START + 21 * DAY, progress=lambda *told: heard.append(told))
    assert [round(part, 2) for part, _ in heard] == [0.33, 0.67, 1.0]
    assert heard[-1][1] == 21 * 24


def test_limits_that_are_exceeded_name_what_exceeds_them() -> None:
    entries = [entry("etl", "0 * * * *", "90m"), entry("a", "0 2 * * *", "10m")]
    told = report(simulate(entries, START, START + DAY, workers=1))
    assert told.breaches(timedelta(hours=2), 100, 5) == []
    late, all_skips, skips, peak = told.breaches(timedelta(minutes=5), 0, 0)
    assert told.breaches(max_late="5m") == [late]
    with pytest.raises(InvalidTime, match='"soon" is not a duration'):
        told.breaches(max_late="soon")
    assert late.startswith('max-late 5m: "a" starts up to 30m late, at its due time 2026-03-27T02')
    assert all_skips == "max-skips 0: 12 due times would be skipped"
    assert skips == 'max-skips 0: "etl": overlap 12'
    assert peak.startswith("max-concurrency 0: 1 run at the same time at 2026-03-27T01:00:00Z")


def test_the_latest_schedule_is_named_though_others_skip_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("duebook.foresight.report.MOST_OUTLOOKS", 12)
    entries = [entry(f"s{n}", "0 * * * *", "90m") for n in range(20)]
    entries.append(entry("late", "0 * * * *", "80m", overlap="queue"))
    told = report(simulate(entries, START, START + DAY))
    (late,) = told.breaches(max_late=timedelta(minutes=5))
    assert '"late" starts up to' in late
    assert len(told.outlooks) == 12
    (unnamed,) = replace(told, outlooks=()).breaches(max_late=timedelta(minutes=5))
    assert unnamed.startswith("max-late 5m: a run starts ")


def test_excluded_days_are_no_skips_of_a_gate() -> None:
    told = report(simulate([entry("job", exclude=["2026-03-28"])], START, START + 3 * DAY))
    assert told.skips == {"excluded": 24}
    assert told.breaches(max_skips=0) == []


@pytest.mark.parametrize("workers", [None, 1])
def test_due_times_at_the_end_of_the_calendar_are_beyond_every_simulation(
    workers: int | None,
) -> None:
    last = {"at": "9999-12-31T23:59:59Z"}
    late: dict[str, Any] = {"start_at": "9999-12-31T23:00:00Z"}
    entries = [
        entry("once", last),
        entry("jittered", last, jitter="1h"),
        entry("queued", last, overlap="queue"),
        entry("starts", {"every": "1h"}, **late),
        entry("starts-jittered", {"every": "1h"}, jitter="1h", **late),
        entry("hourly"),
    ]
    assert report(simulate(entries, START, START + DAY, workers)).due_times == 24

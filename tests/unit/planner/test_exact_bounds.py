"""Bounds of policies, to the run and to the instant: max_runs, jitter, windows, the next look."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from duebook.model.definition import load_spec
from duebook.model.plan import ActiveRun, Defer, Fire, Lane, Reason, Snapshot, WindowSpan
from duebook.planner import DueTimes, plan
from duebook.planner.due import jittered

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def snapshot(watermark: datetime, active: tuple[ActiveRun, ...] = (), **policies: Any) -> Snapshot:
    form = {"trigger": "0 * * * *", "target": {"command": ["true"]}, **policies}
    return Snapshot("id", "etl", 1, load_spec(form, "etl"), "active", watermark, active)


def test_no_more_due_times_fire_than_max_runs_leaves() -> None:
    backlog = snapshot(NOON - 5 * HOUR - MINUTE, max_runs=3, catchup="all", overlap="allow")
    planned = plan(replace(backlog, fired=2), NOON)
    fires = [decision for decision in planned.decisions if isinstance(decision, Fire)]
    assert (len(fires), planned.fired, planned.next_due_at) == (1, 3, None)


def test_a_manual_run_does_not_use_up_max_runs() -> None:
    manual = ActiveRun("run-1", None, NOON - MINUTE, origin="manual", lane=Lane.EXTRA)
    planned = plan(snapshot(NOON - MINUTE, (manual,), max_runs=1, overlap="allow"), NOON)
    assert [type(decision) for decision in planned.decisions] == [Fire]


def test_jitter_differs_between_due_times_and_is_the_same_at_every_look() -> None:
    due_times = [NOON + number * HOUR for number in range(24)]
    delays = [jittered(at, 30 * MINUTE, "etl") - at for at in due_times]
    assert delays == [jittered(at, 30 * MINUTE, "etl") - at for at in due_times]
    assert len(set(delays)) == len(delays)
    assert all(timedelta() <= delay < 30 * MINUTE for delay in delays)


def test_what_was_due_before_a_maintenance_window_waits_for_its_end() -> None:
    window = WindowSpan("db", NOON + MINUTE, NOON + 10 * MINUTE)
    found = replace(snapshot(NOON - MINUTE), windows=(window,))
    (decision,) = plan(found, NOON + 2 * MINUTE).decisions
    assert isinstance(decision, Defer)
    assert (decision.due_at, decision.reason, decision.until) == (NOON, Reason.PAUSED, window.end)


def test_a_due_time_at_the_end_of_a_maintenance_window_fires() -> None:
    window = WindowSpan("db", NOON - 30 * MINUTE, NOON)
    found = replace(snapshot(NOON - MINUTE), windows=(window,))
    due = DueTimes.of(found, NOON)
    assert due.window_at(NOON - timedelta(microseconds=1)) == window
    assert due.window_at(NOON) is None
    assert [type(decision) for decision in plan(found, NOON).decisions] == [Fire]


def test_the_next_due_time_is_seen_in_time_while_one_waits_longer() -> None:
    waiting = [{"schedule": "extract", "within": "1h", "wait": "2h"}]
    planned = plan(snapshot(NOON - MINUTE, depends_on=waiting), NOON)
    assert isinstance(planned.decisions[-1], Defer)
    assert planned.decisions[-1].until == NOON + 2 * HOUR
    assert planned.wake_at == NOON + HOUR

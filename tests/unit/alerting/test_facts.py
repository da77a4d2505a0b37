"""What life-cycle events mean for alerts, and how long runs usually take."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duebook.alerting import happening_of, p95
from duebook.model.event import Event

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LABELS = {"nightly": {"team": "data"}}


def event(type_: str, topic: str = "duebook.runs", **data: Any) -> Event:
    form = {"run": "r1", "schedule": "nightly", "attempt": 1, **data}
    return Event("e1", "default", topic, type_, "nightly", form, {"origin": "schedule"}, AT, 1)


@pytest.mark.parametrize(
    ("type_", "data", "kind"),
    [
        ("run.failed", {"error": "exit code 7"}, "failed"),
        ("run.partial", {}, "failed"),
        ("run.succeeded", {}, "succeeded"),
        ("run.late", {}, "missed"),
        ("run.cancelled", {"reason": "expired"}, "missed"),
        ("run.cancelled", {"reason": "cancelled"}, None),
        ("flow.finished", {}, None),
        ("run.failed", {"step": "extract"}, None),
    ],
)
def test_what_the_end_of_a_run_means(type_: str, data: dict[str, Any], kind: str | None) -> None:
    found = happening_of(event(type_, **data), LABELS)
    assert (None if found is None else found.kind) == kind
    if found is not None:
        assert found.subject == ("nightly", "nightly", {"team": "data"})


def test_runs_without_a_schedule_belong_to_their_flow_or_task() -> None:
    for kind, name in (("task", "mail"), ("flow", "etl")):
        data: dict[str, Any] = {"schedule": None, kind: name}
        found = happening_of(event("run.failed", **data), {})
        assert found is not None
        assert found.subject.key == f"{kind}:{name}"
    assert happening_of(event("run.failed", schedule=None), {}) is None


def test_a_run_that_started_late_says_by_how_much() -> None:
    times = {"due_at": "2026-01-05T11:00:00Z", "started_at": "2026-01-05T11:20:00Z"}
    found = happening_of(event("run.succeeded", **times), {})
    assert found is not None
    assert found.late == timedelta(minutes=20)
    again = happening_of(event("run.succeeded", **times, attempt=2), {})
    assert again is not None
    assert again.late == timedelta(), "a later attempt cannot be late"


def test_missed_and_deleted_schedules_are_told_by_their_own_events() -> None:
    topic = "duebook.schedules"
    missed = happening_of(event("schedule.missed", topic, count=3, due_to="2026-01-05T11:00Z"), {})
    assert missed is not None
    assert (missed.kind, missed.times) == ("missed", 3)
    deleted = happening_of(event("schedule.deleted", topic, id="s1"), {})
    assert deleted is not None
    assert (deleted.kind, deleted.text) == ("deleted", "s1")
    assert happening_of(event("schedule.paused", topic), {}) is None


def test_p95_needs_some_runs() -> None:
    assert p95([SECOND] * 4) is None
    assert p95([n * SECOND for n in range(1, 101)]) == 95 * SECOND
    assert p95([n * SECOND for n in range(1, 6)]) == 5 * SECOND

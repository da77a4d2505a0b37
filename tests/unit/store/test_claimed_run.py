"""A claimed run is built by the places of its fields, so each must stand where it belongs."""

from datetime import UTC, datetime, timedelta

from duebook.model.run import Interval, Run
from duebook.store.sql.rows import claimed_run

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


def test_each_field_of_a_claimed_run_stands_where_it_belongs() -> None:
    row = (
        *("run-1", "ops", "schedule-1", 3, at(1), "catchup", "schedule:5m", "mail", 7),
        *(2, 1, 4, '{"a": 1}', at(2), at(3), at(4), "send"),
        *("parent-1", "load", "nightly", at(5), at(-5), None, "token:deploy", "node-a"),
    )
    assert claimed_run((*row, "more"), "report", "node-b", at(6)) == Run(
        id="run-1",
        namespace="ops",
        schedule_id="schedule-1",
        schedule="report",
        version=3,
        due_at=at(1),
        origin="catchup",
        trigger="schedule:5m",
        queue="mail",
        priority=7,
        status="running",
        attempt=2,
        failures=1,
        losses=4,
        payload={"a": 1},
        created_at=at(2),
        ready_at=at(3),
        claimed_at=at(6),
        started_at=at(5),
        expires_at=at(4),
        node="node-b",
        task="send",
        parent_run_id="parent-1",
        step="load",
        flow="nightly",
        requested_by="token:deploy",
        planned_by="node-a",
        interval=Interval(at(-5), at(1)),
    )

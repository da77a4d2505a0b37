"""Stops and restarts of flows: the newest acts, old ones are missed, a pause holds them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duebook.model.definition import load_spec
from duebook.model.plan import Command, Defer, Skip, Snapshot, Unattended
from duebook.planner import (
    first_plan,
    pause_unread,
    plan,
    plan_edit,
    plan_end,
    plan_pause,
    plan_resume,
    resume_unread,
)
from tests.unit.planner.histories import HOUR, MINUTE, NOON, SECOND, clock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duebook.model.plan import Decision, Plan
    from duebook.model.schedule import ScheduleSpec


def spec_of(**more: Any) -> ScheduleSpec:
    form = {
        "trigger": [],
        "target": {"flow": "service"},
        "overlap": "allow",
        "stop": {"cron": "0 * * * *"},
    }
    return load_spec(form | more, "service")


def make(**more: Any) -> Snapshot:
    return Snapshot("id", "service", 1, spec_of(**more), "active", clock("11:30"))


def after(snapshot: Snapshot, planned: Plan) -> Snapshot:
    """As it stands when the plan is committed."""
    return replace(
        snapshot,
        status=planned.status,
        watermark=planned.watermark,
        controlled_until=planned.controlled_until or snapshot.controlled_until,
    )


def told(decisions: Iterable[Decision]) -> list[tuple[str, str, str, int]]:
    skips = [d for d in decisions if isinstance(d, Skip)]
    return [(f"{s.due_from:%H:%M}", s.kind, str(s.reason), s.count) for s in skips]


def test_a_stop_in_time_acts_and_the_next_one_wakes() -> None:
    planned = plan(make(), NOON)
    assert told(planned.decisions) == [("12:00", "stop", "stopped", 1)]
    assert planned.command == Command(NOON, "stop")
    assert (planned.status, planned.controlled_until) == ("active", NOON)
    assert planned.wake_at == NOON + HOUR
    assert plan(after(make(), planned), NOON).decisions == ()


def test_what_is_older_than_the_grace_is_missed() -> None:
    planned = plan(make(), NOON + 2 * HOUR + 5 * MINUTE)
    assert told(planned.decisions) == [("12:00", "stop", "missed", 3)]
    assert planned.command is None


def test_of_several_the_newest_acts_and_a_restart_rather_than_a_stop() -> None:
    snapshot = make(stop={"cron": "*/20 * * * * *"}, restart=[{"cron": "0 * * * * *"}], grace="2m")
    planned = plan(replace(snapshot, controlled_until=NOON - 30 * SECOND), NOON)
    assert planned.command == Command(NOON, "restart")
    assert sorted(told(planned.decisions)) == [
        ("11:59", "stop", "superseded", 2),
        ("12:00", "restart", "restarted", 1),
    ]


def test_a_start_and_a_stop_at_one_instant_are_two_decisions() -> None:
    planned = plan(make(trigger={"cron": "0 * * * *"}), NOON)
    assert [type(decision).__name__ for decision in planned.decisions] == ["Fire", "Skip"]


def test_a_paused_schedule_decides_none_and_a_resume_records_them() -> None:
    snapshot = make()
    paused = after(snapshot, plan_pause(snapshot, clock("11:40")))
    assert plan(paused, NOON + HOUR).decisions == ()
    resumed = plan_resume(paused, NOON + HOUR + MINUTE)
    assert told(resumed.decisions) == [("12:00", "stop", "paused", 2)]
    assert (resumed.status, resumed.wake_at) == ("active", NOON + 2 * HOUR)
    assert resumed.controlled_until == NOON + HOUR + MINUTE


def test_a_resume_after_the_last_of_them_completes_the_schedule() -> None:
    snapshot = make(end_at="2026-01-01T12:30:00Z")
    paused = after(snapshot, plan_pause(snapshot, clock("11:40")))
    resumed = plan_resume(paused, NOON + HOUR)
    assert told(resumed.decisions) == [("12:00", "stop", "paused", 1)]
    assert (resumed.status, resumed.wake_at) == ("completed", None)


def test_while_no_node_reads_the_directory_they_wait() -> None:
    snapshot = replace(make(), unattended=Unattended("flows", None))
    planned = plan(snapshot, NOON)
    (defer,) = planned.decisions
    assert isinstance(defer, Defer)
    assert (defer.due_at, planned.wake_at, planned.status) == (NOON, defer.until, "active")
    assert (planned.controlled_until, planned.command) == (None, None)
    early = plan(snapshot, clock("11:40"))
    assert (early.decisions, early.wake_at) == ((), NOON)


def test_an_edit_takes_out_what_only_the_old_definition_had() -> None:
    snapshot = make()
    planned = plan_edit(snapshot, spec_of(stop={"cron": "30 * * * *"}), NOON)
    assert told(planned.decisions) == [("12:00", "stop", "edited", 1)]
    assert (planned.status, planned.wake_at) == ("active", clock("12:30"))
    same = plan_edit(snapshot, spec_of(description="other"), NOON + SECOND)
    assert (told(same.decisions), same.controlled_until) == ([], clock("11:30"))
    quiet = plan_edit(snapshot, spec_of(stop={"cron": "30 * * * *"}), clock("11:45"))
    assert (told(quiet.decisions), quiet.controlled_until) == ([], clock("11:45"))
    assert quiet.wake_at == clock("12:30")


def test_a_definition_without_any_ends_them() -> None:
    planned = plan_edit(make(), spec_of(trigger={"cron": "@daily"}, stop=None), NOON)
    assert told(planned.decisions) == [("12:00", "stop", "edited", 1)]
    assert planned.controlled_until is None


def test_a_deleted_schedule_records_those_that_were_pending() -> None:
    assert told(plan_end(make(), NOON + MINUTE)) == [("12:00", "stop", "deleted", 1)]


def test_a_new_schedule_wakes_for_the_first_of_them() -> None:
    assert first_plan("service", spec_of(), clock("11:30")) == (None, NOON)


def test_stops_in_a_pause_that_an_older_node_ended_did_nothing() -> None:
    snapshot = make()
    for at, change in ((clock("11:40"), pause_unread), (clock("14:00"), resume_unread)):
        planned = change(snapshot, at)
        snapshot = replace(after(snapshot, planned), seen=planned.seen)
    planned = plan(snapshot, clock("14:00") + 30 * SECOND)
    assert told(planned.decisions) == [("12:00", "stop", "paused", 3)]
    assert planned.command is None, "that of 14:00 fell into the pause"
    later = plan(replace(snapshot, status="active"), clock("15:00"))
    assert told(later.decisions) == [
        ("12:00", "stop", "paused", 3),
        ("15:00", "stop", "stopped", 1),
    ]

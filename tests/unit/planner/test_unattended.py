"""Flows whose directory no node reads: nothing is decided, and nothing counts as seen."""

from __future__ import annotations

from dataclasses import replace

from duebook.model.plan import Defer, Unattended
from duebook.planner.unattended import CHANGING_AGAIN, UNATTENDED_AGAIN
from tests.unit.planner.histories import HOUR, MINUTE, NOON, SECOND, History, clock, history

UNREAD = Unattended("flows", NOON - HOUR)


def leave(life: History, unattended: Unattended | None = UNREAD) -> None:
    life.snapshot = replace(life.snapshot, unattended=unattended)


def test_a_due_time_waits_with_a_finite_wake_and_the_watermark_stays() -> None:
    life = history("11:30")
    leave(life)
    planned = life.plan(NOON)
    (defer,) = planned.decisions
    assert defer == Defer(
        NOON,
        defer.reason,  # type: ignore[union-attr]
        NOON + UNATTENDED_AGAIN,
        {"directory": "flows", "since": NOON - HOUR},
    )
    assert (planned.watermark, planned.seen) == (clock("11:30"), ())
    assert (planned.status, planned.wake_at) == ("active", NOON + UNATTENDED_AGAIN)
    assert planned.next_due_at == NOON


def test_grace_counts_from_the_first_plan_that_knows_the_files() -> None:
    life = history("11:30", catchup="skip")
    leave(life)
    life.at("12:00")
    leave(life, None)
    assert life.plan(NOON + 30 * SECOND).decisions[0].due_at == NOON  # type: ignore[union-attr]
    assert [fire.origin for fire in life.fires] == ["schedule"]
    leave(life)
    life.at("13:00")
    leave(life, None)
    life.at("13:10")
    assert [str(skip.reason) for skip in life.skips] == ["missed"]


def test_what_was_seen_before_keeps_its_class_and_waits_too() -> None:
    life = history("11:30", overlap="queue")
    life.add_run("by-hand")
    life.start("by-hand")
    life.at("12:00")
    seen = life.snapshot.seen
    assert seen
    life.settle("by-hand")
    leave(life)
    planned = life.plan(NOON + 10 * MINUTE)
    assert planned.seen == seen
    assert [type(decision) for decision in planned.decisions] == [Defer]
    leave(life, None)
    life.plan(NOON + 20 * MINUTE)
    assert [fire.origin for fire in life.fires] == ["schedule"], "still live"


def test_without_a_due_time_it_wakes_at_the_next_one() -> None:
    life = history("11:30")
    leave(life)
    planned = life.plan(clock("11:40"))
    assert (planned.decisions, planned.wake_at) == ((), NOON)


def test_while_a_node_changes_the_directory_the_next_look_is_soon() -> None:
    life = history("11:30")
    leave(life, replace(UNREAD, is_changing=True))
    assert life.plan(NOON).wake_at == NOON + CHANGING_AGAIN

"""Pauses, edits and deletes meet exceptions, jitter and backlogs: nothing is lost or doubled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duebook.model.plan import DueException, Stretch
from tests.unit.planner.histories import HOUR, MINUTE, NOON, SECOND, clock, history

SKIP_NOON = DueException(NOON, "skip")


def test_a_pause_just_after_a_skipped_due_time_does_not_swallow_it() -> None:
    life = history("11:30")
    life.say(SKIP_NOON)
    life.pause(clock("12:10"))
    assert life.resume(clock("12:20")) == []
    assert life.at("12:20") == ["skip 12:00 skipped_by_user"]


def test_a_pause_just_after_an_excluded_due_time_does_not_swallow_it() -> None:
    life = history("11:30", exclude=["2026-01-01"])
    life.pause(clock("12:10"))
    life.resume(clock("12:20"))
    assert life.at("12:20") == ["skip 12:00 excluded"]


def test_an_edit_that_finds_nothing_pending_records_what_was_taken_out() -> None:
    life = history("11:30")
    life.say(SKIP_NOON)
    assert life.edit(clock("12:10")) == ["skip 12:00 skipped_by_user"]
    assert life.snapshot.watermark == clock("12:10")
    assert life.snapshot.exceptions == ()


def test_a_due_time_that_its_jitter_holds_back_survives_an_edit() -> None:
    life = history("11:30", jitter="59m")
    assert life.at("12:00:01") == [], "not ripe yet"
    life.edit(clock("12:00:02"))
    assert life.at("12:00:03") == ["fire 12:00 schedule"]


def test_a_due_time_that_its_jitter_holds_back_is_recorded_when_the_schedule_is_deleted() -> None:
    life = history("11:30", jitter="59m")
    assert life.delete(clock("12:00:02")) == ["skip 12:00 deleted"]


def test_an_edit_while_paused_does_not_revive_what_fell_in_the_pause() -> None:
    life = history("11:30")
    life.pause(clock("11:40"))
    assert life.edit(clock("14:30"), grace="2m") == []
    assert life.status == "paused"
    assert life.resume(clock("15:30")) == ["skip 12:00-15:00 x4 paused"]
    assert life.at("15:30") == []


def test_an_edit_while_paused_records_what_only_the_old_trigger_knew() -> None:
    life = history("11:30")
    life.pause(clock("11:40"))
    assert life.edit(clock("13:30"), trigger="0 13 * * *") == ["skip 12:00 edited"]
    assert life.resume(clock("14:30")) == ["skip 13:00 paused"]


def test_an_edit_of_a_completed_schedule_catches_nothing_up() -> None:
    """What came after its end is accounted for, and does not run."""
    life = history("11:30", max_runs=1)
    assert life.at("12:00") == ["fire 12:00 schedule"]
    life.settle(at="12:00:30")
    life.at("12:01")
    assert life.status == "completed"
    assert life.edit(clock("18:30"), max_runs=2) == ["skip 13:00-18:00 x6 max_runs"]
    assert (life.status, life.at("18:30")) == ("active", [])
    assert life.at("19:00") == ["fire 19:00 schedule"]


def test_what_was_said_about_due_times_after_the_last_run_is_settled_by_an_edit() -> None:
    """Skipped, excluded and moved ones are recorded too, each once, and none of them runs."""
    life = history("11:30", max_runs=1, exclude=["2026-01-02"])
    assert life.at("12:00") == ["fire 12:00 schedule"]
    life.settle(at="12:00:30")
    life.at("12:01")
    life.say(
        DueException(clock("11:00"), "moved_here"),
        DueException(clock("13:00"), "skip"),
        DueException(clock("14:00"), "moved_away", clock("14:40")),
        DueException(clock("14:40"), "moved_here"),
    )
    assert life.status == "completed"
    assert sorted(life.edit(clock("01:30", 2), max_runs=2)) == [
        "skip 00:00-01:00 x2 excluded",
        "skip 11:00 max_runs",
        "skip 13:00 skipped_by_user",
        "skip 14:00 superseded",
        "skip 14:40 max_runs",
        "skip 15:00-23:00 x9 max_runs",
    ]
    assert life.snapshot.exceptions == ()
    assert (life.status, life.at(clock("01:30", 2))) == ("active", [])


def test_deleting_a_completed_schedule_records_nothing() -> None:
    life = history("11:30", max_runs=1)
    life.at("12:00")
    life.settle(at="12:00:30")
    life.at("12:01")
    assert life.delete(clock("18:30")) == []


def test_an_edit_to_a_limit_that_is_reached_still_records_what_is_pending() -> None:
    life = history("11:30")
    assert life.at("12:00") == ["fire 12:00 schedule"]
    life.settle(at="12:30")
    life.edit(clock("13:30"), max_runs=1)
    assert (life.status, life.wake_at) == ("active", clock("13:30"))
    assert life.at("13:30") == ["skip 13:00 max_runs"]
    assert life.status == "completed"


def test_a_pending_due_time_that_an_edit_excludes_is_recorded_once() -> None:
    life = history("08:30", overlap="queue", catchup="all")
    life.add_run("by-hand")
    assert life.at("12:30") == ["wait 09:00 overlap"]
    assert life.edit(clock("12:31"), exclude=["2026-01-01"]) == []
    life.settle()
    assert life.at("12:32") == ["skip 09:00-12:00 x4 excluded"]


def test_a_due_time_that_was_excluded_and_is_unknown_to_the_new_trigger_is_recorded() -> None:
    life = history("08:30", overlap="queue", exclude=["2026-01-02"])
    life.add_run("by-hand")
    assert life.at(clock("22:30", 1)) == ["skip 09:00-21:00 x13 coalesced", "wait 22:00 overlap"]
    edited = life.edit(clock("01:30", 2), trigger="30 * * * *", overlap="queue")
    assert edited == ["skip 22:00-01:00 x4 edited"]


def test_a_skipped_due_time_on_an_excluded_day_is_recorded_once() -> None:
    life = history("11:30", exclude=["2026-01-01"])
    life.say(SKIP_NOON)
    assert life.at("12:00") == ["skip 12:00 excluded"]
    assert life.snapshot.exceptions == ()


def test_the_newest_waits_though_later_ones_were_missed_and_dropped() -> None:
    life = history("11:30", overlap="latest", catchup="skip")
    life.add_run("by-hand")
    assert life.at("12:00") == ["wait 12:00 overlap"]
    assert life.at("15:30") == ["wait 12:00 overlap"], "an outage meanwhile drops only its own"
    life.settle()
    assert life.at("15:31") == ["fire 12:00 schedule", "skip 13:00-15:00 x3 missed"]


@pytest.mark.parametrize("overlap", ["latest", "cancel"])
def test_the_window_bounds_a_backlog_that_collapses_as_well(overlap: str) -> None:
    life = history("08:30", overlap=overlap, catchup="all", catchup_window="10m")
    assert life.at("12:30") == ["skip 09:00-12:00 x4 expired"]


def test_what_waits_is_not_replaced_by_what_the_window_drops() -> None:
    life = history("11:30", overlap="latest", catchup="all", catchup_window="10m")
    life.add_run("by-hand")
    assert life.at("12:00") == ["wait 12:00 overlap"]
    life.at("15:30")
    life.settle()
    assert life.at("15:31") == ["fire 12:00 schedule", "skip 13:00-15:00 x3 expired"]


def test_decided_stretches_never_merge_with_undecided_ones() -> None:
    """Sixty pauses while one due time waits: what is decided is neither lost nor decided again."""
    life = history("11:30", "* * * * *", overlap="queue", grace="1h")
    life.add_run("by-hand")
    now, paused = clock("11:31"), 0
    for _ in range(60):
        life.plan(now)
        life.pause(now)
        now += 2 * MINUTE
        life.resume(now)
        paused += 2
        now += MINUTE
    life.plan(now)
    assert sum(s.count for s in life.skips if s.reason == "paused") == paused
    life.settle()
    while life.waits:
        now += SECOND
        life.plan(now)
        if life.runs:
            life.settle(at=now)
    minutes = int((now - clock("11:30")) / MINUTE)
    assert life.decided() == minutes
    assert len({fire.due_at for fire in life.fires}) == minutes - paused


def test_many_outages_while_one_due_time_waits_are_remembered_in_few_stretches() -> None:
    life = history("11:30", overlap="queue", catchup="all", grace="0s")
    life.add_run("by-hand")
    now = NOON
    for _ in range(80):
        now += HOUR + SECOND
        life.plan(now)
    assert len(life.snapshot.seen) <= 50
    assert all(isinstance(stretch, Stretch) for stretch in life.snapshot.seen)
    assert life.snapshot.seen[-1].until == now


def test_a_skipped_due_time_behind_one_that_jitter_holds_back_wakes_nobody_in_vain() -> None:
    life = history("11:30", "*/5 * * * *", jitter="1h")
    life.say(*(DueException(clock(f"11:{m}"), "skip") for m in (40, 45, 50, 55)))
    now = clock("11:59")
    planned = life.plan(now)
    assert planned.wake_at is not None
    assert planned.wake_at > now


def test_the_limit_holds_for_merged_triggers() -> None:
    every_minute_apart = [f"{minute} * * * *" for minute in range(20)]
    life = history(
        "00:00",
        every_minute_apart,
        catchup="all",
        overlap="allow",
        catchup_pace="0s",
        grace="0s",
    )
    life.plan(clock("23:59", 3))
    assert len(life.fires) == 1_000
    assert [(s.reason, s.count, s.exact) for s in life.skips] == [("expired", 439, True)]


def test_a_long_stretch_of_merged_triggers_is_counted_from_below() -> None:
    every_minute_apart = [f"{minute} * * * *" for minute in range(20)]
    life = history("00:00", every_minute_apart, catchup="skip", grace="0s")
    life.plan(clock("23:59", 30))
    (entry,) = life.skips
    assert 1_000 <= entry.count <= 20 * 24 * 30
    assert not entry.exact


def test_what_a_person_put_into_the_past_waits_when_it_must() -> None:
    life = history("12:00", overlap="queue")
    life.add_run("by-hand")
    life.say(DueException(clock("11:20"), "moved_here"))
    assert life.at("12:00") == ["wait 11:20 overlap"]
    assert life.snapshot.exceptions, "it is not used up while it waits"
    life.settle()
    assert life.at("12:01") == ["fire 11:20 schedule"]
    assert life.snapshot.exceptions == ()


def test_what_was_recorded_as_edited_stays_decided_when_the_old_trigger_returns() -> None:
    life = history("08:30", overlap="queue", catchup="all", catchup_pace="0s")
    life.add_run("by-hand")
    life.at("12:30")
    life.edit(clock("12:31"), trigger="30 * * * *", overlap="queue", catchup="all")
    life.edit(clock("12:32"), trigger="0 * * * *", overlap="queue", catchup="all")
    now = clock("12:33")
    while life.waits:
        while life.runs:
            life.settle(at=now)
        now += MINUTE
        life.plan(now)
    recorded = {skip.due_from for skip in life.skips if skip.reason == "edited"}
    assert recorded.isdisjoint(fire.due_at for fire in life.fires)


def test_a_due_time_moved_into_a_decided_stretch_fires() -> None:
    life = history("11:30", overlap="queue")
    life.add_run("by-hand")
    assert life.at("12:00") == ["wait 12:00 overlap"]
    life.pause(clock("12:10"))
    life.resume(clock("14:30"))
    moved_to = clock("14:10")
    life.say(
        DueException(clock("15:00"), "moved_away", moved_to), DueException(moved_to, "moved_here")
    )
    life.plan(clock("14:31"))
    life.settle()
    life.plan(clock("14:32"))
    while life.runs:
        life.settle()
        life.plan(life.now + SECOND)
    assert life.covers(moved_to)


def test_the_snapshot_of_a_broken_clock_changes_nothing() -> None:
    life = history("11:30", overlap="queue")
    life.add_run("by-hand")
    life.at("12:00")
    before = life.snapshot
    assert life.at("11:00") == ["wait 12:00 overlap"]
    assert replace(life.snapshot, seen=before.seen) == before

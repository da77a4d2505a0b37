"""What people do to a schedule: pause, resume, edit, delete, move and skip single due times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duebook.model.plan import DueException
from tests.unit.planner.histories import NOON, History, clock, history


def with_backlog(**policies: str) -> History:
    """09:00 to 12:00 were missed; 09:00 has just fired, the others wait."""
    life = history("08:30", catchup="all", **policies)
    assert life.at("12:30") == ["fire 09:00 catchup", "wait 10:00 pace"]
    return life


# -- pause and resume


def test_nothing_is_decided_while_paused() -> None:
    life = history("11:30")
    life.pause(clock("11:40"))
    before = life.snapshot
    assert life.at("15:30") == []
    assert (life.snapshot, life.wake_at) == (before, None)


def test_what_falls_while_paused_is_recorded_at_the_resume() -> None:
    life = history("11:30")
    life.pause(clock("11:40"))
    assert life.resume(clock("14:30")) == ["skip 12:00-14:00 x3 paused"]
    assert (life.status, life.wake_at) == ("active", clock("15:00"))


def test_what_falls_while_paused_is_caught_up_when_the_policy_says_so() -> None:
    life = history("11:30", on_resume="catchup")
    life.pause(clock("11:40"))
    assert life.resume(clock("14:30")) == []
    assert life.wake_at == clock("14:30")
    assert life.at("14:30") == ["skip 12:00-13:00 x2 coalesced", "fire 14:00 catchup"]


def test_a_due_time_just_before_the_resume_is_live_when_it_is_caught_up() -> None:
    life = history("11:30", on_resume="catchup", catchup="skip")
    life.pause(clock("11:40"))
    life.resume(clock("14:00:30"))
    assert life.at("14:00:30") == ["skip 12:00-13:00 x2 missed", "fire 14:00 schedule"]


def test_a_due_time_from_before_the_pause_keeps_its_class() -> None:
    life = history("11:30", catchup="skip")
    life.pause(clock("12:00:30"))
    assert life.resume(clock("14:30")) == ["skip 13:00-14:00 x2 paused"]
    assert life.at("14:30") == ["fire 12:00 schedule"]


def test_a_backlog_from_before_the_pause_resumes_where_it_stopped() -> None:
    life = with_backlog()
    life.pause(clock("12:31"))
    life.settle(at="12:40")
    assert life.resume(clock("15:30")) == ["skip 13:00-15:00 x3 paused"]
    assert life.at("15:30") == ["fire 10:00 catchup", "wait 11:00 pace"]
    life.settle(at="15:31")
    assert life.at("15:31") == ["fire 11:00 catchup", "wait 12:00 pace"]
    life.settle(at="15:32")
    assert life.at("15:32") == ["fire 12:00 catchup"]
    assert not life.waits


def test_a_backlog_from_before_the_pause_is_joined_by_what_is_caught_up() -> None:
    life = with_backlog(on_resume="catchup", overlap="queue")
    life.pause(clock("12:31"))
    life.settle(at="12:40")
    assert life.resume(clock("14:30")) == []
    fired = []
    for minute in range(30, 35):
        fired += [entry for entry in life.at(f"14:{minute}") if entry.startswith("fire")]
        life.settle(at=f"14:{minute}:20")
    assert fired == [f"fire {hour}:00 catchup" for hour in (10, 11, 12, 13, 14)]


def test_a_pause_with_an_end_resumes_by_itself() -> None:
    life = history("11:30")
    life.pause(clock("11:40"), until=clock("13:30"))
    assert life.at("13:29") == []
    assert life.status == "paused"
    assert life.at("13:30") == ["skip 12:00-13:00 x2 paused"]
    assert (life.status, life.snapshot.paused_until) == ("active", None)


def test_a_one_off_that_falls_into_a_pause_is_recorded_and_completes() -> None:
    life = history("11:30", {"at": "2026-01-01T12:00:00Z"})
    life.pause(clock("11:40"))
    assert life.resume(clock("12:30")) == ["skip 12:00 paused"]
    assert life.status == "completed"


# -- edit


def test_an_edit_with_nothing_pending_counts_from_now() -> None:
    life = history("11:30")
    assert life.edit(clock("11:50"), trigger="*/10 * * * *") == []
    assert (life.snapshot.watermark, life.snapshot.version) == (clock("11:50"), 2)
    assert life.wake_at == NOON


def test_an_edit_with_something_pending_keeps_the_watermark_and_applies_the_new_trigger() -> None:
    life = history("09:30", overlap="queue", catchup="all")
    life.add_run("by-hand")
    assert life.at("12:30") == ["wait 10:00 overlap"]
    edited = life.edit(clock("12:31"), trigger="0 */2 * * *", overlap="queue", catchup="all")
    assert edited == ["skip 11:00 edited"]
    assert life.wake_at == clock("12:31")
    life.settle()
    fired = []
    for minute in range(40, 45):
        fired += [entry for entry in life.at(f"12:{minute}") if entry.startswith("fire")]
        if life.runs:
            life.settle()
    assert fired == ["fire 10:00 catchup", "fire 12:00 catchup"]


def test_an_edit_gives_pending_due_times_of_the_new_trigger_the_class_of_their_time() -> None:
    life = history("09:30", overlap="queue", catchup="all", catchup_pace="0s")
    life.add_run("by-hand")
    life.at("12:30")
    life.edit(
        clock("12:31"), trigger="15 11 * * *", overlap="queue", catchup="all", catchup_pace="0s"
    )
    life.settle()
    assert life.at("12:32") == ["fire 11:15 catchup"]


def test_an_edit_of_the_policies_applies_to_the_backlog_at_once() -> None:
    life = with_backlog()
    life.settle(at="12:31")
    assert life.edit(clock("12:32"), catchup="skip") == []
    assert life.at("12:32") == ["skip 10:00-12:00 x3 missed"]


def test_an_edit_of_overlap_applies_to_what_waits() -> None:
    life = history("11:30", overlap="queue")
    life.add_run("by-hand")
    life.at("12:00")
    life.edit(clock("12:01"), overlap="allow")
    assert life.at("12:01") == ["fire 12:00 schedule"]


def test_an_edit_opens_a_completed_schedule_again() -> None:
    life = history("11:30", {"at": "2026-01-01T12:00:00Z"})
    life.at("12:00")
    life.settle(at="12:01")
    life.at("12:01")
    assert life.status == "completed"
    life.edit(clock("12:30"), trigger={"at": "2026-01-01T13:00:00Z"})
    assert (life.status, life.wake_at) == ("active", clock("13:00"))


def test_an_edit_of_a_long_backlog_is_recorded_as_a_range_with_a_lower_bound() -> None:
    life = history("00:00", "* * * * *", overlap="queue", catchup="all", catchup_limit=50_000)
    life.add_run("by-hand")
    life.at("23:59:30")
    life.edit(clock("23:59:40"), trigger="0 * * * *", overlap="queue", catchup="all")
    (entry,) = life.skips
    assert (entry.reason, entry.count, entry.exact) == ("edited", 24 * 60 - 24, False)


# -- delete


def test_deleting_records_pending_due_times_of_all_kinds_once() -> None:
    life = with_backlog()
    life.pause(clock("12:31"))
    life.resume(clock("15:30"))
    assert life.delete(clock("16:00")) == [
        "skip 10:00-12:00 x3 deleted",
        "skip 16:00 deleted",
    ]
    assert life.decided() == 8, "09:00 to 16:00"


def test_deleting_a_paused_schedule_records_what_fell_meanwhile() -> None:
    life = history("11:30")
    life.pause(clock("11:40"))
    assert life.delete(clock("13:30")) == ["skip 12:00-13:00 x2 deleted"]


def test_deleting_with_nothing_pending_records_nothing() -> None:
    assert history("11:30").delete(clock("11:40")) == []


# -- single due times, with a backlog before them


def test_a_skipped_due_time_behind_a_backlog_is_recorded_in_its_turn() -> None:
    life = with_backlog()
    life.say(DueException(clock("13:00"), "skip"))
    assert life.at("13:00") == [
        "skip 10:00 overlap",
        "wait 11:00 pace",
    ]
    life.settle()
    assert life.at("13:00:01") == ["fire 11:00 catchup", "wait 12:00 pace"]
    life.settle(at="13:00:20")
    assert life.at("13:00:20") == ["fire 12:00 catchup", "skip 13:00 skipped_by_user"]
    assert life.snapshot.exceptions == ()


def test_a_moved_due_time_behind_a_backlog_fires_where_it_was_moved_to() -> None:
    life = with_backlog(overlap="queue")
    moved_to = clock("12:45")
    life.say(
        DueException(clock("13:00"), "moved_away", moved_to), DueException(moved_to, "moved_here")
    )
    found = []
    for minute in (40, 41, 42, 46, 61, 62):
        while life.runs:
            life.settle(at=clock("12:00").replace(minute=0))
        now = clock("12:00") + minute * (clock("12:01") - clock("12:00"))
        found += [entry for entry in life.at(now) if not entry.startswith("wait")]
    assert found == [
        "fire 10:00 catchup",
        "fire 11:00 catchup",
        "fire 12:00 catchup",
        "fire 12:45 schedule",
        "skip 13:00 superseded",
    ]


@pytest.mark.parametrize("kind", ["skip", "moved_away"])
def test_a_due_time_taken_out_of_an_outage_keeps_its_own_reason(kind: str) -> None:
    life = history("09:30", catchup="skip")
    to = clock("23:00") if kind == "moved_away" else None
    life.say(DueException(clock("11:00"), kind, to))  # type: ignore[arg-type]
    reason = "skipped_by_user" if kind == "skip" else "superseded"
    assert life.at("12:30") == ["skip 10:00-12:00 x2 missed", f"skip 11:00 {reason}"]


# -- planning that fails


def test_a_missing_watermark_counts_as_new() -> None:
    life = history("11:30", catchup="all")
    life.snapshot = replace(life.snapshot, watermark=None)
    assert life.at("12:30") == []
    assert life.snapshot.watermark == clock("12:30")

"""Grace, window, limit and pace: what becomes of due times that were missed, plan by plan."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duebook.model.plan import Defer, Skip
from tests.unit.planner.histories import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    TICK,
    History,
    clock,
    history,
    told,
)

# -- grace: the class of a due time is fixed by the first plan that sees it


def test_a_live_due_time_stays_live_while_it_waits() -> None:
    life = history("11:30", overlap="queue", catchup="skip")
    life.add_run("by-hand")
    assert life.at("12:00") == ["wait 12:00 overlap"]
    life.settle(at="12:50")
    assert life.at("12:50") == ["fire 12:00 schedule"]


def test_a_live_due_time_that_waits_stays_live_through_an_outage() -> None:
    life = history("11:30", overlap="queue", catchup="skip")
    life.add_run("by-hand")
    life.at("12:00")
    life.settle(at="12:10")
    assert life.at("17:30") == ["fire 12:00 schedule", "skip 13:00-17:00 x5 missed"]


def test_a_missed_due_time_stays_missed_though_grace_grows_meanwhile() -> None:
    life = history("11:30", overlap="queue")
    life.add_run("by-hand")
    assert life.at("12:10") == ["wait 12:00 overlap"]
    life.edit(clock("12:11"), overlap="queue", grace="1h")
    life.settle()
    assert life.at("12:12") == ["fire 12:00 catchup"]


def test_the_grace_includes_its_end() -> None:
    for late, origin in ((MINUTE, "schedule"), (MINUTE + TICK, "catchup")):
        assert history("11:30").at(clock("12:00") + late) == [f"fire 12:00 {origin}"]


def test_without_grace_only_the_very_instant_is_live() -> None:
    assert history("11:30", grace="0s").at("12:00") == ["fire 12:00 schedule"]
    assert history("11:30", grace="0s").at("12:00:01") == ["fire 12:00 catchup"]


def test_a_live_due_time_waits_behind_missed_ones_and_keeps_its_origin() -> None:
    life = history("09:30", catchup="all")
    assert life.at("12:00") == ["fire 10:00 catchup", "wait 11:00 pace"]
    life.settle(at="12:00:20")
    assert life.at("12:00:20") == ["fire 11:00 catchup", "skip 12:00 overlap"]


def test_a_live_due_time_behind_a_backlog_is_fired_as_live_under_queue() -> None:
    life = history("09:30", catchup="all", overlap="queue")
    found: list[str] = []
    for minute in range(3):
        found += life.at(clock("12:00") + minute * MINUTE)
        life.settle(at=life.now + SECOND)
    assert [entry for entry in found if entry.startswith("fire")] == [
        "fire 10:00 catchup",
        "fire 11:00 catchup",
        "fire 12:00 schedule",
    ]


# -- window and limit


def test_beyond_the_window_missed_due_times_expire() -> None:
    life = history("05:30", catchup="all", catchup_window="2h")
    assert life.at("12:30") == [
        "skip 06:00-10:00 x5 expired",
        "fire 11:00 catchup",
        "wait 12:00 pace",
    ]


def test_a_due_time_as_old_as_the_window_is_kept() -> None:
    life = history("09:30", catchup="all", catchup_window="2h")
    assert life.at("12:00") == ["fire 10:00 catchup", "wait 11:00 pace"]


def test_the_window_counts_from_when_the_due_time_was_seen_not_from_when_its_turn_comes() -> None:
    life = history("09:30", catchup="all", overlap="queue", catchup_window="3h")
    life.add_run("by-hand")
    assert life.at("12:30") == ["wait 10:00 overlap"]
    life.settle(at="19:30")
    assert life.at("19:30")[0] == "fire 10:00 catchup"


def test_beyond_the_limit_the_newest_are_kept_and_the_rest_expire_as_one_range() -> None:
    life = history("05:30", catchup="all", catchup_limit=2)
    assert life.at("12:30") == [
        "skip 06:00-10:00 x5 expired",
        "fire 11:00 catchup",
        "wait 12:00 pace",
    ]
    (skip,) = life.skips
    assert skip.facts == {"catchup_limit": 2}


def test_however_many_live_due_times_wait_all_stay_live() -> None:
    """Two days of hours, each seen in time, behind one run."""
    life = history("11:30", overlap="queue", catchup="skip")
    life.add_run("long", "schedule", clock("11:00"))
    for number in range(48):
        life.at(NOON + number * HOUR)
    assert [stretch.kind for stretch in life.snapshot.seen] == ["live"]
    while life.runs:
        life.settle()
        life.at(life.now + SECOND)
    assert (len(life.fires), life.skips) == (48, [])


def test_the_limit_holds_over_two_outages() -> None:
    life = history("05:30", catchup="all", overlap="queue", catchup_limit=3)
    life.add_run("by-hand")
    assert life.at("08:30") == ["wait 06:00 overlap"]
    assert life.at("11:30") == ["skip 06:00-08:00 x3 expired", "wait 09:00 overlap"]


def test_window_and_limit_bound_only_all() -> None:
    life = history("05:30", catchup="one", catchup_window="1m", catchup_limit=1)
    assert life.at("12:30") == ["skip 06:00-11:00 x6 coalesced", "fire 12:00 catchup"]


def test_thirty_years_of_minutes_leave_a_thousand() -> None:
    life = history(clock("12:00") - timedelta(days=30 * 365), "* * * * *", catchup="all")
    planned = life.plan(clock("12:00"))
    expired = planned.decisions[0]
    assert isinstance(expired, Skip)
    assert (expired.reason, expired.count, expired.exact) == ("expired", 100_000, False)
    assert [fire.due_at for fire in life.fires] == [clock("12:00") - (1_001 * MINUTE)]


# -- pace


def test_the_backlog_goes_on_when_the_active_run_settles() -> None:
    life = history("08:30", catchup="all")
    assert life.at("11:30") == ["fire 09:00 catchup", "wait 10:00 pace"]
    assert life.at("11:30:20") == ["wait 10:00 pace"]
    life.settle(at="11:30:25")
    assert life.at("11:30:25") == ["fire 10:00 catchup", "wait 11:00 pace"]


def test_every_fire_of_a_backlog_wakes_the_schedule_when_its_run_settles() -> None:
    life = history("08:30", catchup="all")
    life.at("11:30")
    assert all(fire.wakes for fire in life.fires)


def test_the_backlog_goes_on_after_each_pace_and_is_skipped_beside_an_active_run() -> None:
    life = history("08:30", catchup="all")
    life.at("11:30")
    assert life.at("11:31") == ["skip 10:00 overlap", "wait 11:00 pace"]
    assert life.at("11:32") == ["skip 11:00 overlap"]
    assert not life.waits


def test_under_allow_the_backlog_runs_beside_itself_at_the_pace() -> None:
    life = history("08:30", catchup="all", overlap="allow", catchup_pace="5m")
    assert life.at("11:30") == ["fire 09:00 catchup", "wait 10:00 pace"]
    assert life.at("11:34:59") == ["wait 10:00 pace"]
    assert life.at("11:35") == ["fire 10:00 catchup", "wait 11:00 pace"]


def test_a_wait_for_the_pace_says_when_it_ends() -> None:
    life = history("08:30", catchup="all", catchup_pace="5m")
    wait = life.plan(clock("11:30")).decisions[-1]
    assert isinstance(wait, Defer)
    assert wait.until == life.wake_at == clock("11:35")


def test_a_schedule_faster_than_its_pace_considers_two_due_times_in_each_period() -> None:
    life = history("11:00", "* * * * *", catchup="all", catchup_pace="10m", overlap="allow")
    assert life.at("11:10:30")[-1] == "wait 11:02 pace"
    assert life.wake_at == clock("11:11"), "the next live one has to be seen"
    assert life.at("11:10:59")[0] == "wait 11:02 pace"
    assert life.at("11:11:00")[0] == "fire 11:02 catchup"


def test_a_backlog_of_a_fast_schedule_ends_though_new_due_times_join_it() -> None:
    life = history("11:00", "* * * * *", catchup="all", overlap="queue")
    now = clock("11:30:30")
    for _ in range(70):
        life.plan(now)
        now += 30 * SECOND
        while life.runs:
            life.settle(at=now - SECOND)
    assert not life.waits
    assert life.skips == []


def wake_by_wake(life: History, start: str, most: int = 50) -> list[str]:
    """Plan at each wake time; the runs end one second after they began."""
    now, found = clock(start), list[str]()
    for _ in range(most):
        found += [entry for entry in life.at(now) if not entry.startswith("wait")]
        if not life.waits:
            break
        assert life.wake_at is not None
        now = max(now, life.wake_at)
        if life.runs:
            now += SECOND
            life.settle(at=now)
    return found


@pytest.mark.parametrize("overlap", ["skip", "queue", "allow"])
def test_all_missed_due_times_run_in_turn_when_each_ends_in_time(overlap: str) -> None:
    life = history("08:30", catchup="all", overlap=overlap)
    assert wake_by_wake(life, "11:30") == [
        "fire 09:00 catchup",
        "fire 10:00 catchup",
        "fire 11:00 catchup",
    ]


@pytest.mark.parametrize("overlap", ["latest", "cancel"])
def test_all_missed_due_times_collapse_to_the_newest(overlap: str) -> None:
    life = history("08:30", catchup="all", overlap=overlap)
    assert wake_by_wake(life, "11:30") == [
        "skip 09:00-10:00 x2 superseded",
        "fire 11:00 catchup",
    ]


def test_a_backlog_of_more_than_a_thousand_goes_on_at_once_without_a_pace() -> None:
    life = history(
        "08:00",
        "* * * * * *",
        catchup="all",
        overlap="allow",
        catchup_pace="0s",
        catchup_limit=2_500,
        grace="0s",
    )
    now = clock("09:00") + TICK
    assert [len(life.plan(now).decisions) for _ in range(3)] == [1_001, 1_000, 500]
    assert not life.waits
    assert life.decided() == 3_600


def test_the_limit_counts_newer_due_times_of_several_triggers_exactly() -> None:
    """Two outages: the second has more than the limit, so nothing of the first is kept."""
    policies = {"catchup": "all", "overlap": "queue", "catchup_limit": 1_500}
    life = history(NOON, ["0 * * * * *", "30 * * * * *"], **policies)
    assert life.at("12:10")[0] == "fire 12:00:30 catchup"
    life.settle(at="12:11")
    planned = life.plan(clock("04:00", 2))
    assert told(planned.decisions)[0] == "skip 12:01-12:08:30 x16 expired"

"""Policies that ask for more than the time: other runs, other schedules, days, numbers of runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.model.plan import Defer, Fire, Skip
from duebook.planner import DueTimes
from tests.unit.planner.histories import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    TICK,
    History,
    clock,
    history,
    make_spec,
    told,
)

if TYPE_CHECKING:
    from duebook.model.run import Origin

# -- cancel


def test_a_due_time_cancels_the_runs_of_other_due_times() -> None:
    life = history("11:30", overlap="cancel")
    life.add_run("queued-backfill", "backfill", clock("03:00"))
    life.add_run("queued-due", "schedule", clock("10:00"))
    life.add_run("caught-up", "catchup", clock("11:00"))
    (fire,) = life.plan(NOON).decisions
    assert isinstance(fire, Fire)
    assert set(fire.cancels) == {"queued-due", "caught-up"}


@pytest.mark.parametrize(
    ("origin", "begun"), [("manual", False), ("manual", True), ("backfill", True)]
)
def test_a_due_time_that_cancels_runs_waits_for_those_that_people_asked_for(
    origin: Origin, begun: bool
) -> None:
    """The run of an earlier due time gives way at once all the same: both would wait for it."""
    life = history("11:30", overlap="cancel")
    life.add_run("before", "schedule", clock("11:00"))
    life.add_run("asked-for", origin, clock("04:00") if origin == "backfill" else None)
    if begun:
        life.start("asked-for")
    assert life.at("12:00") == ["wait 12:00 overlap"]
    assert (life.cancelled, list(life.runs)) == (["before"], ["asked-for"])
    life.settle(at="12:20")
    assert life.at("12:20") == ["fire 12:00 schedule"]


def test_a_due_time_that_is_itself_dropped_cancels_nothing() -> None:
    life = history("11:30", overlap="cancel", depends_on=[{"schedule": "up", "within": "1h"}])
    life.add_run("running", "schedule", clock("11:00"))
    assert life.at("12:00") == ["skip 12:00 dependency"]
    assert life.cancelled == []


def test_a_cancelled_run_gives_way_to_each_newer_due_time() -> None:
    life = history("11:30", overlap="cancel")
    assert [life.at(f"{hour}:00") for hour in (12, 13)] == [
        ["fire 12:00 schedule"],
        ["fire 13:00 schedule"],
    ]
    assert life.cancelled == ["run-12:00"]


# -- skip_if_successful


def done_by_hand(started: str, watermark: str = "11:30", **policies: Any) -> History:
    life = history(watermark, skip_if_successful=True, **policies)
    life.now = clock(started)
    life.add_run("by-hand")
    life.settle(at=clock(started) + MINUTE)
    return life


def test_a_live_due_time_is_skipped_when_somebody_did_it_by_hand() -> None:
    life = done_by_hand("11:40")
    assert life.at("12:00") == ["skip 12:00 already_succeeded"]
    assert life.skips[0].facts == {"run": "by-hand", "since": clock("11:40")}


def test_a_run_by_hand_before_the_previous_due_time_does_not_count() -> None:
    assert done_by_hand("10:40").at("12:00") == ["fire 12:00 schedule"]


def test_a_run_by_hand_at_the_previous_due_time_does_not_count() -> None:
    assert done_by_hand("11:00").at("12:00") == ["fire 12:00 schedule"]


def test_a_missed_due_time_runs_though_somebody_did_it_by_hand() -> None:
    assert done_by_hand("11:40").at("12:30") == ["fire 12:00 catchup"]


def test_a_due_time_waits_for_a_run_by_hand_to_learn_whether_it_succeeds() -> None:
    life = history("11:30", skip_if_successful=True)
    life.add_run("by-hand")
    assert life.at("12:00") == ["wait 12:00 overlap"]
    life.settle(at="12:10")
    assert life.at("12:10") == ["skip 12:00 already_succeeded"]


def test_the_policy_is_off_by_default() -> None:
    life = history("11:30")
    life.add_run("by-hand")
    life.settle(at="11:41")
    assert life.at("12:00") == ["fire 12:00 schedule"]


# -- depends_on

UP = {"schedule": "up", "within": "1h"}


@pytest.mark.parametrize(
    ("succeeded", "expected"),
    [
        ("11:00", "fire 12:00 schedule"),
        ("11:59", "fire 12:00 schedule"),
        ("10:59:59", "skip 12:00 dependency"),
    ],
)
def test_the_upstream_must_have_succeeded_within_the_time(succeeded: str, expected: str) -> None:
    life = history("11:30", depends_on=[UP])
    life.upstream(up=clock(succeeded))
    assert life.at("12:00") == [expected]


def test_missed_due_times_depend_as_well() -> None:
    life = history("08:30", depends_on=[UP])
    assert life.at("12:30") == ["skip 09:00-11:00 x3 coalesced", "skip 12:00 dependency"]


@pytest.mark.parametrize("exists", [True, False])
def test_an_upstream_that_never_succeeded_or_does_not_exist_fails_closed(exists: bool) -> None:
    life = history("11:30", depends_on=[UP])
    if exists:
        life.upstream(up=None)
    assert life.at("12:00") == ["skip 12:00 dependency"]
    expected = {"schedule": "up", "within": "1h", "exists": exists, "succeeded_at": None}
    assert life.skips[0].facts == expected


def test_all_upstreams_must_have_succeeded() -> None:
    life = history("11:30", depends_on=[UP, {"schedule": "other", "within": "2h"}])
    life.upstream(up=clock("11:50"), other=clock("09:00"))
    assert life.at("12:00") == ["skip 12:00 dependency"]
    assert life.skips[0].facts["schedule"] == "other"


def test_a_due_time_waits_for_its_upstream_as_long_as_it_may() -> None:
    life = history("11:30", depends_on=[{**UP, "wait": "10m"}])
    assert life.at("12:00") == ["wait 12:00 dependency"]
    assert life.wake_at == clock("12:10")
    assert life.at("12:09:59") == ["wait 12:00 dependency"]
    life.upstream(up=clock("12:09:59"))
    assert life.at("12:09:59") == ["fire 12:00 schedule"]


def test_a_due_time_that_waited_in_vain_is_skipped() -> None:
    life = history("11:30", depends_on=[{**UP, "wait": "10m"}])
    life.at("12:00")
    assert life.at("12:10") == ["skip 12:00 dependency"]


def test_a_missed_due_time_waits_from_when_it_was_seen() -> None:
    life = history("11:30", depends_on=[{**UP, "wait": "10m"}])
    assert life.at("12:30") == ["wait 12:00 dependency"]
    assert life.wake_at == clock("12:40")
    life.upstream(up=clock("12:35"))
    assert life.at("12:35") == ["fire 12:00 catchup"]


def test_what_follows_waits_behind_a_due_time_that_waits_for_its_upstream() -> None:
    life = history("11:30", depends_on=[{**UP, "wait": "3h"}], overlap="allow")
    assert life.at("12:00") == ["wait 12:00 dependency"]
    assert life.at("13:00") == ["wait 12:00 dependency"]
    life.upstream(up=clock("13:30"))
    assert life.at("13:30") == ["fire 12:00 schedule", "fire 13:00 schedule"]


# -- jitter


def test_jitter_is_the_same_each_time_and_differs_between_due_times() -> None:
    due = DueTimes(make_spec(jitter="30m"), (), NOON, "id")
    delays = [due.ripe_at(NOON + n * HOUR) - (NOON + n * HOUR) for n in range(50)]
    again = DueTimes(make_spec(jitter="30m"), (), NOON, "id")
    other = DueTimes(make_spec(jitter="30m"), (), NOON, "another id")
    assert all(timedelta() <= delay < 30 * MINUTE for delay in delays)
    assert len(set(delays)) == 50
    assert delays == [again.ripe_at(NOON + n * HOUR) - (NOON + n * HOUR) for n in range(50)]
    assert delays != [other.ripe_at(NOON + n * HOUR) - (NOON + n * HOUR) for n in range(50)]


def test_a_jittered_due_time_is_planned_later_and_keeps_its_nominal_time() -> None:
    life = history("11:30", jitter="30m")
    ripe_at = DueTimes.of(life.facts(), NOON).ripe_at(NOON)
    assert NOON < ripe_at < NOON + 30 * MINUTE
    assert life.at(NOON) == []
    assert life.wake_at == ripe_at
    assert life.at(ripe_at - TICK) == []
    assert life.at(ripe_at) == ["fire 12:00 schedule"]


@pytest.mark.parametrize(("late", "origin"), [(MINUTE, "schedule"), (MINUTE + TICK, "catchup")])
def test_grace_counts_from_the_jittered_time(late: timedelta, origin: str) -> None:
    life = history("11:30", jitter="30m")
    ripe_at = DueTimes.of(life.facts(), NOON).ripe_at(NOON)
    assert life.at(ripe_at + late) == [f"fire 12:00 {origin}"]


def test_the_order_holds_where_jitter_is_longer_than_the_period() -> None:
    life = history("11:30", "* * * * *", jitter="1h", overlap="allow", grace="1d")
    now = clock("11:30")
    while now < clock("14:00"):
        now += 20 * SECOND
        life.plan(now)
    fired = [fire.due_at for fire in life.fires]
    assert fired == sorted(fired)
    assert fired == [clock("11:31") + n * MINUTE for n in range(len(fired))]
    assert len(fired) >= 60


# -- exclude


def test_excluded_days_are_recorded_as_a_range() -> None:
    life = history("23:30", exclude=["2026-01-02/2026-01-03"], catchup="skip")
    assert life.at(datetime(2026, 1, 4, tzinfo=UTC)) == [
        "skip 00:00-23:00 x48 excluded",
        "fire 00:00 schedule",
    ]
    assert life.skips[0].due_to == datetime(2026, 1, 3, 23, tzinfo=UTC)


def test_the_next_due_time_is_the_first_after_the_excluded_days() -> None:
    life = history("12:00", exclude=["2026-01-01/2026-01-03"])
    planned = life.plan(NOON + MINUTE)
    assert planned.next_due_at == planned.wake_at == datetime(2026, 1, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("day", "first", "count"),
    [
        ("2026-03-29", datetime(2026, 3, 28, 23, tzinfo=UTC), 23),
        ("2026-10-25", datetime(2026, 10, 24, 22, tzinfo=UTC), 25),
        ("2026-01-01", datetime(2025, 12, 31, 23, tzinfo=UTC), 24),
    ],
)
def test_days_are_local_and_as_long_as_the_clocks_make_them(
    day: str, first: datetime, count: int
) -> None:
    trigger = {"cron": "0 * * * *", "tz": "Europe/Brussels"}
    life = history(first - MINUTE, trigger, exclude=[day], overlap="allow", grace="2d")
    life.plan(first + count * HOUR)
    assert [(s.due_from, s.count, s.reason) for s in life.skips] == [(first, count, "excluded")]
    assert [fire.due_at for fire in life.fires] == [first + count * HOUR]


def test_excluded_days_inside_an_outage_are_neither_missed_nor_coalesced() -> None:
    life = history(
        datetime(2026, 1, 1, 12, 30, tzinfo=UTC), {"daily": "13:00"}, exclude=["2026-01-03"]
    )
    planned = life.plan(datetime(2026, 1, 5, 12, tzinfo=UTC))
    assert [type(d).__name__ for d in planned.decisions] == ["Skip", "Skip", "Fire"]
    assert {(s.reason, s.count) for s in life.skips} == {("coalesced", 2), ("excluded", 1)}
    assert life.fires[0].due_at == datetime(2026, 1, 4, 13, tzinfo=UTC)


# -- start_at, end_at, max_runs, several triggers


def test_times_before_the_start_and_after_the_end_are_no_due_times() -> None:
    bounds = {"start_at": "2026-01-01T12:00:00Z", "end_at": "2026-01-01T14:00:00Z"}
    life = history("08:30", overlap="allow", grace="1d", **bounds)
    assert life.at("18:30") == [f"fire {hour}:00 schedule" for hour in (12, 13, 14)]
    assert life.status == "active", "its runs have not ended"
    for _ in range(3):
        life.settle()
    life.at("18:31")
    assert (life.status, life.wake_at) == ("completed", None)


def test_a_schedule_completes_when_its_runs_are_used_up_and_have_ended() -> None:
    life = history("11:30", max_runs=2)
    assert life.at("12:00") == ["fire 12:00 schedule"]
    life.settle(at="12:10")
    planned = life.plan(clock("13:00"))
    assert told(planned.decisions) == ["fire 13:00 schedule"]
    assert planned.next_due_at is None
    (fire,) = planned.decisions
    assert isinstance(fire, Fire)
    assert fire.wakes, "the end of the last run completes the schedule"
    life.settle(at="13:10")
    life.at("13:10")
    assert (life.status, life.wake_at) == ("completed", None)


def test_due_times_beyond_the_last_run_are_recorded() -> None:
    life = history("08:30", max_runs=2, catchup="all", overlap="allow", catchup_pace="0s")
    assert life.at("12:30") == [
        "fire 09:00 catchup",
        "fire 10:00 catchup",
        "skip 11:00-12:00 x2 max_runs",
    ]


def test_nothing_waits_for_its_pace_once_the_runs_are_used_up() -> None:
    life = history("08:30", max_runs=1, catchup="all")
    assert life.at("12:30") == ["fire 09:00 catchup", "skip 10:00-12:00 x3 max_runs"]
    life.settle(at="12:31")
    life.at("12:31")
    assert life.status == "completed"


def test_manual_and_backfill_runs_do_not_count_but_hold_up_the_completion() -> None:
    life = history("11:30", max_runs=1, overlap="allow")
    life.add_run("by-hand")
    assert life.at("12:00") == ["fire 12:00 schedule"]
    life.settle("run-12:00")
    life.at("12:01")
    assert life.status == "active"
    life.settle("by-hand")
    life.at("12:02")
    assert life.status == "completed"


def test_several_triggers_are_one_series() -> None:
    life = history("11:30", ["0 * * * *", "30 * * * *", "0 12 * * *"], overlap="allow")
    assert life.at("12:00") == ["fire 12:00 schedule"]
    assert life.wake_at == clock("12:30")
    assert life.at("14:10") == ["skip 12:30-13:30 x3 coalesced", "fire 14:00 catchup"]


def test_a_wait_is_always_finite() -> None:
    for policies in (
        {"overlap": "queue"},
        {"overlap": "latest"},
        {"depends_on": [{**UP, "wait": "3650d"}]},
        {"catchup": "all", "catchup_pace": "3650d"},
    ):
        life = history("08:30", grace="1m", **policies)
        life.add_run("by-hand") if "overlap" in policies else None
        wait = life.plan(clock("12:30")).decisions[-1]
        assert isinstance(wait, Defer | Skip)
        assert life.wake_at is not None
        assert life.wake_at <= clock("13:00")

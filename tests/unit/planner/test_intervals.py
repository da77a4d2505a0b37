"""The data intervals of runs: from the due time before to their own, as the triggers have them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duebook.model.plan import DueException
from duebook.model.run import Interval
from duebook.planner.intervals import interval_of
from tests.unit.planner.histories import HOUR, History, calendar, clock, history

HOURLY = "0 * * * *"


def hours(start: str, end: str) -> Interval:
    return Interval(clock(start), clock(end))


def intervals(life: History) -> list[Interval | None]:
    return [fire.interval for fire in life.fires]


def test_a_run_has_the_interval_from_the_due_time_before() -> None:
    life = history("08:30")
    assert life.at("09:00") == ["fire 09:00 schedule"]
    assert intervals(life) == [hours("08:00", "09:00")]


def test_the_intervals_of_a_backlog_join() -> None:
    life = history("08:30", overlap="allow", catchup="all", catchup_pace="0s")
    life.at("11:30")
    assert intervals(life) == [
        hours("08:00", "09:00"),
        hours("09:00", "10:00"),
        hours("10:00", "11:00"),
    ]


def test_skipped_and_excluded_due_times_are_ends_of_intervals_all_the_same() -> None:
    life = history("08:30")
    life.say(DueException(clock("09:00"), "skip"))
    life.at("09:00")
    life.at("10:00")
    assert intervals(life) == [hours("09:00", "10:00")]
    rested = history("23:30", exclude=["2026-01-02"])
    rested.at("00:00", day=3)
    midnight = clock("00:00", 3)
    assert intervals(rested) == [Interval(midnight - HOUR, midnight)]


def test_the_due_times_of_several_triggers_are_merged_first() -> None:
    life = history("08:30", trigger=[{"cron": HOURLY}, {"daily": "08:40"}])
    assert interval_of(life.snapshot, clock("09:00")) == hours("08:40", "09:00")
    assert interval_of(life.snapshot, clock("08:40")) == hours("08:00", "08:40")


def test_a_due_time_that_was_moved_keeps_its_interval_also_when_its_own_time_has_passed() -> None:
    life = history("08:30")
    life.say(
        DueException(clock("09:00"), "moved_away", clock("09:20")),
        DueException(clock("09:20"), "moved_here", moved_from=clock("09:00")),
    )
    assert life.at("09:00") == ["skip 09:00 superseded"]
    assert life.at("09:20") == ["fire 09:20 schedule"]
    assert life.at("10:00") == ["skip 10:00 overlap"]
    assert intervals(life) == [hours("08:00", "09:00")]


def test_a_due_time_moved_onto_another_one_is_that_one() -> None:
    life = history("08:30")
    life.say(
        DueException(clock("09:00"), "moved_away", clock("10:00")),
        DueException(clock("10:00"), "moved_here", moved_from=clock("09:00")),
    )
    life.at("10:00")
    assert intervals(life) == [hours("09:00", "10:00")]


def test_jitter_moves_no_interval() -> None:
    life = history("08:30", jitter="10m")
    life.at("09:10")
    assert intervals(life) == [hours("08:00", "09:00")]


@pytest.mark.parametrize(
    ("due_at", "length"),
    [
        (datetime(2026, 3, 28, 23, tzinfo=UTC), 24),
        (datetime(2026, 3, 29, 22, tzinfo=UTC), 23),
        (datetime(2026, 3, 30, 22, tzinfo=UTC), 24),
        (datetime(2026, 10, 25, 23, tzinfo=UTC), 25),
    ],
)
def test_a_day_on_which_clocks_change_has_another_length(due_at: datetime, length: int) -> None:
    daily = history("08:30", trigger={"daily": "00:00", "tz": "Europe/Brussels"})
    start = due_at - timedelta(hours=length)
    assert interval_of(daily.snapshot, due_at) == Interval(start, due_at)


def test_a_one_off_has_no_interval() -> None:
    life = history("08:30", trigger={"at": "2026-01-01T09:00:00Z"})
    life.at("09:00")
    assert intervals(life) == [None]


def test_a_one_off_has_no_interval_even_where_another_definition_was_before_it() -> None:
    life = history("08:30")
    life.edit(clock("08:40"), trigger={"at": "2026-01-01T09:20:00Z"})
    life.at("09:20")
    assert intervals(life) == [None]


# -- edits


def test_after_an_edit_the_interval_starts_at_the_last_due_time_of_the_old_definition() -> None:
    life = history("08:30")
    life.at("09:00")
    life.settle()
    life.edit(clock("09:20"), trigger="30 * * * *")
    life.at("09:30")
    life.settle()
    life.at("10:30")
    assert intervals(life)[1:] == [hours("09:00", "09:30"), hours("09:30", "10:30")]


def test_a_slower_definition_takes_over_where_a_faster_one_ended() -> None:
    life = history("08:30", trigger="*/10 * * * *")
    life.edit(clock("08:35"), trigger="0 12 * * *")
    life.at("12:00")
    assert intervals(life) == [hours("08:30", "12:00")]


def test_several_edits_between_two_due_times_leave_no_gap() -> None:
    life = history("08:30")
    life.at("09:00")
    life.settle()
    for minute in ("09:10", "09:20", "09:25"):
        life.edit(clock(minute), trigger=f"{int(minute[3:]) + 25} * * * *")
    life.at("09:50")
    assert intervals(life)[1:] == [hours("09:00", "09:50")]


def test_an_edit_of_what_waits_applies_from_the_watermark_on() -> None:
    policies = {"catchup": "all", "overlap": "allow", "catchup_pace": "0s"}
    life = history("08:30", **policies)
    life.edit(clock("10:40"), trigger="30 * * * *", **policies)
    life.at("10:40")
    assert intervals(life) == [hours("08:00", "09:30"), hours("09:30", "10:30")]


def test_an_edit_that_keeps_the_triggers_changes_no_interval() -> None:
    life = history("08:30")
    life.edit(clock("08:40"), trigger=HOURLY, description="the same")
    life.at("09:00")
    assert intervals(life) == [hours("08:00", "09:00")]


def test_a_due_time_before_the_edit_has_the_interval_of_the_definition_in_force() -> None:
    """As a backfill runs them."""
    life = history("12:10", trigger="*/10 * * * *")
    life.edit(clock("12:15"), trigger=HOURLY)
    found = [interval_of(life.snapshot, clock(at)) for at in ("11:00", "12:00", "13:00", "14:00")]
    assert found == [
        hours("10:00", "11:00"),
        hours("11:00", "12:00"),
        hours("12:10", "13:00"),
        hours("13:00", "14:00"),
    ]


@pytest.mark.parametrize(("roll", "landed"), [("next", 5), ("previous", 2)])
def test_due_times_that_roll_to_another_day_keep_the_interval_of_the_last(
    roll: str, landed: int
) -> None:
    weekend = calendar("except", "2026-01-03", "2026-01-04", roll=roll)
    life = history(datetime(2026, 1, 1, tzinfo=UTC), {"weekly": "SAT,SUN 09:00"}, calendar=weekend)
    saturday, sunday, found = (datetime(2026, 1, day, 9, tzinfo=UTC) for day in (3, 4, landed))
    assert interval_of(life.snapshot, found) == Interval(saturday, sunday)

"""Calendars: closed days, where their due times roll, and what an edit makes of both."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.model.plan import Reason
from duebook.planner import DueTimes, plan
from tests.support.examples import some_of
from tests.support.waiting import takes_less_than
from tests.unit.planner.histories import (
    HOUR,
    MINUTE,
    NOON,
    TICK,
    History,
    calendar,
    clock,
    history,
    make_spec,
)

DAY = timedelta(days=1)
WEEKEND = ["2026-01-03", "2026-01-04"]  # Saturday and Sunday
NINE = {"daily": "09:00", "tz": "Europe/Brussels"}


def days(due: DueTimes, after: datetime, count: int) -> list[str]:
    found = []
    for at in due.among(after, after + 366 * DAY):
        found.append(f"{at:%m-%d %H:%M}")
        if len(found) == count:
            break
    return found


def due_times(trigger: Any, **policies: Any) -> DueTimes:
    return DueTimes(make_spec(trigger, **policies), (), NOON, "etl")


def live(life: History, until: datetime) -> None:
    """Plan whenever the schedule asks for it; runs end at once."""
    moment: datetime | None = life.now
    while moment is not None and moment < until:
        moment = life.plan(moment).wake_at
        while life.runs:
            life.settle()
    life.plan(until)


def entries(life: History) -> list[tuple[str, str, int, str | None]]:
    return [
        (f"{skip.due_from:%m-%d %H:%M}", skip.reason, skip.count, skip.facts.get("rolled_to"))
        for skip in life.skips
    ]


def test_a_closed_day_has_no_due_time_and_is_in_the_ledger() -> None:
    life = history(NOON, NINE, calendar=calendar("except", *WEEKEND))
    live(life, clock("12:00", 6))
    assert [f"{fire.due_at:%d}" for fire in life.fires] == ["02", "05", "06"]
    assert entries(life) == [("01-03 08:00", "calendar", 2, None)]
    assert life.skips[0].facts["calendar"] == "days"


def test_only_the_days_of_a_calendar_are_open() -> None:
    due = due_times(NINE, calendar=calendar("only", "2026-01-05", "2026-01-07"))
    assert days(due, NOON, 5) == ["01-05 08:00", "01-07 08:00"]


@pytest.mark.parametrize(("roll", "to"), [("next", "2026-01-05"), ("previous", "2026-01-02")])
def test_a_due_time_rolls_to_the_same_wall_time_and_merges_with_what_is_due_there(
    roll: str, to: str
) -> None:
    life = history(NOON, NINE, calendar=calendar("except", *WEEKEND, roll=roll))
    live(life, clock("12:00", 6))
    assert [f"{fire.due_at:%d}" for fire in life.fires] == ["02", "05", "06"]
    assert entries(life) == [("01-03 08:00", "calendar", 2, to)]


def test_a_due_time_that_meets_no_other_runs_where_it_rolls_to() -> None:
    saturday = {"weekly": "SAT 09:30", "tz": "Europe/Brussels"}
    for roll, fired in (("next", "01-05 08:30"), ("previous", "01-02 08:30")):
        life = history(NOON, saturday, calendar=calendar("except", *WEEKEND, roll=roll))
        live(life, clock("12:00", 6))
        assert [f"{fire.due_at:%m-%d %H:%M}" for fire in life.fires] == [fired]
        assert entries(life) == [("01-03 08:30", "calendar", 1, f"2026-{fired[:5]}")]


def test_a_one_off_rolls_and_then_completes() -> None:
    at = {"at": "2026-01-03T09:00:00Z"}
    for roll, due in (("next", "01-05 09:00"), ("previous", "01-02 09:00")):
        life = history(NOON, at, calendar=calendar("except", *WEEKEND, roll=roll))
        live(life, clock("12:00", 6))
        assert [f"{fire.due_at:%m-%d %H:%M}" for fire in life.fires] == [due]
        assert life.status == "completed"


def test_nothing_lands_on_an_excluded_day_and_nothing_rolls_from_it() -> None:
    policies = {"calendar": calendar("except", *WEEKEND, roll="next"), "exclude": ["2026-01-05"]}
    life = history(NOON, {"weekly": "SAT,MON 09:00"}, **policies)
    live(life, clock("12:00", 7))
    assert [f"{fire.due_at:%m-%d %H:%M}" for fire in life.fires] == ["01-06 09:00"]
    found = {(reason, to) for _, reason, _, to in entries(life)}
    assert found == {("calendar", "2026-01-06"), ("excluded", None)}


def test_a_roll_that_would_land_behind_the_watermark_is_recorded_as_edited() -> None:
    """Created on Saturday: Friday is over."""
    life = history(clock("07:00", 3), NINE, calendar=calendar("except", *WEEKEND, roll="previous"))
    live(life, clock("12:00", 6))
    assert [f"{fire.due_at:%d}" for fire in life.fires] == ["05", "06"]
    assert entries(life) == [("01-03 08:00", "edited", 2, "2026-01-02")]


@pytest.mark.parametrize("created", ["01-02T11:20", "01-03T07:00", "01-01T12:00"])
def test_what_rolls_to_a_wall_time_that_is_decided_is_recorded_as_edited(created: str) -> None:
    """Saturday and Sunday roll to Friday, which is decided up to where the schedule was created."""
    since = datetime.fromisoformat(f"2026-{created}:00Z")
    half_hourly = {"cron": "*/30 * * * *", "tz": "Europe/Brussels"}
    spec = make_spec(half_hourly, calendar=calendar("except", *WEEKEND, roll="previous"))
    left_out = DueTimes(spec.counting_from(since), (), since, "etl").left_out(since, NOON + 9 * DAY)
    closed = [clock("23:00", 2) + number * 30 * MINUTE for number in range(96)]
    expected = {
        at: Reason.EDITED if at - (1 + number // 48) * DAY <= since else Reason.CALENDAR
        for number, at in enumerate(closed)
        if at > since
    }
    found = {at: s.reason for s in left_out for at in closed if s.due_from <= at <= s.due_to}
    assert found == expected
    assert sum(skip.count for skip in left_out) == len(expected)


@pytest.mark.parametrize("roll", ["next", "previous"])
def test_a_plan_is_quick_however_many_minutes_of_closed_days_are_behind(roll: str) -> None:
    closed = [f"{NOON + number * DAY:%Y-%m-%d}" for number in range(1, 300)]
    life = history(clock("13:00", 2), "* * * * *", calendar=calendar("except", *closed, roll=roll))
    facts, now = life.facts(), NOON + 250 * DAY
    assert takes_less_than(0.05, lambda: plan(facts, now))


def test_wall_times_roll_over_changes_of_clocks() -> None:
    """29 March 2026: 02:30 does not exist in Brussels. 25 October: it comes twice."""
    brussels = {"daily": "02:30", "tz": "Europe/Brussels"}
    spring = due_times(brussels, calendar=calendar("except", "2026-03-28", roll="next"))
    assert days(spring, datetime(2026, 3, 27, 12, tzinfo=UTC), 2) == ["03-29 01:00", "03-30 00:30"]
    saturday = {"weekly": "SAT 02:30", "tz": "Europe/Brussels"}
    autumn = due_times(saturday, calendar=calendar("except", "2026-10-24", roll="next"))
    assert days(autumn, datetime(2026, 10, 23, tzinfo=UTC), 1) == ["10-25 00:30"]


def test_rolls_stay_within_the_bounds_of_a_schedule() -> None:
    rolled = {"calendar": calendar("except", *WEEKEND, roll="next")}
    due = due_times({"weekly": "SAT 09:00"}, end_at="2026-01-04T00:00:00Z", **rolled)
    assert days(due, NOON, 5) == []


def test_days_outside_the_hundred_years_are_in_no_calendar() -> None:
    late = datetime(2099, 12, 30, tzinfo=UTC)
    assert days(due_times("0 9 * * *", calendar=calendar("only", "2026-01-05")), late, 3) == []
    open_ = due_times("0 9 * * *", calendar=calendar("except", "2099-12-31", roll="next"))
    assert days(open_, late, 3) == ["12-30 09:00", "01-01 09:00", "01-02 09:00"]


def test_forwards_and_backwards_find_the_same_due_times() -> None:
    for roll in ("skip", "next", "previous"):
        policies = {"calendar": calendar("except", *WEEKEND, "2026-01-06", roll=roll)}
        due = due_times(["40 9 * * 6", "0 */5 * * *"], **policies)
        until = NOON + 9 * DAY
        forwards = list(due.among(NOON, until))
        backwards = []
        found = due.last(NOON, until)
        while found is not None:
            backwards.append(found)
            found = due.last(NOON, found - timedelta(microseconds=1))
        assert backwards[::-1] == forwards
        assert due.count(NOON, until) == len(forwards)
        for at, following in pairwise(forwards):  # to and fro
            assert due.next_after(at) == following
            assert due.last(NOON, following - TICK) == at
        assert due.newest_from(NOON, until, 3) <= forwards[-3]
        assert due.count(due.newest_from(NOON, until, 3), until) == 3


# -- edits


def test_an_edit_keeps_what_has_rolled_and_is_still_to_come() -> None:
    """On Sunday the due times of the weekend have given way to Monday: an edit does not drop that,
    and one that closes Monday moves it on."""
    saturday = {"weekly": "SAT 09:30"}
    for more, fired in (([], "01-05 09:30"), (["2026-01-05"], "01-06 09:30")):
        life = history(NOON, saturday, calendar=calendar("except", *WEEKEND, roll="next"))
        live(life, clock("12:00", 4))
        edited = calendar("except", *WEEKEND, *more, "2026-02-01", roll="next", version=2)
        life.edit(clock("13:00", 4), trigger=saturday, calendar=edited)
        live(life, clock("12:00", 8))
        assert [f"{fire.due_at:%m-%d %H:%M}" for fire in life.fires] == [fired]


def test_an_edit_that_adds_a_calendar_does_not_run_again_what_ran() -> None:
    saturday = {"weekly": "SAT 09:30"}
    life = history(NOON, saturday)
    live(life, clock("12:00", 4))
    life.edit(
        clock("13:00", 4), trigger=saturday, calendar=calendar("except", *WEEKEND, roll="next")
    )
    live(life, clock("12:00", 8))
    assert [f"{fire.due_at:%m-%d %H:%M}" for fire in life.fires] == ["01-03 09:30"]


def test_an_edit_of_something_else_changes_no_roll() -> None:
    weekend = calendar("except", *WEEKEND, roll="previous")
    life = history(NOON, NINE, calendar=weekend)
    live(life, clock("12:00", 2))
    life.edit(clock("13:00", 2), trigger=NINE, calendar=weekend, description="other")
    live(life, clock("12:00", 5))
    assert entries(life) == [("01-03 08:00", "calendar", 2, "2026-01-02")]


DAY_SETS = st.lists(st.sampled_from([f"2026-01-0{day}" for day in range(1, 6)]), unique=True)
CALENDARS = st.one_of(
    st.none(),
    st.tuples(
        st.sampled_from(["only", "except"]), DAY_SETS, st.sampled_from(["skip", "next", "previous"])
    ),
)


def as_policy(made: tuple[str, list[str], str] | None) -> dict[str, Any]:
    if made is None:
        return {}
    mode, found, roll = made
    return {"calendar": calendar(mode, *found, roll=roll)}


@settings(max_examples=some_of(150))
@given(
    CALENDARS,
    st.lists(st.tuples(CALENDARS, st.integers(1, 40), st.booleans()), min_size=1, max_size=4),
    st.sampled_from([{"every": "7h", "anchor": "2026-01-01T00:00:00Z"}, "30 2,21 * * *"]),
)
def test_every_nominal_due_time_ends_once_whatever_calendars_are_edited(
    first: tuple[str, list[str], str] | None,
    edits: list[tuple[tuple[str, list[str], str] | None, int, bool]],
    trigger: Any,
) -> None:
    policies = {"overlap": "allow", "catchup": "all", "catchup_pace": "0s"}
    life = history(NOON, trigger, **policies, **as_policy(first))
    now = NOON
    for made, hours, plans_first in edits:
        now += hours * HOUR
        if plans_first:
            life.plan(now)
        life.edit(now + MINUTE, trigger=trigger, **policies, **as_policy(made))
        now += MINUTE
    live(life, now + 8 * DAY)
    watermark = life.snapshot.watermark
    assert watermark is not None
    nominal = set(DueTimes(make_spec(trigger), (), NOON, "etl").among(NOON, watermark))
    fired = {fire.due_at for fire in life.fires}
    recorded = [
        at
        for skip in life.skips
        for at in nominal | {skip.due_from}
        if skip.due_from <= at <= skip.due_to
    ]
    assert all(skip.reason in (Reason.CALENDAR, Reason.EDITED) for skip in life.skips)
    for at in nominal:
        assert (at in fired) + recorded.count(at) == 1, at
    assert sum(skip.count for skip in life.skips) == len(recorded)

"""Missed due times that a plan holds, and what a choice takes out of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.model.held import HeldRange
from duebook.model.plan import DueException, WindowSpan
from duebook.model.window import without_overlap
from duebook.planner import DueTimes, Held, newest_since
from tests.unit.planner.histories import (
    HOUR,
    MINUTE,
    NOON,
    TICK,
    calendar,
    clock,
    history,
    make_spec,
)

if TYPE_CHECKING:
    from datetime import datetime


def test_more_missed_due_times_than_allowed_are_held_and_live_ones_fire() -> None:
    life = history("08:00", catchup_approval=2)
    assert life.at("12:00") == ["hold 09:00-11:00 x3", "fire 12:00 schedule"]
    assert life.snapshot.watermark == clock("12:00")
    assert life.at("13:00") == ["skip 13:00 overlap"]


def test_as_many_as_allowed_follow_catchup() -> None:
    life = history("08:00", catchup_approval=3)
    assert life.at("11:30") == ["skip 09:00-10:00 x2 coalesced", "fire 11:00 catchup"]


@pytest.mark.parametrize("catchup", ["one", "skip", "all"])
@pytest.mark.parametrize("overlap", ["skip", "queue", "latest", "cancel", "allow"])
def test_no_policy_decides_about_what_is_held(catchup: str, overlap: str) -> None:
    bounds = {"catchup_window": "1h", "catchup_limit": 1}
    life = history("08:00", catchup=catchup, overlap=overlap, catchup_approval=2, **bounds)
    assert life.at("12:00") == ["hold 09:00-11:00 x3", "fire 12:00 schedule"]


def test_a_live_due_time_does_not_give_way_to_one_that_will_be_held() -> None:
    life = history("08:00", overlap="latest", catchup_approval=1)
    life.add_run("busy", "schedule")
    assert life.at("09:00") == ["wait 09:00 overlap"]
    life.settle("busy", "13:30")
    assert life.at("13:30") == ["fire 09:00 schedule", "hold 10:00-13:00 x4"]


def test_a_backlog_that_grows_too_long_is_held_with_what_is_left_of_it() -> None:
    life = history("08:00", catchup="all", overlap="queue", catchup_approval=3)
    assert life.at("10:30") == ["fire 09:00 catchup", "wait 10:00 pace"]
    assert life.at("13:30") == ["hold 10:00", "hold 11:00-13:00 x3"]


def test_a_very_long_outage_is_held_without_looking_at_each_due_time() -> None:
    life = history("08:00", "* * * * *", catchup_approval=3)
    assert life.at(NOON.replace(year=2056))[0].startswith("hold 08:01-11:58 x1")
    assert not life.holds[0].exact


@pytest.mark.parametrize(
    ("days", "missed", "definition"),
    [
        (1, 2_880, {"trigger": ["0 * * * * *", "30 * * * * *"]}),
        (14, 8_640, {"trigger": "*/10 * * * * *", "exclude": ["2026-01-02/2026-01-14"]}),
        (8, 5_760, {"trigger": "*/2 * * * *", "calendar": calendar("except", roll="next")}),
    ],
)
def test_the_limit_is_exact_however_many_were_missed(
    days: int, missed: int, definition: dict[str, Any]
) -> None:
    """Also where due times are merged, taken out of a very long stretch, or may roll."""
    now = NOON + 24 * days * HOUR + MINUTE + TICK
    for most in (missed, missed - 1):
        life = history(NOON, catchup_approval=most, catchup="skip", **definition)
        life.plan(now)
        assert bool(life.holds) == (missed > most)


# -- ranges and choices


def make(first: datetime, last: datetime, count: int, trigger: Any = "0 * * * *") -> Held:
    return Held.of(HeldRange("etl", "id", first, last, count, True, 1, NOON), make_spec(trigger))


def hours(*held: Held | None) -> list[tuple[int, int, int]]:
    ranges = [one.range for one in held if one is not None]
    return [(found.due_from.hour, found.due_to.hour, found.count) for found in ranges]


def test_a_range_is_cut_at_its_due_times() -> None:
    held = make(clock("01:00"), clock("09:00"), 9)
    inside, rest = held.cut(clock("03:30"), clock("06:00"))
    assert (hours(inside), hours(*rest)) == ([(4, 6, 3)], [(1, 3, 3), (7, 9, 3)])
    assert held.cut(clock("00:00"), clock("23:00")) == (held, [])
    assert held.cut(clock("03:10"), clock("03:50")) == (None, [held])
    assert held.cut(clock("10:00"), clock("11:00")) == (None, [held])


def test_a_due_time_that_was_moved_there_is_a_range_of_its_own() -> None:
    held = make(clock("05:30"), clock("05:30"), 1)
    assert list(held.among()) == list(held.latest()) == [clock("05:30")]
    assert held.covers(clock("05:30"))
    assert not held.covers(clock("05:00"))
    assert held.cut(clock("05:30"), clock("05:30")) == (held, [])
    assert held.cut(clock("05:31"), clock("09:00")) == (None, [held])


def test_the_newest_are_counted_over_all_ranges() -> None:
    held = [
        make(clock("01:00"), clock("04:00"), 4),
        make(clock("03:30"), clock("03:30"), 1),
        make(clock("07:00"), clock("08:00"), 2),
    ]
    found = [f"{newest_since(held, number):%H:%M}" for number in (1, 2, 3, 4, 5, 99)]
    assert found == ["08:00", "07:00", "04:00", "03:30", "03:00", "01:00"]


def test_a_range_has_no_due_time_of_a_maintenance_window() -> None:
    life = history("08:00", catchup_approval=2)
    window = WindowSpan("db", clock("10:00"), clock("12:00"))
    life.snapshot = replace(life.snapshot, windows=(window,))
    assert life.at("14:00") == [
        "hold 09:00",
        "hold 12:00-13:00 x2",
        "skip 10:00-11:00 x2 paused",
        "fire 14:00 schedule",
    ]


minutes = st.integers(-60, 800)
spans = st.lists(st.tuples(minutes, st.integers(0, 300)), max_size=4)


@given(
    st.sampled_from(["0 * * * *", "*/7 * * * *", ["*/20 * * * *", "0,30 * * * *"]]),
    spans,
    spans,
    st.lists(st.tuples(minutes, st.sampled_from(["skip", "moved_away", "moved_here"])), max_size=6),
)
def test_what_is_held_is_what_is_due_and_cuts_lose_and_double_nothing(
    trigger: Any,
    cuts: list[tuple[int, int]],
    windows: list[tuple[int, int]],
    said: list[tuple[int, Any]],
) -> None:
    planned = without_overlap(
        WindowSpan("db", NOON + start * MINUTE, NOON + (start + length) * MINUTE)
        for start, length in windows
    )
    exceptions = [DueException(NOON + at * MINUTE, kind) for at, kind in said]
    due = DueTimes(make_spec(trigger), exceptions, NOON, "etl", windows=planned)
    every = list(due.among(NOON, NOON + 720 * MINUTE))
    held = due.hold_all(NOON, NOON + 720 * MINUTE)
    left = [make(one.due_from, one.due_to, one.count, trigger) for one in held]
    assert all(one.exact for one in held)
    taken: list[datetime] = []
    for start, length in cuts:
        since, until = NOON + start * MINUTE, NOON + (start + length) * MINUTE
        parts = [held.cut(since, until) for held in left]
        inside = [part for part, _ in parts if part is not None]
        left = [part for _, rest in parts for part in rest]
        chosen = [at for held in inside for at in held.among()]
        assert all(since <= at <= until for at in chosen)
        assert sum(held.range.count for held in inside) == len(chosen)
        taken += chosen
    kept = [at for held in left for at in held.among()]
    assert sorted(taken + kept) == every
    assert sum(held.range.count for held in left) == len(kept)

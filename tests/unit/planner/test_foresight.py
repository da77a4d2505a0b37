"""Which due times a change moves, takes away and adds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.budget import Budget
from duebook.model.calendar_days import DaySet
from duebook.model.calendar_use import CalendarUse
from duebook.model.definition import load_spec
from duebook.model.plan import DueException, Snapshot
from duebook.planner.foresight import foresee_change, foresee_end, foresee_new, pair_up

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
WEEK = NOW + timedelta(days=7)
HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-01-{text}+00:00")


@pytest.mark.parametrize(
    ("was", "becomes", "appear", "disappear", "move"),
    [
        ("05T14:00", "05T15:00", "", "", "05T14:00 05T15:00"),
        ("05T14:00 06T14:00", "06T14:00", "", "05T14:00", ""),
        ("06T02:30 07T02:30", "05T13:30 06T03:30 07T03:30", "05T13:30", "",
         "06T02:30 06T03:30 07T02:30 07T03:30"),
        ("05T23:30 06T23:30", "06T00:30 07T00:30", "", "", "05T23:30 06T00:30 06T23:30 07T00:30"),
        ("05T12:00 05T12:10 05T12:20 05T12:30", "05T12:00 05T12:15 05T12:30", "", "05T12:20",
         "05T12:10 05T12:15"),
        ("", "05T13:00", "05T13:00", "", ""),
        ("", "", "", "", ""),
    ],
)  # fmt: skip
def test_due_times_are_paired_with_their_nearest(
    was: str, becomes: str, appear: str, disappear: str, move: str
) -> None:
    old, new = ([at(text) for text in texts.split()] for texts in (was, becomes))
    found = pair_up(old, new)
    assert [[f"{moment:%dT%H:%M}" for moment in times] for times in found[:2]] == [
        appear.split(),
        disappear.split(),
    ]
    assert [f"{moment:%dT%H:%M}" for pair in found[2] for moment in pair] == move.split()


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_every_due_time_is_told_of_once(was: set[int], becomes: set[int]) -> None:
    old, new = ([NOW + n * HOUR for n in sorted(hours)] for hours in (was, becomes))
    appear, disappear, move = pair_up(old, new)
    assert sorted([*disappear, *(one.was for one in move)]) == sorted(set(old) - set(new))
    assert sorted([*appear, *(one.becomes for one in move)]) == sorted(set(new) - set(old))


def snapshot(**more: object) -> Snapshot:
    form = {"trigger": {"every": "1h", "anchor": "2026-01-05T00:00:00Z"}, "target": "report"}
    spec = load_spec(form, "job")
    return Snapshot("id", "job", 3, spec, "active", NOW, **more)  # type: ignore[arg-type]


def test_at_most_ten_are_listed_and_the_others_counted() -> None:
    spec = snapshot().spec
    new = foresee_new("job", spec, NOW, WEEK)
    assert (len(new.appear), new.more, new.appear[0]) == (10, 7 * 24 - 10, NOW + HOUR)
    gone = foresee_end(snapshot(), NOW, WEEK)
    assert (gone.disappear, gone.more) == (new.appear, new.more)
    rarer = {"trigger": {"every": "2h", "anchor": "2026-01-05T00:00:00Z"}}
    half = load_spec(spec.to_json() | rarer, "job")
    changed = foresee_change(snapshot(), half, NOW, WEEK)
    assert (len(changed.disappear), changed.more) == (10, 84 - 10)
    assert (changed.appear, changed.move, changed.notes) == ((), (), ())


def test_due_times_beyond_the_most_are_counted_but_not_compared() -> None:
    every = {"trigger": {"every": "1m", "anchor": "2026-01-05T00:00:00Z"}}
    spec = load_spec(snapshot().spec.to_json() | every, "job")
    found = foresee_change(snapshot(), spec, NOW, WEEK, most=200)
    assert found.disappear == (), "beyond the last that was compared nothing disappears"
    assert found.compared_until == NOW + timedelta(minutes=198), "3 are of the old trigger"
    assert len(found.appear) + found.more == 7 * 24 * 59, "so many more there are"
    limited = load_spec(spec.to_json() | {"max_runs": 1_000}, "job")
    bound = foresee_change(snapshot(), limited, NOW, WEEK, most=200)
    assert len(bound.appear) + bound.more == 200 - 3 - 3


@pytest.mark.parametrize(
    ("was", "becomes", "days", "changes", "all_compared"),
    [
        ("1m", "2m", 1, 720, True),
        ("1m", "2m", 7, 5_040, True),
        ("1m", "2m", 366, 366 * 720, False),
        ("10s", "20s", 7, 30_240, False),
    ],
)
def test_all_due_times_that_change_are_counted(
    was: str, becomes: str, days: int, changes: int, all_compared: bool
) -> None:
    old, new = (
        load_spec(
            {"trigger": {"every": each, "anchor": "2026-01-05T00:00:00Z"}, "target": "x"}, "job"
        )
        for each in (was, becomes)
    )
    before = Snapshot("id", "job", 3, old, "active", NOW)
    found = foresee_change(before, new, NOW, NOW + timedelta(days=days))
    assert len(found.disappear) + found.more == changes
    assert (found.compared_until is None) == all_compared
    gone = foresee_end(before, NOW, NOW + timedelta(days=days))
    assert (len(gone.disappear) + gone.more, gone.compared_until) == (2 * changes, None)


def test_a_comparison_that_takes_too_long_ends_where_it_came_to() -> None:
    steps = iter(range(10_000))
    few = Budget(30, clock=lambda: float(next(steps)))
    every = {"trigger": {"every": "1m", "anchor": "2026-01-05T00:00:00Z"}}
    spec = load_spec(snapshot().spec.to_json() | every, "job")
    found = foresee_change(snapshot(), spec, NOW, WEEK, few)
    assert found.compared_until is not None
    assert found.compared_until < NOW + timedelta(days=1)


def test_skips_stay_out_of_the_comparison() -> None:
    skipped = snapshot(exceptions=(DueException(NOW + HOUR, "skip"),))
    found = foresee_end(skipped, NOW, NOW + 2 * HOUR)
    assert found.disappear == (NOW + 2 * HOUR,)


def test_runs_that_are_left_bound_what_appears() -> None:
    spec = load_spec(snapshot().spec.to_json() | {"max_runs": 12}, "job")
    new = foresee_new("job", spec, NOW, WEEK)
    assert (len(new.appear), new.more) == (10, 2)


def test_a_completed_schedule_that_becomes_active_again_is_a_warning() -> None:
    done = snapshot()
    done.status = "completed"
    spec = load_spec(done.spec.to_json() | {"priority": 1}, "job")
    assert [note.code for note in foresee_change(done, spec, NOW, WEEK).notes] == ["active_again"]


def test_a_calendar_moves_due_times() -> None:
    weekly = {"trigger": {"daily": "09:00"}, "target": "report"}
    was = Snapshot("id", "job", 1, load_spec(weekly, "job"), "active", NOW)
    use = CalendarUse("sundays", "except").resolved(1, DaySet.of([at("11T00:00").date()]))
    changed = foresee_change(was, replace(was.spec, calendar=use), NOW, WEEK)
    assert [f"{moment:%dT%H:%M}" for moment in changed.disappear] == ["11T09:00"]


def test_stops_and_restarts_are_compared_too() -> None:
    form = {"trigger": {"daily": "09:00"}, "target": {"flow": "etl"}}
    late = load_spec(form | {"stop": {"daily": "18:00"}}, "etl")
    early = load_spec(
        form | {"stop": {"daily": "17:00"}, "restart": {"weekly": "SUN 04:00"}}, "etl"
    )
    was = Snapshot("id", "etl", 1, late, "active", NOW)
    changed = foresee_change(was, early, NOW, NOW + 24 * HOUR)
    assert (changed.appear, changed.disappear, changed.move) == ((), (), ())
    (stop,) = changed.controls
    assert (stop.kind, stop.appear, stop.disappear) == ("stop", (), ())
    assert [f"{moment:%H:%M}" for pair in stop.move for moment in pair] == ["18:00", "17:00"]
    new = foresee_new("etl", early, NOW, WEEK)
    assert [(one.kind, len(one.appear)) for one in new.controls] == [("stop", 7), ("restart", 1)]
    gone = foresee_end(replace(was, spec=early), NOW, WEEK)
    assert [(one.kind, len(one.disappear)) for one in gone.controls] == [
        ("stop", 7),
        ("restart", 1),
    ]

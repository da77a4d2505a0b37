"""Whole lives of schedules, made up at random: every due time is decided, and decided once.

A life is a list of steps: plans at odd moments (with outages between them), runs that end, manual
runs, pauses, edits of the policies, upstreams that succeed. Afterwards all comes to rest, and the
decisions are compared with a brute-force count of what the triggers yielded.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duebook.model.plan import Defer, DueException, Fire, Hold, Skip
from duebook.model.schedule import ScheduleSpec
from duebook.planner import DueTimes, plan
from duebook.planner.plan import _by_all_rules, _on_time
from tests.support.examples import some_of
from tests.support.waiting import takes_less_than
from tests.unit.planner.histories import (
    MINUTE,
    NOON,
    SECOND,
    TICK,
    History,
    calendar,
    history,
    make_spec,
    told,
)

DAY = timedelta(days=1)
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)

TRIGGERS = st.sampled_from(
    [
        "0 * * * *",
        "*/25 * * * *",
        "*/15 9-17 * * *",
        ["*/20 * * * *", "0,30 * * * *"],
        {"every": "25m", "anchor": "2026-01-01T00:00:00Z"},
        {"daily": ["12:30", "13:00"], "tz": "Europe/Brussels"},
    ]
)

POLICIES: dict[str, st.SearchStrategy[Any]] = {
    "start_at": st.sampled_from([None, "2026-01-01T13:10:00Z"]),
    "end_at": st.sampled_from([None, "2026-01-01T20:00:00Z", "2026-01-02T03:00:00Z"]),
    "max_runs": st.sampled_from([None, 1, 3]),
    "jitter": st.sampled_from(["0s", "10m", "2h"]),
    "exclude": st.sampled_from([[], ["2026-01-02"], ["2026-01-01/2026-01-02"]]),
    "calendar": st.sampled_from(
        [
            calendar(mode, *days, roll=roll)
            for roll in ("skip", "next", "previous")
            for mode, days in (
                ("except", ["2026-01-02"]),
                ("except", ["2026-01-01"]),
                ("except", ["2026-01-02", "2026-01-03"]),
                ("only", ["2026-01-01", "2026-01-03"]),
                ("only", ["2026-01-02"]),
            )
        ]
    ),
    "grace": st.sampled_from(["0s", "1m", "45m"]),
    "catchup": st.sampled_from(["one", "skip", "all"]),
    "catchup_window": st.sampled_from([None, "90m"]),
    "catchup_limit": st.sampled_from([1, 3, 1000]),
    "catchup_pace": st.sampled_from(["0s", "1m", "20m"]),
    "catchup_approval": st.sampled_from([None, 0, 2]),
    "overlap": st.sampled_from(["skip", "queue", "latest", "cancel", "allow"]),
    "skip_if_successful": st.booleans(),
    "on_resume": st.sampled_from(["skip", "catchup"]),
    "depends_on": st.sampled_from(
        [
            [],
            [{"schedule": "extract", "within": "1h", "wait": "30m"}],
            [{"schedule": "gone", "within": "1h"}],
        ]
    ),
}
"""Every field that the planner looks at, besides the triggers."""

OF_NO_MATTER = {
    "target",
    "payload",
    "description",
    "labels",
    "title",
    "max_concurrent",
    "keep",
    "keep_last",
    "queue",
    "priority",
    "retry",
    "max_takeovers",
    "timeout",
    "expire_after",
    "stop",
    "restart",
}
"""Fields for claims, attempts and people, on which no plan depends; stops and restarts of flows
have a line of their own."""


def test_every_field_is_varied_below_or_known_not_to_matter() -> None:
    known = {"triggers", *POLICIES} | OF_NO_MATTER
    assert known == {field.name for field in fields(ScheduleSpec) if field.init}


definitions = st.fixed_dictionaries({"trigger": TRIGGERS}, optional=POLICIES)
uncalendared = definitions.map(lambda made: {k: v for k, v in made.items() if k != "calendar"})
"""For edits of which the account is known; `test_calendars.py` edits calendars."""
specs = definitions.map(lambda definition: make_spec(**definition))
lengths = st.one_of(
    st.integers(1, 600).map(lambda seconds: seconds * SECOND),
    st.integers(1, 150).map(lambda minutes: minutes * MINUTE),
)
STEPS = (
    "plan",
    "plan",
    "plan",
    "plan",
    "settle",
    "settle",
    "manual",
    "upstream",
    "pause",
    "resume",
)
steps = st.lists(st.tuples(st.sampled_from(STEPS), lengths), min_size=1, max_size=10)


def take_step(life: History, step: str, now: datetime) -> None:
    status = life.snapshot.status
    if step == "settle" and life.runs:
        life.settle(at=now)
    elif step == "manual" and status != "completed":
        life.now = now
        life.add_run(f"manual at {now}")
    elif step == "upstream":
        life.upstream(extract=now)
    elif step == "pause" and status == "active":
        life.pause(now)
    elif step == "resume" and status == "paused":
        life.resume(now)
    elif step == "plan":
        check_plan(life, now)


def check_plan(life: History, now: datetime) -> None:
    planned = life.plan(now)
    for decision in planned.decisions:
        if isinstance(decision, Fire):
            assert decision.due_at <= now, "nothing fires before it is due"
        elif isinstance(decision, Skip | Hold):
            assert decision.due_from <= decision.due_to <= now
            assert decision.count >= 1
        else:
            assert now < decision.until < now + 366 * DAY, "a wait has an end"
    waits = any(isinstance(decision, Defer) for decision in planned.decisions)
    assert not waits or (planned.wake_at is not None and planned.wake_at > now)
    if planned.status == "active":
        assert planned.wake_at is not None, "an active schedule is looked at again"
        assert waits == bool(planned.seen) or len(planned.decisions) >= 1_000


def come_to_rest(life: History, now: datetime) -> datetime:
    """Runs end at once, until nothing waits; returns the time of the last plan."""
    if life.snapshot.status == "paused":
        life.resume(now)
    for _ in range(300):
        while life.runs:
            life.settle(at=now)
        life.upstream(extract=now)
        check_plan(life, now)
        if not life.waits and not life.runs:
            return now
        now = now + SECOND if life.runs or life.wake_at is None else max(now + SECOND, life.wake_at)
    raise AssertionError("it never comes to rest")


def yielded(spec: ScheduleSpec, after: datetime, until: datetime) -> set[datetime]:
    """What has to be accounted for, by brute force: what the triggers yield and where that rolls;
    excluded and closed days count, times outside do not."""
    bounds = spec.start_at or FIRST, spec.end_at or LAST
    regular = {
        due
        for trigger in spec.triggers
        for due in trigger.between(after - 5 * DAY, until + 5 * DAY, 100_000)
        if bounds[0] <= due <= bounds[1]
    }
    landed = {landing(spec, due) for due in regular}
    inside = {at for at in landed if at is not None and bounds[0] <= at <= bounds[1]}
    return {at for at in regular | inside if after < at <= until}


def landing(spec: ScheduleSpec, due: datetime) -> datetime | None:
    """Where a due time of a closed day goes."""
    use = spec.calendar
    if use is None or use.days is None or use.roll == "skip":
        return None
    days, wall = use.days, due.astimezone(ZoneInfo(spec.tz))
    excluded = [span for span in spec.exclude if span.first <= wall.date() <= span.last]
    if excluded or (use.since and due <= use.since):
        return None
    if (wall.date() in days) == (use.mode == "only"):
        return None
    for number in range(1, 10):
        day = wall.date() + (number if use.roll == "next" else -number) * DAY
        free = not any(span.first <= day <= span.last for span in spec.exclude)
        if free and (day in days) == (use.mode == "only"):
            landed = datetime.combine(day, wall.time(), wall.tzinfo).astimezone(UTC)
            return landed if use.since is None or landed > use.since else None
    return None


def check_account(life: History, expected: set[datetime]) -> None:
    lost = sorted(due for due in expected if not life.covers(due))
    assert not lost, f"lost: {lost}"
    assert life.decided() == len(expected), f"{told([*life.fires, *life.skips])}"


@settings(max_examples=some_of(200))
@given(definitions, steps)
def test_every_due_time_is_decided_once_over_a_whole_life(
    definition: dict[str, Any], life_steps: list[tuple[str, timedelta]]
) -> None:
    life, now = history(NOON, **definition), NOON
    for step, length in life_steps:
        now += length
        take_step(life, step, now)
    come_to_rest(life, now)
    assert life.snapshot.watermark is not None
    spec = life.snapshot.spec
    check_account(life, yielded(spec, NOON, life.snapshot.watermark))
    over = life.snapshot.status == "completed" or spec.jitter
    assert over or life.snapshot.watermark == life.now, "all up to now is decided"


@settings(max_examples=some_of(200))
@given(
    definitions,
    st.lists(
        st.tuples(
            st.sampled_from(["skip", "move", "back", "plan", "plan", "settle", "pause", "resume"]),
            lengths,
        ),
        max_size=8,
    ),
)
def test_what_people_say_about_single_due_times_is_accounted_for(
    definition: dict[str, Any], life_steps: list[tuple[str, timedelta]]
) -> None:
    """Moved due times are counted where they were and where they went, unless that is one."""
    life, now, moved = history(NOON, **definition), NOON, set[datetime]()
    for step, length in life_steps:
        now += length
        due = DueTimes.of(life.facts(), now).next_after(now)
        if step == "skip" and due and life.snapshot.status == "active":
            life.say(DueException(due, "skip"))
            check_plan(life, now)
        elif step == "move" and due and life.snapshot.status == "active":
            to = now + length + TICK
            life.say(DueException(due, "moved_away", to), DueException(to, "moved_here"))
            moved.add(to)
            check_plan(life, now)
        else:
            take_step(life, step, now)
    end = come_to_rest(life, max(now, *moved) if moved else now)
    assert life.snapshot.watermark is not None
    assume(end >= max(moved, default=end) and life.snapshot.watermark >= max(moved, default=NOON))
    assume(not life.snapshot.exceptions)
    check_account(life, yielded(life.snapshot.spec, NOON, life.snapshot.watermark) | moved)


@settings(max_examples=some_of(150))
@given(uncalendared, st.lists(st.tuples(uncalendared, steps), min_size=1, max_size=3))
def test_an_edit_loses_and_doubles_nothing(
    definition: dict[str, Any], parts: list[tuple[dict[str, Any], list[tuple[str, timedelta]]]]
) -> None:
    """Each edit only changes policies: with the triggers in force, the account must balance."""
    life, now = history(NOON, **definition), NOON
    for changed, life_steps in parts:
        for step, length in life_steps:
            now += length
            take_step(life, step, now)
        now += MINUTE
        assume(life.snapshot.status != "completed")
        kept = {
            key: definition[key] for key in ("trigger", "start_at", "end_at") if key in definition
        }
        rest = {
            key: value
            for key, value in changed.items()
            if key not in ("trigger", "start_at", "end_at")
        }
        life.edit(now, **kept, **rest)
    come_to_rest(life, now)
    assert life.snapshot.watermark is not None
    check_account(life, yielded(life.snapshot.spec, NOON, life.snapshot.watermark))


@settings(max_examples=some_of(200))
@given(uncalendared, uncalendared, steps, steps)
def test_another_trigger_applies_to_what_is_pending(
    old: dict[str, Any],
    new: dict[str, Any],
    before: list[tuple[str, timedelta]],
    after: list[tuple[str, timedelta]],
) -> None:
    """With something pending, both triggers are accounted for from the watermark on."""
    life, now = history(NOON, **old), NOON
    for step, length in before:
        now += length
        take_step(life, step, now)
    now += MINUTE
    assume(life.snapshot.status != "completed")
    assume(not any(stretch.kind == "done" for stretch in life.snapshot.seen))
    assert life.snapshot.watermark is not None
    watermark, spec = life.snapshot.watermark, life.snapshot.spec
    decided = life.decided()
    life.edit(now, **new)
    pending = life.snapshot.watermark == watermark
    edited_at = now
    for step, length in after:
        now += length
        take_step(life, step, now)
    come_to_rest(life, now)
    begin = watermark if pending else edited_at
    assert life.snapshot.watermark is not None
    renewed = yielded(life.snapshot.spec, begin, max(edited_at, life.snapshot.watermark))
    held_back = {due for due in renewed if due > life.snapshot.watermark}  # by its jitter
    expected = (yielded(spec, watermark, edited_at) | renewed) - held_back
    assert life.decided() - decided == len(expected)
    assert all(life.covers(due) for due in expected)


@settings(max_examples=some_of(400))
@given(
    specs,
    st.integers(0, 2_000).map(lambda minutes: NOON + minutes * MINUTE),
    st.sampled_from([0, 1, 59, 60, 61, 3_600]),
    st.sampled_from(["idle", "busy", "said", "paused", "completed", "used up"]),
)
def test_planning_is_deterministic_and_the_short_way_leads_to_the_same_plan(
    spec: ScheduleSpec, place: datetime, late: int, state: str
) -> None:
    """Shortly after a due time, where the short way is taken if anywhere."""
    due_at = min(at for t in spec.triggers if (at := t.next_after(place)))
    status: Any = state if state in ("paused", "completed") else "active"
    life = history(place)
    life.snapshot = replace(life.snapshot, spec=spec, status=status, watermark=due_at - TICK)
    if state == "busy":
        life.add_run("run-1")
    if state == "said":
        life.say(DueException(due_at, "skip"))
    if state == "used up":
        life.snapshot = replace(life.snapshot, fired=3)
    facts, now = life.facts(), due_at + late * SECOND
    assert plan(facts, now) == plan(facts, now) == _by_all_rules(facts, now)


def test_the_short_way_is_taken() -> None:
    assert _on_time(history("11:30").facts(), NOON) is not None
    assert _on_time(history("11:30", overlap="queue").facts(), NOON) is None


@given(definitions, steps)
def test_replanning_a_committed_plan_fires_nothing(
    definition: dict[str, Any], life_steps: list[tuple[str, timedelta]]
) -> None:
    """A backlog may go on to record: a run that ended at this very instant lets it."""
    life, now = history(NOON, **definition), NOON
    for step, length in life_steps:
        now += length
        take_step(life, step, now)
    while life.plan(now).wake_at == now:  # the rest of a flood
        pass
    assert not [d for d in life.plan(now).decisions if isinstance(d, Fire)]


@given(
    TRIGGERS,
    st.sampled_from(["0s", "1m", "45m"]),
    st.integers(1, 1_000),
    st.integers(1, 1_000),
)
def test_an_outage_in_two_parts_ends_like_one(
    trigger: Any, grace: str, first: int, second: int
) -> None:
    policies = {"catchup": "all", "catchup_pace": "0s", "overlap": "allow", "grace": grace}
    end = NOON + (first + second) * MINUTE
    once = history(NOON, trigger, **policies)
    once.plan(end)
    twice = history(NOON, trigger, **policies)
    twice.plan(NOON + first * MINUTE)
    twice.plan(end)
    assert [f.due_at for f in once.fires] == [f.due_at for f in twice.fires]
    assert (once.skips, twice.skips) == ([], [])


@pytest.mark.parametrize("overlap", ["skip", "queue", "latest", "cancel", "allow"])
@pytest.mark.parametrize("catchup", ["one", "skip", "all"])
@pytest.mark.parametrize("pace", ["1m", "0s"])
def test_thirty_years_of_minutes_take_milliseconds_under_every_policy(
    catchup: str, overlap: str, pace: str
) -> None:
    life = history(
        NOON - 30 * 365 * DAY, "* * * * *", catchup=catchup, overlap=overlap, catchup_pace=pace
    )
    facts = life.facts()
    assert takes_less_than(0.05, lambda: plan(facts, NOON))

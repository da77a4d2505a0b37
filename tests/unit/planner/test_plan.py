"""The planner: which due times fire, which do not, and why; on snapshots made by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.model.definition import load_spec
from duebook.model.plan import (
    ActiveRun,
    DueException,
    Fire,
    Plan,
    Reason,
    Skip,
    Snapshot,
    Stretch,
)
from duebook.planner import plan, plan_edit, plan_end, plan_pause, plan_resume
from tests.support.waiting import takes_less_than

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def snapshot(
    watermark: datetime | None,
    trigger: Any = "0 * * * *",
    active: tuple[ActiveRun, ...] = (),
    exceptions: tuple[DueException, ...] = (),
    **policies: Any,
) -> Snapshot:
    definition = {"trigger": trigger, "target": {"command": ["true"]}, **policies}
    spec = load_spec(definition, "etl")
    return Snapshot("id", "etl", 1, spec, "active", watermark, active, exceptions)


def said(planned: Plan) -> list[tuple[str, str, str]]:
    """(decision, when, why) in order; a range as first/last/count."""
    found: list[tuple[str, str, str]] = []
    for decision in planned.decisions:
        if isinstance(decision, Fire):
            found.append(("fire", f"{decision.due_at:%H:%M}", decision.origin))
        elif isinstance(decision, Skip):
            first, last = f"{decision.due_from:%H:%M}", f"{decision.due_to:%H:%M}"
            span = first if decision.count == 1 else f"{first}-{last}/{decision.count}"
            found.append(("skip", span, decision.reason))
    return found


BUSY = (ActiveRun("run-1", NOON - HOUR, NOON - HOUR),)


def test_a_due_time_fires_when_it_has_come() -> None:
    planned = plan(snapshot(NOON - MINUTE), NOON)
    assert said(planned) == [("fire", "12:00", "schedule")]
    assert planned.watermark == NOON
    assert planned.next_due_at == planned.wake_at == NOON + HOUR


def test_nothing_fires_before_it_is_due() -> None:
    planned = plan(snapshot(NOON - MINUTE), NOON - timedelta(microseconds=1))
    assert said(planned) == []
    assert planned.next_due_at == NOON


def test_a_missing_watermark_counts_as_new() -> None:
    planned = plan(snapshot(None), NOON + MINUTE)
    assert said(planned) == []
    assert planned.watermark == NOON + MINUTE


def test_a_due_time_within_the_grace_is_live_and_beyond_it_missed() -> None:
    live = plan(snapshot(NOON - MINUTE), NOON + MINUTE)
    assert said(live) == [("fire", "12:00", "schedule")]
    late = plan(snapshot(NOON - MINUTE), NOON + MINUTE + timedelta(microseconds=1))
    assert said(late) == [("fire", "12:00", "catchup")]
    patient = plan(snapshot(NOON - MINUTE, grace="10m"), NOON + 9 * MINUTE)
    assert said(patient) == [("fire", "12:00", "schedule")]


@pytest.mark.parametrize(
    ("catchup", "overlap", "active", "expected"),
    [
        ("one", "skip", (), [("skip", "09:00-11:00/3", "coalesced"), ("fire", "12:00", "catchup")]),
        (
            "one",
            "skip",
            BUSY,
            [("skip", "09:00-11:00/3", "coalesced"), ("skip", "12:00", "overlap")],
        ),
        (
            "one",
            "allow",
            BUSY,
            [("skip", "09:00-11:00/3", "coalesced"), ("fire", "12:00", "catchup")],
        ),
        ("skip", "skip", (), [("skip", "09:00-12:00/4", "missed")]),
        ("skip", "allow", BUSY, [("skip", "09:00-12:00/4", "missed")]),
    ],
)
def test_an_outage_is_caught_up_as_the_policy_says(
    catchup: str, overlap: str, active: tuple[ActiveRun, ...], expected: list[Any]
) -> None:
    planned = plan(
        snapshot(NOON - 4 * HOUR, active=active, catchup=catchup, overlap=overlap),
        NOON + 30 * MINUTE,
    )
    assert said(planned) == expected


def test_missed_and_live_due_times_are_decided_in_order() -> None:
    planned = plan(snapshot(NOON - 3 * HOUR, overlap="allow"), NOON)
    assert said(planned) == [
        ("skip", "10:00", "coalesced"),
        ("fire", "11:00", "catchup"),
        ("fire", "12:00", "schedule"),
    ]


def test_under_skip_a_due_time_is_skipped_while_another_of_the_same_plan_fires() -> None:
    planned = plan(snapshot(NOON - 3 * HOUR), NOON)
    assert said(planned)[-1] == ("skip", "12:00", "overlap")
    skip = planned.decisions[-1]
    assert isinstance(skip, Skip)
    assert skip.facts == {"due_at": NOON - HOUR}


def test_a_skip_names_the_run_that_was_active_and_since_when() -> None:
    planned = plan(snapshot(NOON - MINUTE, active=BUSY), NOON)
    skip = planned.decisions[0]
    assert isinstance(skip, Skip)
    assert (skip.reason, skip.facts) == (Reason.OVERLAP, {"run": "run-1", "since": NOON - HOUR})


def test_several_triggers_are_merged_and_deduplicated() -> None:
    planned = plan(
        snapshot(NOON - MINUTE, trigger=["0 * * * *", "0 12 * * *"], overlap="allow"), NOON
    )
    assert said(planned) == [("fire", "12:00", "schedule")]


def test_a_clock_that_steps_back_fires_nothing_again() -> None:
    first = plan(snapshot(NOON - MINUTE), NOON)
    again = plan(snapshot(first.watermark), NOON - HOUR)
    assert said(again) == []
    assert again.watermark == NOON
    assert again.next_due_at == NOON + HOUR


def test_a_one_off_fires_once_and_completes_when_its_run_has_ended() -> None:
    one_off = {"at": "2026-01-01T12:00:00Z"}
    fired = plan(snapshot(NOON - HOUR, trigger=one_off), NOON)
    assert fired.decisions == (Fire(NOON, "schedule", wakes=True),)
    assert fired.status == "active"
    assert fired.next_due_at is None
    assert fired.wake_at is not None, "looked at again, should the settle's hint be lost"
    waiting = plan(snapshot(fired.watermark, trigger=one_off, active=BUSY), NOON + MINUTE)
    assert (waiting.status, waiting.decisions) == ("active", ())
    done = plan(snapshot(fired.watermark, trigger=one_off), NOON + 2 * MINUTE)
    assert (done.status, done.wake_at) == ("completed", None)


def test_a_paused_schedule_is_left_alone() -> None:
    paused = replace(snapshot(NOON - 3 * HOUR), status="paused")
    planned = plan(paused, NOON)
    assert planned.decisions == ()
    assert (planned.status, planned.watermark, planned.wake_at) == ("paused", NOON - 3 * HOUR, None)


def test_resuming_records_what_fell_meanwhile() -> None:
    paused = replace(snapshot(NOON - 3 * HOUR), status="paused")
    planned = plan_resume(paused, NOON + MINUTE)
    assert said(planned) == [("skip", "10:00-12:00/3", "paused")]
    assert (planned.status, planned.watermark) == ("active", NOON + MINUTE)
    assert planned.wake_at == NOON + HOUR


def test_resuming_with_catchup_leaves_it_to_the_next_plan() -> None:
    paused = replace(snapshot(NOON - 3 * HOUR, on_resume="catchup"), status="paused")
    planned = plan_resume(paused, NOON + 2 * MINUTE)
    assert planned.decisions == ()
    assert planned.wake_at == NOON + 2 * MINUTE
    resumed = snapshot(planned.watermark, on_resume="catchup")
    assert said(plan(resumed, NOON + 2 * MINUTE))[-1] == ("fire", "12:00", "catchup")


def test_deleting_records_what_was_pending() -> None:
    (entry,) = plan_end(snapshot(NOON - 2 * HOUR), NOON)
    assert (entry.reason, entry.count) == (Reason.DELETED, 2)


def test_a_due_time_that_a_person_skipped_is_recorded_as_such() -> None:
    skipped = DueException(NOON, "skip")
    before = plan(snapshot(NOON - HOUR, exceptions=(skipped,)), NOON - MINUTE)
    assert before.next_due_at == NOON + HOUR
    assert before.wake_at == NOON, "it is recorded when it comes"
    assert before.used == ()
    planned = plan(snapshot(NOON - MINUTE, exceptions=(skipped,)), NOON)
    assert said(planned) == [("skip", "12:00", "skipped_by_user")]
    assert planned.used == (skipped,)


def test_a_moved_due_time_fires_where_it_was_moved_to() -> None:
    moved_to = NOON + 10 * MINUTE
    said_of_it = (DueException(NOON, "moved_away", moved_to), DueException(moved_to, "moved_here"))
    first = plan(snapshot(NOON - MINUTE, exceptions=said_of_it), NOON)
    assert said(first) == [("skip", "12:00", "superseded")]
    assert first.next_due_at == moved_to
    then = plan(snapshot(first.watermark, exceptions=said_of_it[1:]), moved_to)
    assert said(then) == [("fire", "12:10", "schedule")]
    assert then.next_due_at == NOON + HOUR


def test_a_due_time_moved_to_the_past_fires_at_once_whatever_the_catchup() -> None:
    here = DueException(NOON - 5 * HOUR, "moved_here")
    planned = plan(snapshot(NOON - MINUTE, exceptions=(here,), catchup="skip"), NOON - MINUTE)
    assert said(planned) == [("fire", "07:00", "schedule")]


@pytest.mark.parametrize(
    ("catchup", "expected"),
    [
        (
            "one",
            [
                ("skip", "10:00-11:00/2", "coalesced"),
                ("skip", "10:30", "coalesced"),
                ("skip", "09:00", "superseded"),
                ("fire", "12:00", "catchup"),
            ],
        ),
        (
            "skip",
            [
                ("skip", "10:00-12:00/3", "missed"),
                ("skip", "10:30", "missed"),
                ("skip", "09:00", "superseded"),
            ],
        ),
    ],
)
def test_a_moved_due_time_that_an_outage_swallowed_is_missed_like_any_other(
    catchup: str, expected: list[Any]
) -> None:
    moved_to = NOON - 90 * MINUTE
    said_of_it = (
        DueException(NOON - 3 * HOUR, "moved_away", moved_to),
        DueException(moved_to, "moved_here"),
    )
    planned = plan(
        snapshot(NOON - 4 * HOUR, exceptions=said_of_it, catchup=catchup), NOON + 30 * MINUTE
    )
    assert said(planned) == expected


def test_a_skipped_due_time_that_was_moved_is_recorded_before_completion() -> None:
    later = NOON + HOUR
    said_of_it = (
        DueException(NOON, "moved_away", later),
        DueException(later, "moved_here"),
        DueException(later, "skip"),
    )
    one_off = {"at": "2026-01-01T12:00:00Z"}
    first = plan(snapshot(NOON - MINUTE, trigger=one_off, exceptions=said_of_it), NOON)
    assert said(first) == [("skip", "12:00", "superseded")]
    assert (first.status, first.wake_at) == ("active", later)
    left = tuple(e for e in said_of_it if e not in first.used)
    then = plan(snapshot(first.watermark, trigger=one_off, exceptions=left), later)
    assert said(then) == [("skip", "13:00", "skipped_by_user")]
    assert then.status == "completed"
    assert set(then.used) == set(left)


def test_exceptions_inside_an_outage_are_not_counted_twice() -> None:
    skipped = DueException(NOON - 2 * HOUR, "skip")
    planned = plan(
        snapshot(NOON - 4 * HOUR, exceptions=(skipped,), catchup="skip"), NOON + 30 * MINUTE
    )
    assert said(planned) == [
        ("skip", "09:00-12:00/3", "missed"),
        ("skip", "10:00", "skipped_by_user"),
    ]


def test_thirty_years_of_minutes_are_planned_in_milliseconds() -> None:
    long_ago = snapshot(NOON - timedelta(days=30 * 365), trigger="* * * * *")
    assert takes_less_than(0.005, lambda: plan(long_ago, NOON))
    planned = plan(long_ago, NOON)
    coalesced = planned.decisions[0]
    assert isinstance(coalesced, Skip)
    assert (coalesced.count, coalesced.exact) == (100_000, False)


def test_a_flood_of_live_due_times_is_planned_in_portions() -> None:
    flood = snapshot(NOON - HOUR, trigger="* * * * * *", grace="1h", overlap="allow")
    planned = plan(flood, NOON)
    assert len(planned.decisions) == 1_000
    assert planned.wake_at is not None
    assert planned.wake_at <= NOON, "the rest follows at once"


snapshots = st.builds(
    snapshot,
    watermark=st.integers(0, 300).map(lambda minutes: NOON - minutes * MINUTE),
    trigger=st.sampled_from(
        ["* * * * *", "*/7 * * * *", "0 * * * *", ["*/5 * * * *", "*/3 * * * *"], "0 12 * * *"]
    ),
    active=st.sampled_from([(), BUSY]),
    exceptions=st.sets(st.integers(0, 400), max_size=4).map(
        lambda minutes: tuple(DueException(NOON - m * MINUTE, "skip") for m in sorted(minutes))
    ),
    catchup=st.sampled_from(["one", "skip"]),
    overlap=st.sampled_from(["skip", "allow"]),
    grace=st.sampled_from(["0s", "1m", "30m"]),
)


@given(snapshots)
def test_planning_is_deterministic(given_snapshot: Snapshot) -> None:
    assert plan(given_snapshot, NOON) == plan(given_snapshot, NOON)


@given(snapshots)
def test_every_due_time_gets_exactly_one_decision(given_snapshot: Snapshot) -> None:
    planned = plan(given_snapshot, NOON)
    watermark = given_snapshot.watermark
    assert watermark is not None
    pending = {
        due
        for trigger in given_snapshot.spec.triggers
        for due in trigger.between(watermark, NOON, 10_000)
    }
    said_of = {e.due_at for e in given_snapshot.exceptions if watermark < e.due_at <= NOON}
    decided = sum(d.count if isinstance(d, Skip) else 1 for d in planned.decisions)
    assert decided == len(pending | said_of)
    fired = [d.due_at for d in planned.decisions if isinstance(d, Fire)]
    assert fired == sorted(set(fired))
    assert set(fired) <= pending - said_of
    assert all(due <= NOON for due in fired)


@given(snapshots)
def test_replanning_a_committed_plan_fires_nothing(given_snapshot: Snapshot) -> None:
    planned = plan(given_snapshot, NOON)
    left = tuple(e for e in given_snapshot.exceptions if e not in planned.used)
    again = plan(replace(given_snapshot, watermark=planned.watermark, exceptions=left), NOON)
    assert again.decisions == ()


@given(snapshots)
def test_the_short_way_to_a_plan_leads_to_the_same_plan(given_snapshot: Snapshot) -> None:
    """Twice the same trigger has the same due times, but the short way is for one alone."""
    spec = given_snapshot.spec
    twice = replace(given_snapshot, spec=replace(spec, triggers=spec.triggers * 2))
    for now in (NOON, NOON + MINUTE, NOON + HOUR):
        assert plan(given_snapshot, now) == plan(twice, now)


# -- edits, pauses and deletes forget nothing


SKIPPED = DueException(NOON, "skip")


def test_an_edit_records_what_a_person_took_out() -> None:
    before = snapshot(NOON - MINUTE, exceptions=(SKIPPED,))
    planned = plan_edit(before, before.spec, NOON + MINUTE)
    assert said(planned) == [("skip", "12:00", Reason.SKIPPED_BY_USER)]
    assert planned.used == (SKIPPED,)
    assert planned.watermark == NOON + MINUTE


def test_what_a_person_took_out_outlasts_a_pause() -> None:
    before = snapshot(NOON - MINUTE, exceptions=(SKIPPED,))
    paused = plan_pause(before, NOON + MINUTE)
    assert paused.watermark < NOON
    after = replace(before, status="paused", watermark=paused.watermark, seen=paused.seen)
    resumed = plan_resume(after, NOON + 30 * MINUTE)
    again = replace(after, status="active", watermark=resumed.watermark, seen=resumed.seen)
    planned = plan(again, NOON + 30 * MINUTE)
    assert ("skip", "12:00", Reason.SKIPPED_BY_USER) in said(resumed) + said(planned)


def unripe() -> Snapshot:
    """A due time that has come at noon and is planned later."""
    before = snapshot(NOON - MINUTE, jitter="10m")
    assert said(plan(before, NOON + timedelta(seconds=1))) == []
    return before


def test_an_edit_keeps_a_due_time_that_waits_for_its_jitter() -> None:
    before = unripe()
    planned = plan_edit(before, before.spec, NOON + timedelta(seconds=1))
    assert said(planned) == []
    after = replace(before, watermark=planned.watermark, seen=planned.seen)
    ripe_at = plan(after, NOON + timedelta(seconds=1)).wake_at
    assert ripe_at is not None
    assert NOON < ripe_at < NOON + 10 * MINUTE
    assert said(plan(after, ripe_at)) == [("fire", "12:00", "schedule")]


def test_an_edit_records_a_due_time_that_only_the_old_definition_had_in_its_jitter() -> None:
    other = snapshot(None, "30 * * * *").spec
    planned = plan_edit(unripe(), other, NOON + timedelta(seconds=1))
    assert said(planned) == [("skip", "12:00", Reason.EDITED)]


def test_a_delete_records_a_due_time_that_waits_for_its_jitter() -> None:
    (skip,) = plan_end(unripe(), NOON + timedelta(seconds=1))
    assert (skip.due_from, skip.reason) == (NOON, Reason.DELETED)


def test_an_entry_does_not_reach_over_due_times_that_were_decided_before() -> None:
    waits = [{"schedule": "extract", "within": "1h"}]
    before = replace(
        snapshot(NOON - MINUTE, depends_on=waits, catchup="all", catchup_pace="0s"),
        seen=(
            Stretch(NOON, "live", NOON),
            Stretch(NOON + 2 * HOUR, "done", NOON + 2 * HOUR),
            Stretch(NOON + 3 * HOUR, "live", NOON + 3 * HOUR),
        ),
    )
    assert said(plan(before, NOON + 3 * HOUR)) == [
        ("skip", "12:00", Reason.DEPENDENCY),
        ("skip", "15:00", Reason.DEPENDENCY),
    ]


def test_a_due_time_that_an_edit_excludes_is_recorded_once() -> None:
    before = snapshot(NOON - MINUTE, catchup="all")
    now = NOON + HOUR + 30 * MINUTE
    spec = snapshot(None, exclude=["2026-01-01"]).spec
    edited = plan_edit(before, spec, now)
    after = replace(before, spec=spec, watermark=edited.watermark, seen=edited.seen)
    assert said(edited) + said(plan(after, now)) == [("skip", "12:00-13:00/2", Reason.EXCLUDED)]

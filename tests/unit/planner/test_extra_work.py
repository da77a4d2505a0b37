"""Manual and backfill work beside a schedule's own due times: they wait, and end as without it.

The oracle is the schedule itself, in a world without such work: whatever is started by hand, and
whenever, the same due times run, are skipped, are superseded and are cancelled.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.model.plan import Delay, DueException, Fire, Lane
from duebook.planner import walk
from tests.support.examples import some_of
from tests.unit.planner.histories import HOUR, MINUTE, NOON, History, clock, history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.run import Origin

Extra = tuple[timedelta, str, timedelta]
"""when it is asked for, after noon; its origin; how long it takes"""


@dataclass
class World:
    """One worker, who claims as stores do, and a scheduler that is never late."""

    life: History
    lengths: Sequence[timedelta]
    """how long the runs of due times take, in turn"""
    extras: list[Extra]
    now: datetime = NOON
    ends: dict[str, datetime] = field(default_factory=dict)
    took: dict[str, timedelta] = field(default_factory=dict)
    starts: dict[str, datetime] = field(default_factory=dict)

    def play(self, until: datetime) -> None:
        while self.now <= until:
            self._settle_all()
            self._ask()
            woken = self.life.wake_at is None or self.life.wake_at <= self.now
            if woken or self.now == NOON:
                self.life.plan(self.now)
            self._settle_cancelled()
            if self._claim():
                continue
            self.now = min(self._moments(), default=until + HOUR)

    def _moments(self) -> list[datetime]:
        asked = [NOON + after for after, *_ in self.extras]
        found = [*self.ends.values(), *asked, *filter(None, [self.life.wake_at])]
        return [moment for moment in found if moment > self.now]

    def _settle_all(self) -> None:
        for run_id in [run_id for run_id, at in self.ends.items() if at <= self.now]:
            del self.ends[run_id]
            wakes = self._wakes(run_id)
            self.life.settle(run_id, self.now)
            if wakes:
                self.life.plan(self.now)

    def _wakes(self, run_id: str) -> bool:
        run = self.life.runs[run_id]
        fired = [fire for fire in self.life.fires if fire.due_at == run.due_at]
        return run.lane == Lane.EXTRA or (bool(fired) and fired[0].wakes)

    def _settle_cancelled(self) -> None:
        for run_id in set(self.ends) - set(self.life.runs):
            del self.ends[run_id]

    def _ask(self) -> None:
        due = [extra for extra in self.extras if NOON + extra[0] <= self.now]
        for number, (_, origin, length) in enumerate(due):
            run_id = f"{origin} {number} at {self.now}"
            self.life.now = self.now
            self.life.add_run(run_id, origin)  # type: ignore[arg-type]
            self.took[run_id] = length
        self.extras = self.extras[len(due) :]

    def _claim(self) -> bool:
        """Whether a run began: the first by lane and age, a backfill only if nothing waits."""
        queued = [run for run in self.life.runs.values() if run.status == "queued"]
        if self.ends or not queued:
            return False
        run = min(queued, key=lambda run: run.lane)
        if run.lane == Lane.BACKFILL and self.life.waits:
            return False
        self.life.now = self.now
        self.life.start(run.id)
        self.starts[run.id] = self.now
        length = self.took.get(run.id) or self._length(run.due_at)
        self.ends[run.id] = self.now + length
        return True

    def _length(self, due_at: datetime | None) -> timedelta:
        hours = ((due_at or NOON) - NOON) // (30 * MINUTE)
        return self.lengths[hours % len(self.lengths)]

    @property
    def fates(self) -> dict[str, Any]:
        life = self.life
        own = [run_id for run_id in life.cancelled if run_id.startswith("run-")]
        return {
            "fired": sorted(fire.due_at for fire in life.fires),
            "skipped": sorted((s.due_from, s.due_to, s.reason) for s in life.skips),
            "cancelled": sorted(own),
        }


def played(
    lengths: Sequence[timedelta], extras: Sequence[Extra] = (), hours: int = 8, **policies: Any
) -> World:
    """A life up to some hours after noon, until all is at rest."""
    end_at = NOON + hours * HOUR
    life = history(NOON, **{"end_at": end_at.isoformat(), **policies})
    world = World(life, lengths, sorted(extras))
    with patch.object(walk, "RECHECK", timedelta(days=30)):  # ends of runs wake it in time
        world.play(end_at + 60 * HOUR)
    assert not life.waits, "nothing waits for ever"
    assert not life.runs
    return world


MINUTES = st.integers(1, 200).map(lambda number: number * MINUTE)
extra_work = st.lists(
    st.tuples(
        st.integers(0, 9 * 60).map(lambda number: number * MINUTE),
        st.sampled_from(["manual", "backfill"]),
        MINUTES,
    ),
    max_size=6,
)


@settings(max_examples=some_of(100))
@given(
    st.lists(MINUTES, min_size=1, max_size=5),
    extra_work,
    st.sampled_from(["skip", "queue", "latest", "cancel", "allow"]),
    st.sampled_from(["0 * * * *", "*/30 * * * *", ["0 * * * *", "10 */2 * * *"]]),
    st.sampled_from(["0s", "10m"]),
)
def test_due_times_end_as_they_would_have_without_manual_and_backfill_work(
    lengths: list[timedelta], extras: list[Extra], overlap: str, trigger: Any, jitter: str
) -> None:
    policies = {"overlap": overlap, "trigger": trigger, "jitter": jitter}
    undisturbed = played(lengths, **policies)
    assert played(lengths, extras, **policies).fates == undisturbed.fates


def test_the_oracle_is_worth_something() -> None:
    """Without extra work, runs of 70 minutes skip every other hour."""
    reasons = [skip.reason for skip in played([70 * MINUTE]).life.skips]
    assert reasons == ["overlap"] * 4


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (50, {"13:00": "13:40", "14:00": "14:30", "15:00": "15:20", "16:00": "16:10"}),
        (70, {"13:00": "13:40", "15:00": "15:00"}),
    ],
)
def test_a_delay_is_carried_on_until_it_is_made_up_for(
    minutes: int, expected: dict[str, str]
) -> None:
    """By hand from 12:50 to 13:40."""
    world = played([minutes * MINUTE], [(50 * MINUTE, "manual", 50 * MINUTE)])
    begun = {run_id[4:]: f"{at:%H:%M}" for run_id, at in world.starts.items() if "run-" in run_id}
    assert {due: begun.get(due) for due in expected} == expected
    assert len(world.life.skips) == (0 if minutes == 50 else 4)


def test_a_due_time_behind_a_late_run_is_skipped_when_it_would_have_been_anyway() -> None:
    life = history("11:30")
    life.add_run("by-hand")
    assert life.at("12:00") == ["wait 12:00 overlap"]
    assert life.snapshot.delay == Delay(held_at=NOON)
    life.settle(at="12:40")
    fired = life.plan(clock("12:40")).decisions
    assert [fire.wakes for fire in fired if isinstance(fire, Fire)] == [True]
    assert life.snapshot.delay == Delay(lag=40 * MINUTE)
    assert life.at("13:00") == ["wait 13:00 overlap"]
    assert life.wake_at == clock("13:40")
    assert life.at("13:39") == ["wait 13:00 overlap"]
    assert life.at("13:40") == ["skip 13:00 overlap"]
    life.settle(at="13:50")
    life.at("13:50")
    assert life.snapshot.delay is None, "all is made up for"


def test_several_due_times_behind_one_long_manual_run_all_run_in_order() -> None:
    life = history("11:30", grace="10h")
    life.add_run("by-hand")
    for hour in range(12, 17):
        assert life.at(f"{hour}:00") == ["wait 12:00 overlap"]
    life.settle(at="16:30")
    begun = []
    for hour in range(12, 17):
        begun += [told for told in life.at(life.now) if told.startswith("fire")]
        life.settle(at=life.now + 50 * MINUTE)
        assert begun[-1] == f"fire {hour}:00 schedule"
    assert not life.skips


@pytest.mark.parametrize("origin", ["manual", "backfill"])
@pytest.mark.parametrize("overlap", ["skip", "queue", "latest", "cancel"])
def test_a_missed_due_time_waits_for_extra_work_as_a_live_one_does(
    overlap: str, origin: Origin
) -> None:
    life = history("08:30", overlap=overlap, catchup="one")
    life.add_run("extra", origin, clock("03:00") if origin == "backfill" else None)
    life.start("extra")
    assert life.at("12:30") == ["skip 09:00-11:00 x3 coalesced", "wait 12:00 overlap"]
    life.settle(at="12:40")
    assert life.at("12:40") == ["fire 12:00 catchup"]


@pytest.mark.parametrize("overlap", ["skip", "queue", "latest", "cancel"])
def test_a_backfill_that_has_not_begun_keeps_nothing_waiting(overlap: str) -> None:
    life = history("11:30", overlap=overlap)
    life.add_run("to-come", "backfill", clock("03:00"))
    assert life.at("12:00") == ["fire 12:00 schedule"]
    assert life.snapshot.delay is None


def test_a_backfill_that_has_not_begun_holds_up_the_completion() -> None:
    for overlap in ("skip", "cancel", "allow"):
        life = history("11:30", max_runs=1, overlap=overlap)
        life.at("12:00")
        life.settle()
        life.add_run("to-come", "backfill", clock("03:00"))
        life.at("12:01")
        assert life.status == "active"
        life.settle()
        life.at("12:02")
        assert life.status == "completed"


def test_a_pause_keeps_what_waits_and_how_late_it_is() -> None:
    """Three wait behind a manual run, the pause ends long after it."""
    life = history("11:30", on_resume="skip")
    life.add_run("by-hand")
    for hour in ("12:00", "13:00", "14:00"):
        life.at(hour)
    life.pause(clock("14:30"))
    life.settle(at="15:10")
    assert life.resume(clock("17:30")) == ["skip 15:00-17:00 x3 paused"]
    begun = []
    for _ in range(3):
        begun += [told for told in life.at(life.now) if told.startswith("fire")]
        life.settle(at=life.now + 5 * MINUTE)
    assert begun == [f"fire {hour}:00 schedule" for hour in (12, 13, 14)]
    assert [skip.reason for skip in life.skips] == ["paused"]


def test_an_edit_keeps_what_waits_and_how_late_it_is() -> None:
    life = history("11:30")
    life.add_run("by-hand")
    life.at("12:00")
    life.at("13:00")
    life.edit(clock("13:10"), description="another", trigger="0 * * * *")
    life.settle(at="13:20")
    assert life.at("13:20") == ["fire 12:00 schedule", "wait 13:00 overlap"]


def test_a_schedule_that_allows_overlap_is_never_late() -> None:
    life = history("11:30")
    life.add_run("by-hand")
    life.at("12:00")
    life.edit(clock("12:10"), trigger="0 * * * *", overlap="allow")
    assert life.at("12:10") == ["fire 12:00 schedule"]
    assert life.snapshot.delay is None


def test_a_dependency_that_was_met_in_time_is_not_too_old_after_the_wait() -> None:
    life = history("11:30", depends_on=[{"schedule": "extract", "within": "30m"}])
    life.upstream(extract=clock("11:50"))
    life.add_run("by-hand")
    assert life.at("12:00") == ["wait 12:00 overlap"]
    life.settle(at="12:50")
    assert life.at("12:50") == ["fire 12:00 schedule"]


def test_a_due_time_moved_to_now_waits_behind_a_run_that_is_late() -> None:
    life = history("11:30")
    life.add_run("by-hand")
    life.at("12:00")
    life.settle(at="12:40")
    life.at("12:40")
    life.say(
        DueException(clock("13:00"), "moved_away", clock("12:30")),
        DueException(clock("12:30"), "moved_here"),
    )
    assert life.at("12:45")[0] == "wait 12:30 overlap"
    life.settle(at="12:50")
    assert "fire 12:30 schedule" in life.at("12:50")


def test_a_clock_that_steps_back_leaves_the_delay_alone() -> None:
    life = history("11:30")
    life.add_run("by-hand")
    life.at("12:00")
    before = life.snapshot
    life.at("11:00")
    assert replace(life.snapshot, seen=before.seen) == before

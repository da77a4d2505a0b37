"""Policies that meet in the same schedule: nothing is lost, doubled or stuck."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook import Retry, cron
from duebook.errors import Conflict
from duebook.model.schedule import InvalidSchedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.testing import Simulation

    Make = Callable[..., Simulation]

MIDNIGHT = datetime(2026, 2, 7, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOURLY = cron("0 * * * *")


def at(hour: int, minute: int = 0) -> datetime:
    return MIDNIGHT + timedelta(hours=hour, minutes=minute)


def reasons(sim: Simulation) -> list[tuple[str, str, int]]:
    return [(f"{e.due_at:%H:%M}", e.reason, e.count) for e in sim.ledger("job")]


def create(sim: Simulation, **definition: Any) -> None:
    form: dict[str, Any] = {"trigger": HOURLY, "target": "job"}
    sim.book.schedules.create("job", **form | definition)


@pytest.mark.parametrize("fault", ["failure", "kill"])
@pytest.mark.parametrize("limits", [{}, {"max_concurrent": 1}, {"max_concurrent": 2}])
@pytest.mark.parametrize("overlap", ["skip", "queue", "latest", "allow"])
def test_a_run_that_begins_again_and_one_that_waits_do_not_keep_each_other_out(
    simulation: Make, overlap: str, limits: dict[str, int], fault: str
) -> None:
    sim = simulation(start=MIDNIGHT, nodes=2)
    sim.task("job", takes="5m", fails=1 if fault == "failure" else 0)
    create(sim, overlap=overlap, retry=Retry(attempts=2, delay="1m"), **limits)
    sim.advance("61m")
    sim.book.schedules.trigger("job")
    if fault == "kill":
        sim.kill_node(sim.runs("job")[0].node or 0)
    sim.advance("50m")
    assert [run.status for run in sim.runs("job")] == ["succeeded", "succeeded"]


def past_due_time_that_waits(sim: Simulation) -> None:
    sim.task("job", takes="5h")
    create(sim, overlap="queue")
    sim.advance("65m")
    sim.book.schedules.reschedule("job", at(0, 30))
    sim.advance("1m")
    assert [run.due_at for run in sim.runs("job")] == [at(1)]


@pytest.mark.parametrize("what", ["pause", "edit"])
def test_a_due_time_moved_to_the_past_that_waits_outlasts_a_pause_and_an_edit(
    simulation: Make, what: str
) -> None:
    sim = simulation(start=MIDNIGHT)
    past_due_time_that_waits(sim)
    if what == "pause":
        sim.book.schedules.pause("job")
        sim.advance("1m")
        sim.book.schedules.resume("job")
    else:
        sim.book.schedules.update("job", description="another")
    sim.advance("6h")
    assert [run.due_at for run in sim.runs("job")][:2] == [at(1), at(0, 30)]


def test_a_due_time_moved_to_the_past_that_waits_is_recorded_by_a_delete(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    past_due_time_that_waits(sim)
    sim.book.schedules.delete("job")
    assert ("00:30", "deleted", 1) in reasons(sim)


def test_a_due_time_moved_to_now_waits_for_its_dependency(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    sim.task("job")
    sim.task("up", takes="15m")
    sim.book.schedules.create("up", trigger=cron("5 * * * *"), target="up")
    create(sim, depends_on=[{"schedule": "up", "within": "10m", "wait": "1h"}])
    sim.advance("5m")
    sim.book.schedules.reschedule("job", sim.now)
    sim.advance("16m")
    assert [(run.due_at, run.started_at) for run in sim.runs("job")] == [(at(0, 5), at(0, 20))]


def test_a_pause_that_ends_by_itself_ends_then_even_when_nobody_is_there(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    sim.task("job")
    create(sim, catchup="all", catchup_pace="0s", overlap="allow")
    sim.book.schedules.pause("job", until=at(2))
    sim.scheduler_down()
    sim.advance_to(at(4, 30))
    sim.scheduler_up()
    sim.advance("1m")
    assert reasons(sim) == [("01:00", "paused", 1)]
    assert [run.due_at for run in sim.runs("job")] == [at(2), at(3), at(4)]


def test_two_pauses_are_two_entries(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    sim.task("job")
    create(sim)
    for until in (at(2, 30), at(5, 40)):
        sim.book.schedules.pause("job")
        sim.advance_to(until)
        sim.book.schedules.resume("job")
        sim.advance("1m")
    assert reasons(sim) == [("01:00", "paused", 2), ("03:00", "paused", 3)]


def test_a_due_time_that_was_decided_cannot_be_chosen_again(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    sim.task("job", takes="90m")
    create(sim, overlap="cancel")
    sim.advance("70m")
    with pytest.raises(Conflict, match="has already been decided"):
        sim.book.schedules.reschedule("job", at(1))
    sim.advance("1m")
    assert [run.status for run in sim.runs("job")] == ["running"], "nothing gave way to nothing"


def test_a_due_time_moved_onto_another_moves_on_with_it(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    sim.task("job")
    create(sim)
    sim.book.schedules.reschedule("job", at(2))
    schedule = sim.book.schedules.reschedule("job", at(3, 30))
    assert schedule.next_due_at == at(3)
    sim.advance("4h")
    assert [run.due_at for run in sim.runs("job")] == [at(3), at(3, 30), at(4)]
    assert reasons(sim) == [("01:00", "superseded", 1), ("02:00", "superseded", 1)]


def test_what_waits_for_its_jitter_is_the_next_due_time(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    sim.task("job")
    create(sim, jitter="50m")
    sim.advance_to(at(1) + timedelta(seconds=1))
    assert sim.runs("job") == []
    assert sim.book.schedules.preview("job", 1) == [at(1)]
    _, skipped = sim.book.schedules.skip_next("job")
    assert skipped == at(1)


def test_jitter_is_the_same_in_every_simulation(simulation: Make) -> None:
    def started() -> list[datetime | None]:
        sim = simulation(start=MIDNIGHT)
        sim.task("job", fails=2)
        create(sim, jitter="30m", retry=2)
        sim.advance("5h")
        return [run.started_at for run in sim.runs("job")]

    assert started() == started()


def test_what_people_asked_for_does_not_expire(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    sim.task("job", takes="5m")
    create(sim, expire_after="7m", trigger=cron("*/10 * * * *"))
    sim.scheduler_down()
    sim.advance("1h")
    sim.scheduler_up()
    sim.advance("1m")
    sim.book.schedules.backfill("job", start=at(0, 1), end=at(0, 40))
    sim.book.schedules.pause("job")
    sim.advance("1h")
    filled = [run.status for run in sim.runs("job") if run.origin == "backfill"]
    assert filled == ["succeeded"] * 4


def test_what_waits_follows_the_limits_of_an_edit(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    create(sim, overlap="allow")
    for _ in range(3):
        sim.book.schedules.trigger("job")
    sim.book.schedules.update("job", overlap="skip")
    sim.task("job", takes="10m")
    sim.advance("1m")
    assert [run.status for run in sim.runs("job")] == ["running", "queued", "queued"]


def test_a_run_whose_schedule_was_deleted_is_not_tried_again(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    sim.task("job", takes="5m", fails=5)
    create(sim, retry=Retry(attempts=3, delay="1m"))
    sim.advance("61m")
    sim.book.schedules.delete("job")
    sim.advance("1h")
    assert [(run.status, run.attempt) for run in sim.runs("job")] == [("failed", 1)]


def test_no_more_runs_are_foreseen_than_the_definition_allows(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    sim.task("job")
    create(sim, max_runs=3)
    sim.advance("61m")
    assert sim.book.schedules.preview("job", 5) == [at(2), at(3)]


def test_a_skip_of_a_due_time_that_an_edit_took_away_is_forgotten(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    sim.task("job")
    create(sim)
    sim.book.schedules.skip_next("job")
    sim.book.schedules.update("job", trigger=cron("30 * * * *"))
    sim.advance("2h")
    assert reasons(sim) == []


def test_a_backlog_that_can_never_run_is_passed_quickly(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    sim.task("job")
    create(
        sim,
        trigger=cron("* * * * *"),
        grace="30d",
        depends_on=[{"schedule": "nobody", "within": "1h"}],
    )
    sim.scheduler_down()
    sim.advance("3d")
    sim.scheduler_up()
    sim.advance("1s")
    assert sum(count for _, _, count in reasons(sim)) == 3 * 24 * 60


def test_days_of_two_zones_cannot_be_excluded(simulation: Make) -> None:
    both = [cron("0 8 * * *"), cron("0 8 * * *", tz="Asia/Tokyo")]
    with pytest.raises(InvalidSchedule, match="needs a single time zone"):
        create(simulation(), trigger=both, exclude=["2026-01-05"])


def test_every_wrong_field_is_named_with_the_name(simulation: Make) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        simulation().book.schedules.create("Bad Name", trigger="61 * * * *", target=5)  # type: ignore[call-overload]
    assert set(caught.value.problems) == {"name", "trigger", "target"}


def test_schedules_that_would_wait_for_each_other_are_refused(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    create(sim, depends_on=[{"schedule": "b", "within": "1h"}])
    sim.book.schedules.create("c", trigger=HOURLY, target="job")
    on: dict[str, Any] = {"depends_on": [{"schedule": "job", "within": "1h"}]}
    sim.book.schedules.update("c", **on)
    with pytest.raises(InvalidSchedule, match="depend on itself through other schedules"):
        sim.book.schedules.create("b", trigger=HOURLY, target="job", **on)
    sim.book.schedules.create("b", trigger=HOURLY, target="job")
    with pytest.raises(InvalidSchedule, match="through other schedules"):
        sim.book.schedules.update("b", depends_on=[{"schedule": "c", "within": "1h"}])

"""Manual and backfill runs beside live due times: these wait, and none is skipped for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook import cron
from duebook.balance import check_books
from duebook.explain.words import short_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.testing import Simulation

    Make = Callable[..., Simulation]

MIDNIGHT = datetime(2026, 2, 7, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATER = [("04:00", "04:00"), ("05:00", "05:00")]


def at(hour: int, minute: int = 0) -> datetime:
    return MIDNIGHT + timedelta(hours=hour, minutes=minute)


def started(sim: Simulation, origin: str = "schedule") -> list[tuple[str, str]]:
    """Due time and start of each run of that origin, the oldest first."""
    return [
        (f"{run.due_at:%H:%M}", f"{run.started_at:%H:%M}")
        for run in sim.runs("job")
        if run.origin == origin and run.due_at is not None and run.started_at is not None
    ]


def ended(sim: Simulation, origin: str) -> int:
    runs = [run for run in sim.runs("job") if run.origin == origin]
    assert {run.status for run in runs} <= {"succeeded", "queued", "running"}
    return sum(run.status == "succeeded" for run in runs)


def a_day_later(sim: Simulation, overlap: Any = "skip", takes: str = "50m") -> None:
    """Hourly; paused for the first day, so that none of its due times has a run."""
    sim.task("job", takes=takes)
    sim.book.schedules.create("job", trigger=cron("0 * * * *"), target="job", overlap=overlap)
    sim.book.schedules.pause("job")
    sim.advance("24h30m")
    sim.book.schedules.resume("job")
    sim.advance("1s")


def let_it_end(sim: Simulation, runs: int) -> None:
    """Until all runs of the backfill have ended."""
    days = 0
    while ended(sim, "backfill") < runs:
        sim.advance("12h")
        days += 1
        assert days < 20, "the backfill comes to its end"


def check_live(sim: Simulation, skipped: int = 0) -> None:
    """Every due time from 01:00 of the second day on ran, and those up to an hour ago ended."""
    live = [run.due_at for run in sim.runs("job") if run.origin == "schedule"]
    assert live == [at(25) + n * HOUR for n in range(len(live))]
    assert len(live) >= (sim.now - at(25)) // HOUR - 1
    assert ended(sim, "schedule") >= len(live) - 1
    assert len([entry for entry in sim.ledger("job") if entry.reason != "paused"]) == skipped
    assert check_books(sim.book.store, deep=True).balanced


def test_a_backfill_of_a_day_keeps_no_live_due_time_from_running(simulation: Make) -> None:
    """Each of its runs makes live ones late, which make up for it before the next."""
    sim = simulation(start=MIDNIGHT)
    a_day_later(sim)
    assert len(sim.book.schedules.backfill("job", at(1), at(24))) == 24
    let_it_end(sim, 24)
    check_live(sim)


@pytest.mark.parametrize("overlap", ["queue", "latest", "cancel"])
def test_a_backfill_keeps_no_live_due_time_from_running_whatever_the_overlap(
    simulation: Make, overlap: str
) -> None:
    sim = simulation(start=MIDNIGHT)
    a_day_later(sim, overlap)
    sim.book.schedules.backfill("job", at(1), at(3))
    let_it_end(sim, 3)
    check_live(sim)


def test_a_backfill_runs_beside_live_due_times_where_overlap_is_allowed(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    a_day_later(sim, "allow")
    sim.book.schedules.backfill("job", at(1), at(24))
    sim.advance("50m")
    assert ended(sim, "backfill") == 24
    assert started(sim) == [("01:00", "01:00")]


def test_a_manual_run_puts_live_due_times_back_and_skips_none(simulation: Make) -> None:
    """From 00:30:01 to 01:20:01, and what follows is late until the gaps have made up for it."""
    sim = simulation(start=MIDNIGHT)
    a_day_later(sim)
    sim.book.schedules.trigger("job")
    sim.advance("5h")
    assert started(sim) == [("01:00", "01:20"), ("02:00", "02:10"), ("03:00", "03:00"), *LATER]
    check_live(sim)


def test_due_times_that_runs_of_due_times_overlap_are_skipped_all_the_same(
    simulation: Make,
) -> None:
    """Runs of 70 minutes skip every other hour, with a backfill and without."""
    sim = simulation(start=MIDNIGHT)
    a_day_later(sim, takes="70m")
    sim.book.schedules.backfill("job", at(1), at(2))
    let_it_end(sim, 2)
    skips = {e.due_at: e.reason for e in sim.ledger("job") if e.reason != "paused"}
    assert set(skips.values()) == {"overlap"}
    hours = [due for due, _ in started(sim)]
    assert hours[:5] == ["01:00", "03:00", "05:00", "07:00", "09:00"]
    assert not set(hours) & {f"{due:%H:%M}" for due in list(skips)[:5]}


def test_a_pause_lets_a_backfill_go_on_and_keeps_what_waits(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    a_day_later(sim)
    sim.book.schedules.backfill("job", at(1), at(4))
    sim.advance("35m")
    sim.book.schedules.pause("job")
    sim.advance("4h")
    assert ended(sim, "backfill") == 4
    assert started(sim) == []
    sim.book.schedules.resume("job")
    sim.advance("1m")
    assert [due for due, _ in started(sim)] == ["01:00"]


def test_a_node_that_dies_in_the_middle_of_a_backfill_skips_nothing(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT, nodes=2)
    a_day_later(sim)
    sim.book.schedules.backfill("job", at(1), at(2))
    sim.advance("40m")
    (running,) = [run for run in sim.runs("job") if run.status == "running"]
    assert running.origin == "backfill"
    sim.kill_node(running.node or 0)
    let_it_end(sim, 2)
    check_live(sim)


def test_explain_says_which_run_a_due_time_waits_for(simulation: Make) -> None:
    sim = simulation(start=MIDNIGHT)
    a_day_later(sim)
    run = sim.book.schedules.trigger("job")
    sim.advance("35m")
    told = str(sim.book.schedules.explain("job", at(25)))
    assert told == f"waiting for manual run {short_id(run.id)} to finish, active since 00:30"
    sim.advance("1h")
    late = short_id(sim.runs("job")[-1].id)
    told = str(sim.book.schedules.explain("job", at(26)))
    assert told == (
        f"waiting for run {late} to finish, until 02:20:01 at the latest: "
        "it started 20 min late because of manual or backfill runs"
    )

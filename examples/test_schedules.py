"""How to test schedules: run it with `pytest examples/test_schedules.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook import Retry, cron, every

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.testing import Simulation


def test_the_nightly_backup_runs_once_when_clocks_go_back(
    simulation: Callable[..., Simulation],
) -> None:
    sim = simulation(start="2026-10-24T12:00:00Z")
    nightly = cron("30 2 * * *", tz="Europe/Brussels")  # 02:30 occurs twice on 25 October
    sim.book.schedules.create("backup", trigger=nightly, target={"command": ["pg_dump", "mydb"]})
    sim.advance("1d")
    assert [f"{run.due_at:%d %H:%M}" for run in sim.runs("backup")] == ["25 00:30"]


def test_a_weekend_outage_brings_one_report_not_two(
    simulation: Callable[..., Simulation],
) -> None:
    sim = simulation(start="2026-02-06T12:00:00Z")
    sim.task("report", takes="15m")
    sim.book.schedules.create("report", trigger=cron("0 7 * * *"), target="report")
    sim.scheduler_down()
    sim.advance("3d")
    sim.scheduler_up()
    sim.advance("1h")
    assert [(f"{run.due_at:%d %H:%M}", run.origin) for run in sim.runs("report")] == [
        ("09 07:00", "catchup")
    ]
    assert [(entry.reason, entry.count) for entry in sim.ledger("report")] == [("coalesced", 2)]


def test_a_flaky_import_recovers_and_is_never_run_twice_at_once(
    simulation: Callable[..., Simulation],
) -> None:
    sim = simulation(start="2026-02-06T12:00:00Z", nodes=2)
    sim.task("import", takes="4m", fails=2)
    sim.book.schedules.create(
        "import",
        trigger=every("15m"),
        target="import",
        retry=Retry(attempts=3, delay="30s"),
    )
    sim.advance("1h")
    first, *others = sim.runs("import")
    assert (first.status, first.attempt) == ("succeeded", 3)
    assert [run.status for run in others] == ["succeeded", "succeeded", "running"]

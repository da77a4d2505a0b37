"""Between APScheduler and Duebook, each due time has one owner, also the one at the very border.

The limits of its jobs are those of docs/how-to/from-in-process.md; `end_date` is inclusive.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from apscheduler.triggers.cron import CronTrigger

from duebook import cron
from duebook.testing import Simulation

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "from-in-process.md"
START = datetime(2026, 3, 1, 0, 30, tzinfo=UTC)
BORDER = datetime(2026, 3, 1, 3, tzinfo=UTC)
BACK = datetime(2026, 3, 1, 5, tzinfo=UTC)
END = datetime(2026, 3, 1, 7, 30, tzinfo=UTC)


def fired(trigger: CronTrigger) -> list[datetime]:
    """When APScheduler runs it between START and END."""
    times: list[datetime] = []
    due = trigger.get_next_fire_time(None, START)
    while due is not None and due <= END:
        times.append(due)
        due = trigger.get_next_fire_time(due, due + timedelta(microseconds=1))
    return times


def test_the_recipe_gives_each_due_time_one_owner() -> None:
    page = PAGE.read_text()
    assert "end_date=border - timedelta(microseconds=1)" in page
    assert "start_date=border" in page
    before = CronTrigger(minute=0, timezone=UTC, end_date=BORDER - timedelta(microseconds=1))
    after = CronTrigger(minute=0, timezone=UTC, start_date=BACK)

    with Simulation(start=START) as sim:
        sim.task("etl")
        sim.book.shadow.on()
        sim.book.schedules.create("etl", trigger=cron("0 * * * *"), target="etl")
        sim.book.shadow.off(at=BORDER)
        sim.book.shadow.on(at=BACK)
        sim.advance("7h")
        ours = [run.due_at for run in sim.runs("etl")]

    every_hour = [datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in range(1, 8)]
    assert fired(before) + ours + fired(after) == every_hour

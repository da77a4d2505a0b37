"""How late runs start: from the due time to the start of the function itself, for all contestants.

    python -m bench.lateness [--seconds 30] [--quick]

One due time per second shows an idle worker, 200 per second show it under load. Queues get jobs
with these start times, schedulers get schedules that are due once; all poll at their default
interval, except pgqueuer, which polls every 30 s by default, and here every second.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import TYPE_CHECKING, Final

from bench.contestants import DUEBOOK, stage
from bench.goals import Goals, leave_out, show
from bench.peers import QUEUES, SCHEDULERS, available
from bench.server import durable_server

if TYPE_CHECKING:
    from tests.support.postgres import Server

REST: Final = 1
LOAD: Final = 200
PATIENCE: Final = 30
NAMES: Final = (*(name for name in SCHEDULERS if name != "Celery beat"), *QUEUES)
"""Celery beat cannot schedule a single due time, and only uses its own clock."""
GOALS: Final = {REST: (10, 25), LOAD: (10, 50)}
"""In ms: the wanted median and p99."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="how long each is measured")
    parser.add_argument("--quick", action="store_true", help="try everything for a moment")
    options = parser.parse_args()
    with durable_server() as server:
        sys.exit(report(server, 3 if options.quick else options.seconds))


def report(server: Server, seconds: int) -> int:
    goals = Goals()
    for rate in (REST, LOAD):
        words = f"{rate} due a second"
        chart = f"Lateness at the median, {words}, ms"
        for name in (DUEBOOK, *available(server, NAMES)):
            late = lateness(server, name, rate, seconds)
            if not late:
                leave_out(f"{name}, {words}", "no job started in time")
                continue
            p50, p99 = statistics.median(late), quantile(late)
            what = f"{name}, {words}"
            if name == DUEBOOK:
                goals.at_most(f"{what}: median, ms", GOALS[rate][0], [p50], chart=chart)
                goals.at_most(f"{what}: p99, ms", GOALS[rate][1], [p99])
            else:
                show(f"{what}: median, ms", [p50], chart=chart)
                show(f"{what}: p99, ms", [p99])
            show(f"{what}: longest, ms", [max(late)])
    return goals.exit_code


def quantile(late: list[float]) -> float:
    """The p99; with few values, the largest."""
    return statistics.quantiles(late, n=100, method="inclusive")[98] if len(late) > 1 else late[0]


def lateness(server: Server, name: str, rate: int, seconds: int) -> list[float]:
    """The milliseconds of each job that started."""
    number = rate * seconds
    with stage(server, name) as on_stage:
        begin = time.time() + 15 + number / 150  # by then jobs are added and a worker runs
        on_stage.add(begin, rate, seconds)
        on_stage.start()
        if time.time() > begin:
            leave_out(name, "its jobs were added too late")
            return []
        found = on_stage.wait(number, begin + seconds + PATIENCE)
    if len(found) < number:
        print(f"{name}: {number - len(found)} of {number} jobs did not start in time")
    return [note.late * 1e3 for note in found]


if __name__ == "__main__":
    main()

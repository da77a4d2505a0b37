"""How long until runs are on time again after PostgreSQL restarts, and after a worker is killed.

    python -m bench.recovery [--seconds 60] [--rate 20] [--quick]

Jobs are to start at even intervals. After a fifth of the time the server crashes and restarts, or
one of two workers gets SIGKILL while its jobs, which take a second, are running. Recovery is the
time from then (from the first response of the restarted server) until the last late job has ended;
a job is late if it takes twice as long as the slowest before, and at least a quarter of a second
more. Lost jobs and processes that end are reported.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.contestants import DUEBOOK, stage
from bench.goals import Goals, leave_out, show
from bench.peers import QUEUES, SCHEDULERS, available
from bench.server import durable_server

if TYPE_CHECKING:
    from tests.support.postgres import Server

    from bench.contestants import Note, Stage

NAMES: Final = (*(name for name in SCHEDULERS if name != "Celery beat"), *QUEUES)
ALONE: Final = ("APScheduler 3",)
"""Peers that cannot share a database among processes."""
PATIENCE: Final = 90.0
"""Seconds after the last due time, and after the fault: leases last half a minute."""
LATE: Final = 0.25
WARM: Final = 5
"""Jobs that must have ended before the fault: before that, a worker is still starting."""
WARM_WITHIN: Final = 60.0


class Recovery(NamedTuple):
    seconds: float
    lost: int
    """jobs that did not end in time"""
    late: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long jobs are due")
    parser.add_argument("--rate", type=float, default=20, help="jobs a second")
    parser.add_argument("--only", nargs="*", default=NAMES, help="peers that are measured")
    parser.add_argument("--quick", action="store_true", help="try everything for a moment")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rate = 20, 5
    with durable_server() as server:
        patience = 60 if options.quick else PATIENCE
        names = available(server, tuple(options.only))
        sys.exit(report(server, names, options.seconds, options.rate, patience))


def report(server: Server, names: list[str], seconds: float, rate: float, patience: float) -> int:
    goals = Goals()
    faults = {
        "after a crash of PostgreSQL": (partial(after_crash, server), 10),
        "after SIGKILL of a worker": (partial(after_kill, server), 45),
    }
    for words, (recover, goal) in faults.items():
        chart = f"On time again {words}, s"
        for name in (DUEBOOK, *names):
            if recover.func is after_kill and name in ALONE:
                leave_out(f"{name}, {words}", "two processes cannot share its store")
                continue
            found = recover(name, seconds, rate, patience)
            if found.lost:
                why = f"{found.lost} jobs had not ended {patience:g} s later"
                leave_out(f"{name}, {words}", why)
            elif name == DUEBOOK:
                goals.at_most(f"{name}, {words}, s", goal, [found.seconds], chart=chart)
            else:
                show(f"{name}, {words}, s", [found.seconds], chart=chart)
            show(f"{name}, {words}: late jobs", [found.late])
    return goals.exit_code


def after_crash(
    server: Server, name: str, seconds: float, rate: float, patience: float
) -> Recovery:
    with stage(server, name) as on_stage:
        begin = prepare(on_stage, seconds, rate)
        on_stage.start()
        on_stage.wait(WARM, begin + WARM_WITHIN)
        sleep_until(begin + seconds / 5)
        crashed = time.time()
        server.stop()
        server.start()
        back = time.time()
        found = on_stage.wait(round(seconds * rate), max(begin + seconds, back) + patience)
    return judge(found, crashed, back, round(seconds * rate))


def after_kill(server: Server, name: str, seconds: float, rate: float, patience: float) -> Recovery:
    with stage(server, name) as on_stage:
        begin = prepare(on_stage, seconds, rate)
        doomed = on_stage.start(hold=1)
        on_stage.start(hold=1)
        on_stage.wait(WARM, begin + WARM_WITHIN)
        sleep_until(begin + seconds / 5)
        doomed.kill()
        killed = time.time()
        found = on_stage.wait(round(seconds * rate), max(begin + seconds, killed) + patience)
    return judge(found, killed, killed, round(seconds * rate))


def prepare(on_stage: Stage, seconds: float, rate: float) -> float:
    """Add the jobs; returns when the first is due."""
    begin = time.time() + 15 + seconds * rate / 150
    on_stage.add(begin, rate, seconds)
    return begin


def sleep_until(at: float) -> None:
    time.sleep(max(at - time.time(), 0))


def judge(found: list[Note], broken: float, whole: float, number: int) -> Recovery:
    """A job that runs twice counts once, when it first ended."""
    ended: dict[float, float] = {}
    for note in found:
        ended[note.due] = min(note.started, ended.get(note.due, note.started))
    before = [at - due for due, at in ended.items() if at < broken]
    normal = max(2 * max(before, default=0), max(before, default=0) + LATE)
    late = [at for due, at in ended.items() if at >= broken and at - due > normal]
    return Recovery(max(max(late, default=whole) - whole, 0), number - len(ended), len(late))


if __name__ == "__main__":
    main()

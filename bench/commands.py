"""Commands per second beside a bare subprocess, and the processor time of each.

    python -m bench.commands [--quick]

One worker process runs `/bin/true` on both databases: the real dispatcher, slots, performer and
spawner. The bare subprocess is started by as many threads in the same process. On a busy machine
the processor times are more meaningful than the speeds. With --quick there are few commands, and
the figures mean little.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from bench.drain import Kind, idle_sync, runs_per_second
from bench.goals import Goals, show
from bench.server import durable_server
from duebook.targets.spawner import Spawner

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.postgres import Server

COMMAND = "/bin/true"
SLOTS = 50
"""As for the tasks of `bench.work`; with fewer, the disk would be measured."""
NUMBER = 2_000
ROUNDS = 3
GOAL = 800
BARE = "a bare subprocess.run"


class Figures(NamedTuple):
    """The figures of one round, or the medians of several."""

    per_second: float
    node: float
    """milliseconds of this process's processor time per command"""
    processes: float
    """the same for its children: the spawner, supervisors and the commands themselves"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try everything with few commands")
    options = parser.parse_args()
    with durable_server() as server:
        sys.exit(report(server, 1, NUMBER // 20) if options.quick else report(server))


def report(server: Server, rounds: int = ROUNDS, number: int = NUMBER) -> int:
    ways: dict[str, Callable[[], Figures]] = {
        "PostgreSQL": partial(measure, number, partial(drain, number, server)),
        "SQLite": partial(measure, number, partial(drain, number, None)),
        BARE: partial(measure, number, partial(run_bare, number)),
    }
    found = medians(ways, rounds)
    print(f"{COMMAND}, {SLOTS} at once")
    for what, (per_second, node, processes) in found.items():
        chart = f"{COMMAND} per second, {SLOTS} at once"
        show(f"{what}, commands per second", [per_second], chart=chart)
        show(f"{what}, processor time of the node, ms", [node])
        show(f"{what}, processor time below it, ms", [processes])
    for what in ("PostgreSQL", "SQLite"):
        ratio = found[what].per_second / found[BARE].per_second
        show(f"{what}, of a bare subprocess.run", [ratio])
    goals = Goals()
    for what in ("PostgreSQL", "SQLite"):
        goals.at_least(f"{what}, commands/s", GOAL, [found[what].per_second])
    return goals.exit_code


def medians(ways: dict[str, Callable[[], Figures]], rounds: int) -> dict[str, Figures]:
    """In turn, because the machine may be busy at times."""
    found: dict[str, list[Figures]] = {what: [] for what in ways}
    for _ in range(rounds):
        for what, way in ways.items():
            found[what].append(way())
    return {
        what: Figures(*(statistics.median(column) for column in zip(*figures, strict=True)))
        for what, figures in found.items()
    }


def measure(number: int, work: Callable[[], float]) -> Figures:
    """`work` returns the seconds it took; its processes have ended by then."""
    node, processes = used(resource.RUSAGE_SELF), used(resource.RUSAGE_CHILDREN)
    seconds = work()
    node = used(resource.RUSAGE_SELF) - node
    processes = used(resource.RUSAGE_CHILDREN) - processes
    return Figures(number / seconds, node / number * 1000, processes / number * 1000)


def used(whose: int) -> float:
    usage = resource.getrusage(whose)
    return usage.ru_utime + usage.ru_stime


def drain(number: int, server: Server | None) -> float:
    kind = Kind("commands", idle_sync, SLOTS, {"command": [COMMAND]})
    with Spawner() as spawner:
        return number / runs_per_second(kind, number, server, spawner=spawner)


def run_bare(number: int) -> float:
    began = time.perf_counter()
    with ThreadPoolExecutor(SLOTS) as pool:
        for _ in pool.map(lambda _: subprocess.run([COMMAND], check=True), range(number)):
            pass
    return time.perf_counter() - began


if __name__ == "__main__":
    main()

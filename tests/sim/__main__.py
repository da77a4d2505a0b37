"""Simulates worlds for as long as asked, one on each core, and prints what that reached; the first
that breaks an invariant is shrunk and printed as a test."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter, deque
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final

from tests.sim.play import as_test, play, play_seed, shrink
from tests.sim.script import draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from tests.sim.play import Played

CORES: Final = len(os.sched_getaffinity(0))
CLUSTER_DAY: Final = 100_000
"""The due times of one day on a cluster of three nodes."""
TELL_EVERY: Final = 60.0
FAULTS: Final = {
    "crash": "node crashed before or after a statement or COMMIT",
    "fail": "database failed at a statement or COMMIT",
    "stop": "node stood still",
    "deaf": "node missed hints",
    "slow": "all turns became slow",
    "jump": "clock of a node jumped",
    "database_jump": "clock of the database jumped",
}


def main() -> int:
    hours = float(os.environ.get("HOURS") or 0)
    days = float(os.environ.get("CLUSTER_DAYS") or 0)
    first = int(os.environ.get("SEED") or 1)
    if not hours and not days:
        hours = 1 / 60
    reached = Reached(first)

    def is_over() -> bool:
        return reached.seconds >= hours * 3600 if hours else reached.days >= days

    told = 0.0
    with ProcessPoolExecutor(CORES, get_context("spawn"), gc.freeze) as pool:
        for seed, played in _all_played(pool, first, is_over):
            if played.problems:
                pool.shutdown(cancel_futures=True)
                _say(reached.told)
                return _report(seed)
            reached.add(played)
            if reached.seconds - told >= TELL_EVERY:
                told = reached.seconds
                _say(reached.told)
    _say(f"{reached.told}\n{reached.kinds}")
    return 0


def _all_played(
    pool: ProcessPoolExecutor, first: int, is_over: Callable[[], bool]
) -> Iterator[tuple[int, Played]]:
    """Each seed in turn, some of them at the same time, until it is over and all have ended."""
    seeds = count(first)
    waiting: deque[tuple[int, Future[Played]]] = deque()
    while True:
        while len(waiting) < 2 * CORES and not is_over():
            seed = next(seeds)
            waiting.append((seed, pool.submit(play_seed, seed)))
        if not waiting:
            return
        seed, future = waiting.popleft()
        yield seed, future.result()


class Reached:
    """What all worlds so far had in them."""

    def __init__(self, first: int) -> None:
        self._first = self._end = first
        self._began = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._points: set[str] = set()
        self._cost = 0.0

    def add(self, played: Played) -> None:
        self._end += 1
        self._counts.update(played.counts)
        self._counts["due times"] += played.due_times
        self._points |= played.points
        self._cost += played.cost

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def days(self) -> float:
        return self._counts["due times"] / CLUSTER_DAY

    @property
    def told(self) -> str:
        counts = self._counts
        faults = sum(counts[kind] for kind in FAULTS)
        return (
            f"seeds {self._first} to {self._end - 1}: {self.days:.2f} cluster-days, "
            f"{counts['due times']:,} due times, {counts['work start']:,} attempts, "
            f"{counts['steps']:,} of them of steps of flows, {counts['deliveries']:,} deliveries, "
            f"{counts['actions']:,} actions of people, {faults:,} faults, no violation; "
            f"{self.seconds:.0f} s on {CORES} cores, {self._cost:.0f} s of processor time"
        )

    @property
    def kinds(self) -> str:
        """The faults."""
        rows = [f"  {self._counts[kind]:>9,}  {told}" for kind, told in FAULTS.items()]
        return "\n".join([*rows, f"  crashes happened at {len(self._points)} different points"])


def _report(seed: int) -> int:
    script = draw(seed)
    problems = play(script).problems
    _say(f"seed {seed} breaks an invariant:")
    for problem in problems[:20]:
        _say(f"  {problem}")
    kinds = {problem.partition(":")[0] for problem in problems}
    _say("shrinking it ...")
    small, tries = shrink(script, lambda one: bool(play(one).violated & kinds))
    _say(f"after {tries} tries, as a test for tests/sim/test_found.py:")
    _say(as_test(small, play(small).problems))
    return 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

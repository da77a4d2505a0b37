"""Simulates worlds for as long as asked, and prints what that reached; the first that breaks an
invariant is shrunk and printed as a test."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import Final

from tests.sim.play import as_test, play, shrink
from tests.sim.script import draw

CLUSTER_DAY: Final = 100_000
"""Due times of a day on a cluster of three nodes."""
TELL_EVERY: Final = 60.0
FAULTS: Final = ("crash", "fail", "stop", "deaf", "slow", "jump", "database_jump")


def main() -> int:
    hours = float(os.environ.get("HOURS") or 0)
    days = float(os.environ.get("CLUSTER_DAYS") or 0)
    first = int(os.environ.get("SEED") or 1)
    if not hours and not days:
        hours = 1 / 60
    counts: Counter[str] = Counter()
    points: set[str] = set()
    began = told = time.monotonic()
    seed = first
    while True:
        script = draw(seed)
        played = play(script)
        counts.update(played.counts)
        counts["due times"] += played.due_times
        points |= played.points
        if played.problems:
            return _report(seed)
        seed += 1
        now = time.monotonic()
        is_over = (
            now - began >= hours * 3600 if hours else counts["due times"] >= days * CLUSTER_DAY
        )
        if is_over or now - told >= TELL_EVERY:
            told = now
            _tell(first, seed, counts, points, now - began)
        if is_over:
            return 0


def _tell(first: int, end: int, counts: Counter[str], points: set[str], seconds: float) -> None:
    faults = sum(counts[kind] for kind in FAULTS)
    kinds = ", ".join(f"{kind} {counts[kind]:,}" for kind in FAULTS)
    _say(
        f"seeds {first} to {end - 1}: {counts['due times'] / CLUSTER_DAY:.2f} cluster-days, "
        f"{counts['due times']:,} due times, {counts['work start']:,} attempts, "
        f"{counts['deliveries']:,} deliveries, {counts['actions']:,} actions of people, "
        f"{faults:,} faults ({kinds}; crashes at {len(points)} different points), "
        f"no violation; {seconds:.0f} s"
    )


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

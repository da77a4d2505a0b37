"""Compares trigger evaluation with croniter and cronsim in one run; prints times and ratios.

    python -m bench.triggers

Each expression is asked for the next due time repeatedly, as in a scheduler, for every library
over the same span of time. "parse" never profits from caches that Duebook shares between equal
triggers: they are cleared before each call.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from bench.goals import Goals, show
from duebook.triggers import Trigger, cron, daytimes, fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# the package exports the function `cron` under the name of its module
cron_module = sys.modules["duebook.triggers.cron"]

START = datetime(2026, 5, 5, 12, 3, tzinfo=UTC)
CALLS = 300
ROUNDS = 7


class Row(NamedTuple):
    expression: str
    zone: str
    parse: float
    ours: float
    croniter: float
    cronsim: float
    ours_both: float
    ours_shared: float
    croniter_both: float
    cronsim_both: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try a few expressions")
    few = 3 if parser.parse_args().quick else None
    rows = [
        measure(expression, zone)
        for zone in ("UTC", "America/New_York")
        for expression in [*expressions()][:few]
    ]
    print_table(rows)
    sys.exit(print_verdicts(rows))


def expressions() -> Iterator[str]:
    for line in Path(__file__).with_name("expressions.txt").read_text("ascii").splitlines():
        if line and not line.startswith("#"):
            yield line


def measure(expression: str, zone: str) -> Row:
    start = START.astimezone(ZoneInfo(zone))
    calls = 20 if " 29 2 " in expression else CALLS  # stay within the coming century
    return Row(
        expression,
        zone,
        parse=timed(lambda: parse_cold(expression, zone), calls),
        ours=timed_walk(lambda: our_walk(expression, zone), calls),
        croniter=timed_walk(lambda: croniter_walk(expression, start), calls),
        cronsim=timed_walk(lambda: CronSim(expression, start).__next__, calls),
        ours_both=timed(lambda: parse_cold(expression, zone).next_after(START), calls),
        ours_shared=timed(lambda: cron(expression, tz=zone).next_after(START), calls),
        croniter_both=timed(lambda: croniter(expression, start).get_next(datetime), calls),
        cronsim_both=timed(lambda: next(CronSim(expression, start)), calls),
    )


def parse_cold(expression: str, zone: str) -> Trigger:
    clear_caches()
    return cron(expression, tz=zone)


def clear_caches() -> None:
    for function in (cron_module._compiled, cron_module._timeline, daytimes._next_table):
        function.cache_clear()
    fields._star.cache_clear()


def our_walk(expression: str, zone: str) -> Callable[[], object]:
    trigger = cron(expression, tz=zone)
    instant = START

    def step() -> None:
        nonlocal instant
        following = trigger.next_after(instant)
        assert following is not None
        instant = following

    return step


def croniter_walk(expression: str, start: datetime) -> Callable[[], object]:
    walk = croniter(expression, start)
    return lambda: walk.get_next(datetime)


def timed(call: Callable[[], object], calls: int) -> float:
    """Microseconds per call: the best of several rounds, because the others contain noise."""
    return timed_walk(lambda: call, calls)


def timed_walk(start: Callable[[], Callable[[], object]], calls: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        step = start()
        began = time.perf_counter()
        for _ in range(calls):
            step()
        best = min(best, time.perf_counter() - began)
    return best / calls * 1e6


def print_table(rows: list[Row]) -> None:
    print("Microseconds. Left: next alone, and how many times croniter takes as long.")
    print("Right: parse + next, cold and when an equal trigger already exists.")
    print()
    head = f"{'expression':22}{'zone':9}{'parse':>6}{'next':>6}{'croniter':>14}{'cronsim':>8}"
    print(f"{head} |{'both':>6}{'shared':>7}{'croniter':>9}{'cronsim':>8}")
    for r in rows:
        print(
            f"{r.expression:22}{r.zone[-8:]:9}{r.parse:6.1f}{r.ours:6.2f}"
            f"{r.croniter:8.1f} {r.croniter / r.ours:4.0f}x{r.cronsim:8.2f} |"
            f"{r.ours_both:6.1f}{r.ours_shared:7.1f}{r.croniter_both:9.1f}{r.cronsim_both:8.1f}"
        )
    print()


def print_verdicts(rows: list[Row]) -> int:
    """The exit code."""
    ratios = [r.croniter / r.ours for r in rows]
    slowest = max(r.ours / r.cronsim for r in rows)
    parse = max(r.parse for r in rows)
    show("next due time of an expression, µs", [row.ours for row in rows])
    goals = Goals()
    goals.at_least("times as fast as croniter, over all expressions", 8, ratios)
    goals.at_least("times as fast as croniter, worst expression", 4, [min(ratios)])
    goals.at_least("times as fast as cronsim, worst expression", 1, [1 / slowest])
    goals.below("parse the slowest expression, µs", 40, [parse])
    goals.below("import duebook.triggers, ms", 50, import_milliseconds())
    return goals.exit_code


def import_milliseconds() -> list[float]:
    """Of several fresh processes."""
    code = (
        "import time; began = time.perf_counter(); import duebook.triggers; "
        "print((time.perf_counter() - began) * 1e3)"
    )
    return [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(ROUNDS)
    ]


if __name__ == "__main__":
    main()

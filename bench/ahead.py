"""How long `duebook simulate` takes for a thousand mixed schedules: about ten million due times a
year.

python -m bench.ahead [DAYS] [WORKERS] [--quick]
"""

from __future__ import annotations

import random
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.goals import Goals, show
from duebook.foresight.entry import Entry
from duebook.foresight.simulate import simulate
from duebook.model.definition import load_spec
from duebook.model.plan import Snapshot
from duebook.model.queue import Queue, QueueLimiter

START = datetime(2026, 1, 1, tzinfo=UTC)
ZONES = ("UTC", "Europe/Brussels", "America/New_York", "Asia/Kolkata")
TEN_MILLION = 10_000_000
LONGEST = 180
OVERLAPS = ("skip", "skip", "skip", "queue", "latest", "allow", "cancel")


class Mix:
    """Schedules of many kinds, the same each time."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self.entries: list[Entry] = []

    def add(self, number: int, trigger: Any, *takes: int, **policies: Any) -> None:
        for _ in range(number):
            name = f"s{len(self.entries):04}"
            form = {
                "trigger": {k: v(self._random) if callable(v) else v for k, v in trigger.items()},
                "target": {"command": ["true"]},
                "overlap": self._random.choice(OVERLAPS),
            }
            if self._random.random() < 0.2:
                form |= policies
            spec = load_spec(form, name).anchored(START)
            length = timedelta(seconds=self._random.choice(takes))
            snapshot = Snapshot(name, name, 1, spec, "active", START)
            self.entries.append(Entry(snapshot, length, START))


def mixed() -> list[Entry]:
    mix = Mix()
    zone = {"tz": lambda r: r.choice(ZONES)}
    minute = {"cron": lambda r: f"{r.randrange(60)} * * * *"}
    five = {"cron": lambda r: f"{r.randrange(5)}-59/5 * * * *"}
    daily = {"daily": lambda r: [f"{r.randrange(24):02}:{r.choice((0, 0, 15, 30)):02}"]}
    weekly = {"weekly": lambda r: f"{r.choice(('MON', 'WED', 'SUN'))} 03:00"}
    mix.add(8, {"cron": "* * * * *"}, 5, 10, 30)
    mix.add(20, five | zone, 10, 60, 200, jitter="30s")
    mix.add(60, {"every": "15m"}, 10, 60, 600, jitter="2m")
    mix.add(150, minute | zone, 10, 60, 900, exclude=["2026-05-01", "2026-12-25"])
    upstream = mix.entries[-1].name
    needs = [{"schedule": upstream, "within": "2h", "wait": "30m"}]
    mix.add(600, daily | zone, 60, 600, 3_600, depends_on=needs)
    mix.add(162, weekly | zone, 1_800, queue="heavy")
    return mix.entries


def main(days: int = 365, workers: int | None = None) -> int:
    entries, began, used = mixed(), time.perf_counter(), time.process_time()
    limiters = [QueueLimiter(Queue("heavy", concurrency=4))]
    until = START + timedelta(days=days)
    found = simulate(entries, START, until, workers, limiters, progress=_tell)
    took, cpu = time.perf_counter() - began, time.process_time() - used
    print("\r", end="")
    show("schedules", [len(entries)])
    show(f"due times in {days} days", [found.due_times])
    show(f"{days} days, s", [took])
    show("  processor time, s", [cpu])
    show("due times per second", [found.due_times / took])
    show("most runs at the same time", [found.load.peak])
    goals = Goals()
    goals.below(
        "seconds for ten million due times", LONGEST, [took / found.due_times * TEN_MILLION]
    )
    return goals.exit_code


def _tell(part: float, due_times: int) -> None:
    print(f"\r{part:.0%}, {due_times:,} due times", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--quick"]
    sys.exit(main(*map(int, words or (["7"] if "--quick" in sys.argv else []))))

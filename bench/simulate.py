"""How long a simulated day takes: a hundred schedules, due every minute.

python -m bench.simulate
"""

from __future__ import annotations

import time

from duebook import cron
from duebook.testing import Simulation


def main() -> None:
    with Simulation(start="2026-02-07T00:00:00Z") as sim:
        sim.task("etl")
        for number in range(100):
            sim.book.schedules.create(f"s-{number}", trigger=cron("* * * * *"), target="etl")
        began = time.perf_counter()
        sim.advance("1d")
        took = time.perf_counter() - began
        runs = len(sim.runs())
    print(f"{'a day of 100 minutely schedules, s':40}{took:>12.1f}")
    print(f"{'  runs':40}{runs:>12,}")
    print(f"{'  runs per second':40}{runs / took:>12,.0f}")


if __name__ == "__main__":
    main()

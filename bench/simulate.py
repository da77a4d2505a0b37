"""How long a simulated day takes: a hundred schedules, due every minute.

python -m bench.simulate
"""

from __future__ import annotations

import argparse
import time

from bench.goals import show
from duebook import cron
from duebook.testing import Simulation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an hour instead of a day")
    length = "1h" if parser.parse_args().quick else "1d"
    with Simulation(start="2026-02-07T00:00:00Z") as sim:
        sim.task("etl")
        for number in range(100):
            sim.book.schedules.create(f"s-{number}", trigger=cron("* * * * *"), target="etl")
        began = time.perf_counter()
        sim.advance(length)
        took = time.perf_counter() - began
        runs = len(sim.runs())
    show(f"{length} of 100 minutely schedules, s", [took])
    show("runs", [runs])
    show("runs per second", [runs / took])


if __name__ == "__main__":
    main()

"""A long storm over a fleet, then one while the books move and one in which the database's clock
steps back and forth, and the verdict: `make chaos`, `make chaos SEED=7 MINUTES=5`,
`make chaos HOURS=2`.

The number decides which faults come in which order; their moments are real time.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from tests.chaos.clock_storm import ClockStorm
from tests.chaos.fleet import open_fleet
from tests.chaos.move_storm import MoveStorm
from tests.chaos.storm import Storm
from tests.support.postgres import Server

MOVE_KILLS = 4
"""How often the copy is killed before it may end."""

CLOCK_SECONDS = 10
"""How long the database's clock steps about, for each minute of the first storm."""


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    number = int(os.environ.get("SEED") or SystemRandom().randrange(1_000_000))
    hours = os.environ.get("HOURS")
    minutes = float(hours) * 60 if hours else float(os.environ.get("MINUTES") or 10)
    tell(
        f"a storm of {minutes:g} min; repeat it with: make chaos SEED={number} MINUTES={minutes:g}"
    )
    folder = Path(tempfile.mkdtemp(prefix="duebook-chaos-"))
    tell(f"evidence and logs are in {folder} until the books are found to be right")
    server = Server(durable=True)
    try:
        with open_fleet(folder, server, "template0") as fleet:
            wrong = Storm(fleet, number, tell).blow(minutes * 60)
            runs, lines = len(fleet.books().runs), len(fleet.seen.evidence)
        (folder / "move").mkdir()
        with open_fleet(folder / "move", server, "template0") as fleet:
            tell("now the books move from a file to PostgreSQL")
            wrong += MoveStorm(fleet, number, tell).blow(kills=MOVE_KILLS)
            runs += len(fleet.books().runs)
            lines += len(fleet.seen.evidence)
        (folder / "clock").mkdir()
        with open_fleet(folder / "clock", server, "template0") as fleet:
            tell("now the clock of the database steps back and forth")
            wrong += ClockStorm(fleet, number, tell).blow(minutes * CLOCK_SECONDS)
            runs += len(fleet.books().runs)
            lines += len(fleet.seen.evidence)
    finally:
        server.close()
    if wrong:
        for text in wrong:
            tell(text)
        tell(f"{len(wrong)} violations in {runs} runs; evidence and logs stay in {folder}")
        return 1
    shutil.rmtree(folder)
    tell(f"the books are right: {runs} runs, {lines} lines of evidence")
    return 0


if __name__ == "__main__":
    sys.exit(main())

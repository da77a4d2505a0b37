"""A long storm over a fleet, then one while the database moves, one in which the database's clock
steps back and forth, and failovers to a standby; then how long each kind of fault took to heal, and
the verdict: `make chaos`, `make chaos SEED=7 MINUTES=5`, `make chaos HOURS=2`.

The seed decides the order of the faults; their moments are real time.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

from tests.chaos.brokers import Brokers
from tests.chaos.clock_storm import ClockStorm
from tests.chaos.failover_storm import FailoverStorm, open_pair
from tests.chaos.fleet import LOAD, open_fleet
from tests.chaos.move_storm import MoveStorm
from tests.chaos.storm import Storm
from tests.support.bouncer import Bouncer, is_installed
from tests.support.earlier import WHEELS, install
from tests.support.postgres import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.fleet import Fleet
    from tests.support.nodes import Evidence

MOVE_KILLS = 4
"""How often the copy is killed before it may finish."""

CLOCK_SECONDS = 10
"""How long the database's clock is stepped, for each minute of the first storm."""

CALM = 20
"""Seconds that each fault may take to heal before the next one."""

MINUTES_A_FAILOVER = 12
"""Minutes of the first storm for each failover to a standby; there is at least one."""


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def steady(fleet: Fleet) -> list[Evidence]:
    """The starts of schedules whose runs start again only after a fault."""
    names = LOAD.keys() - {"failing"}
    return [line for line in fleet.seen.evidence if line.word == "start" and line.schedule in names]


@contextmanager
def _open_bouncer(server: Server) -> Iterator[Bouncer | None]:
    if not is_installed():
        tell("no node is behind PgBouncer, which is not installed; on Debian: apt-get install it")
        yield None
        return
    with closing(Bouncer(server)) as bouncer:
        yield bouncer


def main() -> int:
    number = int(os.environ.get("SEED") or SystemRandom().randrange(1_000_000))
    hours = os.environ.get("HOURS")
    minutes = float(hours) * 60 if hours else float(os.environ.get("MINUTES") or 10)
    tell(
        f"a storm of {minutes:g} min; repeat it with: make chaos SEED={number} MINUTES={minutes:g}"
    )
    folder = Path(tempfile.mkdtemp(prefix="duebook-chaos-"))
    tell(f"evidence and logs are in {folder} until the books are found to be right")
    wrong: list[str] = []
    counts, recoveries = [0, 0], []

    def count(fleet: Fleet) -> None:
        counts[0] += len(fleet.books().runs)
        counts[1] += len(fleet.seen.evidence)

    server = Server(durable=True)
    try:
        with (
            closing(Brokers(folder)) as brokers,
            _open_bouncer(server) as bouncer,
            open_fleet(folder, server, "template0") as fleet,
        ):
            earlier = install(WHEELS[-1], folder / "earlier")
            storm = Storm(fleet, number, tell, brokers, bouncer, earlier)
            wrong += storm.blow(minutes * 60, CALM)
            count(fleet)
            recoveries += [*storm.recovery.told(steady(fleet))]
        (folder / "move").mkdir()
        with open_fleet(folder / "move", server, "template0") as fleet:
            tell("now the books move from a file to PostgreSQL")
            wrong += MoveStorm(fleet, number, tell).blow(kills=MOVE_KILLS)
            count(fleet)
        (folder / "clock").mkdir()
        with open_fleet(folder / "clock", server, "template0") as fleet:
            tell("now the clock of the database steps back and forth")
            wrong += ClockStorm(fleet, number, tell).blow(minutes * CLOCK_SECONDS)
            count(fleet)
    finally:
        server.close()
    for place in range(max(1, round(minutes / MINUTES_A_FAILOVER))):
        tell(f"now the server fails over to its synchronous standby: {place + 1}")
        (folder / f"failover-{place}").mkdir()
        with open_pair(folder / f"failover-{place}") as (fleet, standby):
            failover = FailoverStorm(fleet, standby, number + place, tell)
            wrong += failover.blow()
            count(fleet)
            recoveries += [*failover.recovery.told(steady(fleet))]
    runs, lines = counts
    for text in recoveries:
        tell(text)
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

"""Due schedules per second, compared with schedulers that decide when something is due.

    python -m bench.due [--rounds 5] [--quick]

All schedules are due at once. Duebook's figure is that of `bench.fire`: each due time is decided
and its run committed, durably, ready for any worker; the second figure also includes running them
in one process. APScheduler runs its jobs in the same process. Celery beat keeps its schedules in
memory and sends to Redis, from which nothing is read here. graphile-worker, pg-boss, Procrastinate,
pgqueuer and chancy check a list of cron lines in the program once a minute: they are not compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.drain import KINDS, worker
from bench.due_runs import JOB, Clock, add_schedules, fire
from bench.goals import Goals, interleaved, ratios, show
from bench.peers import SCHEDULERS, available, drained
from bench.server import durable_server
from duebook.engine.ticker import Ticker
from duebook.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.postgres import Server

CHART: Final = "Due schedules per second"
OURS: Final = "Duebook"
RUN: Final = "Duebook, and runs them"
NUMBER: Final = 10_000
FEW: Final = 2_000
"""For peers, which take longer."""
ROUNDS: Final = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="try everything with few schedules")
    options = parser.parse_args()
    part, rounds = (20, 1) if options.quick else (1, options.rounds)
    with durable_server() as server:
        sys.exit(report(server, rounds, part))


def report(server: Server, rounds: int, part: int) -> int:
    peers = available(server, SCHEDULERS)
    kinds: dict[str, Callable[[], float]] = {
        OURS: partial(decided, server, NUMBER // part),
        RUN: partial(decided_and_run, server, NUMBER // part),
    }
    kinds |= {peer: partial(drained, server, peer, FEW // part) for peer in peers}
    found = interleaved(kinds, rounds)
    for name, figures in found.items():
        show(f"{name}: due schedules per second", figures, chart=CHART)
    goals = Goals()
    for peer in peers:
        if peer != "Celery beat":
            what = f"decided and run, times {peer}"
            goals.at_least(what, 10, ratios(found[RUN], found[peer]))
    return goals.exit_code


def decided(server: Server, number: int) -> float:
    """One process decides all that is due, after connecting and preparing statements."""
    with server.database() as url:
        clock = Clock()
        store = PostgresStore(url, clock)
        add_schedules(store, clock, {f"job-{n}": JOB for n in range(number)})
        ticker = Ticker(store, batch=1_000)
        fire(store, clock, ticker=ticker)
        began = time.perf_counter()
        fire(store, clock, ticker=ticker)
        taken = time.perf_counter() - began
        store.close()
    return number / taken


def decided_and_run(server: Server, number: int) -> float:
    """As `decided`, and then executes the runs until all have ended."""
    with server.database() as url:
        clock = Clock()
        store = PostgresStore(url, clock)
        add_schedules(store, clock, {f"job-{n}": JOB for n in range(number)})
        ticker = Ticker(store, batch=1_000)
        with worker(KINDS[0], store) as perform_all:
            fire(store, clock, ticker=ticker)
            perform_all()
            began = time.perf_counter()
            fire(store, clock, ticker=ticker)
            taken = time.perf_counter() - began + perform_all()
        store.close()
    return number / taken


if __name__ == "__main__":
    main()

"""Runs per second beside pgqueuer, Procrastinate and graphile-worker on the same durable server.

    python -m bench.speeds [--quick]

Sync and async tasks of one worker process on both databases, and of two processes. With --quick
everything is tried once with few runs, and the figures mean little.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.support.postgres import Server

from bench.drain import KINDS, runs_per_second
from bench.goals import Goals, interleaved, ratios, show
from bench.peers import (
    BATCH,
    CONCURRENCY,
    graphile_worker_per_second,
    has_graphile_worker,
    pgqueuer_per_second,
    procrastinate_per_second,
)
from duebook.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.drain import Kind

US: Final = f"PostgreSQL, {KINDS[0].words}"
TWO: Final = "  two worker processes"
PGQUEUER: Final = f"  pgqueuer, async, no-op, batches of {BATCH}"
PROCRASTINATE: Final = f"  Procrastinate, async, no-op, {CONCURRENCY} at once"
GRAPHILE: Final = "  graphile-worker, no-op, local queue of 500"
GRAPHILE_PLAIN: Final = "  graphile-worker, no-op, without a local queue"
NUMBER: Final = 20_000
SLOW: Final = 4_000
"""Runs of what takes longer: some peers, and tasks with 1 ms of work."""
ROUNDS: Final = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="try everything with few runs")
    options = parser.parse_args()
    server = Server(durable=True)
    try:
        server.make_template(lambda url: PostgresStore(url).close())
        server.execute("CREATE DATABASE peer")
        part = 20 if options.quick else 1
        sys.exit(report(server, 1 if options.quick else options.rounds, part))
    finally:
        server.close()


def report(server: Server, rounds: int, part: int) -> int:
    """`part`: only one in so many of the runs."""
    found = interleaved(ours(server, part) | peers(server, part), rounds)
    print(
        f"PostgreSQL {server.version}, runs a second: median of {rounds} rounds, and their spread"
    )
    for what, figures in found.items():
        show(what, figures)
    if GRAPHILE not in found:
        print("graphile-worker is left out: `make bench` installs it where node and npm are found")
    goals = Goals()
    goals.at_least("times pgqueuer", 2, ratios(found[US], found[PGQUEUER]))
    goals.at_least("times Procrastinate", 20, ratios(found[US], found[PROCRASTINATE]))
    if GRAPHILE in found:
        goals.at_least("times graphile-worker", 1.2, ratios(found[US], found[GRAPHILE]))
    goals.at_least("two worker processes beside one", 1.3, ratios(found[TWO], found[US]))
    for place, kind, bound in (
        ("SQLite", KINDS[0], 18_000),
        ("PostgreSQL", KINDS[1], 10_000),
        ("PostgreSQL", KINDS[2], 6_000),
        ("PostgreSQL", KINDS[3], 6_000),
    ):
        what = f"{place}, {kind.words}"
        goals.at_least(what, bound, found[what])
    return goals.exit_code


def ours(server: Server, part: int) -> dict[str, Callable[[], float]]:
    def number(kind: Kind) -> int:
        return (SLOW if "1 ms" in kind.words else NUMBER) // part

    kinds: dict[str, Callable[[], float]] = {
        US: partial(runs_per_second, KINDS[0], NUMBER // part, server),
        TWO: partial(runs_per_second, KINDS[0], 2 * NUMBER // part, server, processes=2),
    }
    for place, where in (("PostgreSQL", server), ("SQLite", None)):
        for kind in KINDS:
            what = f"{place}, {kind.words}"
            kinds[what] = partial(runs_per_second, kind, number(kind), where)
    return kinds


def peers(server: Server, part: int) -> dict[str, Callable[[], float]]:
    url = server.url("peer", "127.0.0.1")
    many, few = NUMBER // part, SLOW // part
    kinds: dict[str, Callable[[], float]] = {
        PGQUEUER: lambda: asyncio.run(pgqueuer_per_second(url, many)),
        PROCRASTINATE: lambda: asyncio.run(procrastinate_per_second(url, few)),
    }
    if has_graphile_worker():
        kinds |= {
            GRAPHILE: lambda: asyncio.run(graphile_worker_per_second(url, many, True)),
            GRAPHILE_PLAIN: lambda: asyncio.run(graphile_worker_per_second(url, few, False)),
        }
    return kinds


if __name__ == "__main__":
    main()

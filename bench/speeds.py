"""Runs per second, compared with other queues on the same durable server.

    python -m bench.speeds [--rounds 5] [--quick]

Tasks that do nothing, that wait for 1 ms and for 10 ms; sync and async; one and two worker
processes; on both databases. Each queue is emptied with the settings that its own documentation
recommends for throughput, so the number of concurrent jobs differs. With --quick everything is run
once with few runs, and the figures mean little.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.drain import KINDS, runs_per_second
from bench.goals import Goals, interleaved, ratios, show
from bench.peers import QUEUES, available, drained
from bench.server import durable_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.postgres import Server

    from bench.drain import Kind

NO_OP, TWO, ONE_MS, TEN_MS = (
    f"Runs per second, async, {words}"
    for words in ("no-op", "no-op, two worker processes", "1 ms each", "10 ms each")
)
OURS: Final = "Runs per second of Duebook"
NUMBER: Final = 20_000
SLOW: Final = 4_000
"""Runs of kinds that take longer: some peers, and tasks that wait."""
SLOW_PEERS: Final = ("Procrastinate", "chancy", "graphile-worker")
ROUNDS: Final = 5
GOALS: Final = {"pgqueuer": 2, "Procrastinate": 20, "graphile-worker, local queue": 1.2}
"""How many times as many runs Duebook should execute."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="try everything with few runs")
    options = parser.parse_args()
    with durable_server() as server:
        part = 40 if options.quick else 1
        sys.exit(report(server, 1 if options.quick else options.rounds, part))


def report(server: Server, rounds: int, part: int) -> int:
    """`part`: use only one in this many of the runs."""
    peers = available(server, QUEUES)
    found = {
        chart: interleaved(beside(server, chart, peers, part), rounds)
        for chart in (NO_OP, TWO, ONE_MS, TEN_MS)
    }
    found[OURS] = interleaved(ours(server, part), rounds)
    print(f"PostgreSQL {server.version}: median of {rounds} rounds, and their spread")
    for chart, of_chart in found.items():
        print(f"\n{chart}")
        for name, figures in of_chart.items():
            show(f"{name}: {chart.partition(', ')[2] or 'runs per second'}", figures, chart=chart)
    print()
    return judge(found, peers)


def judge(found: dict[str, dict[str, list[float]]], peers: list[str]) -> int:
    goals = Goals()
    mine = found[NO_OP]["Duebook"]
    for peer, bound in GOALS.items():
        if peer in peers:
            goals.at_least(f"times {peer}", bound, ratios(mine, found[NO_OP][peer]))
    goals.at_least("two worker processes beside one", 1.3, ratios(found[TWO]["Duebook"], mine))
    for place, kind, bound in (
        ("SQLite", KINDS[0], 18_000),
        ("PostgreSQL", KINDS[1], 10_000),
        ("PostgreSQL", KINDS[2], 6_000),
        ("PostgreSQL", KINDS[3], 6_000),
    ):
        what = f"{place}, {kind.words}"
        goals.at_least(f"{what}: runs per second", bound, found[OURS][what])
    return goals.exit_code


def beside(
    server: Server, chart: str, peers: list[str], part: int
) -> dict[str, Callable[[], float]]:
    """Our figures and those of the peers, for one chart."""
    kind = {ONE_MS: KINDS[6], TEN_MS: KINDS[7]}.get(chart, KINDS[0])
    ms = {ONE_MS: 1, TEN_MS: 10}.get(chart, 0)
    processes = 2 if chart == TWO else 1
    number = (SLOW if ms else NUMBER) * processes // part
    mine = partial(runs_per_second, kind, number, server, processes=processes)
    kinds: dict[str, Callable[[], float]] = {"Duebook": mine}
    for peer in peers:
        many = SLOW * processes // part if peer in SLOW_PEERS else number
        kinds[peer] = partial(drained, server, peer, many, ms, processes)
    return kinds


def ours(server: Server, part: int) -> dict[str, Callable[[], float]]:
    """On both databases."""

    def number(kind: Kind) -> int:
        return (NUMBER if "no-op" in kind.words else SLOW) // part

    kinds: dict[str, Callable[[], float]] = {}
    for place, where in (("PostgreSQL", server), ("SQLite", None)):
        for kind in KINDS[:6]:
            kinds[f"{place}, {kind.words}"] = partial(runs_per_second, kind, number(kind), where)
    for kind in (KINDS[1], KINDS[3]):
        kinds[f"PostgreSQL, {kind.words}, two processes"] = partial(
            runs_per_second, kind, 2 * number(kind), server, processes=2
        )
    return kinds


if __name__ == "__main__":
    main()

"""Runs per second beside pgqueuer and Procrastinate, how late they start, and what rest costs.

    python -m bench.work [--quick]

Sync and async tasks of one worker process on both databases, beside the peers on the same durable
server. Lateness and queries at rest are those of a real node. With --quick everything is tried
with few runs, and the figures mean little.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import threading
import time
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tests.support.postgres import Server
from tests.support.waiting import eventually

from bench.drain import KINDS, execute, runs_per_second
from bench.nodes import node
from bench.peers import BATCH, CONCURRENCY, pgqueuer_per_second, procrastinate_per_second
from bench.program import STARTS
from duebook.clock import utc_now
from duebook.ids import new_id
from duebook.model.definition import load_spec
from duebook.store.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable

PGQUEUER = f"  pgqueuer, async, no-op, batches of {BATCH}"
PROCRASTINATE = f"  Procrastinate, async, no-op, {CONCURRENCY} at once"
NUMBER = 20_000
SLOW = 4_000
"""Runs of what takes longer: Procrastinate, and tasks with 1 ms of work."""
ROUNDS = 3
SESSIONS = "SELECT count(*) FROM node_sessions"
NOTED = {"target": {"task": "note_start"}, "overlap": "allow"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="how long lateness is measured")
    parser.add_argument("--quick", action="store_true", help="try everything with few runs")
    options = parser.parse_args()
    server = Server(durable=True)
    try:
        server.make_template(lambda url: PostgresStore(url).close())
        server.execute("CREATE DATABASE peer")
        if options.quick:
            sys.exit(report(server, 3, rounds=1, part=20))
        sys.exit(report(server, options.seconds, ROUNDS, part=1))
    finally:
        server.close()


def report(server: Server, seconds: int, rounds: int, part: int) -> int:
    """`part`: only one in so many of the runs."""
    figures = speeds(server, rounds, part)
    for what, figure in figures.items():
        print(f"{what:56}{figure:>12,.0f}")
    late = lateness(server, seconds)
    p50, p99 = statistics.median(late), statistics.quantiles(late, n=100)[98]
    print(f"{'true start after the due time, 100 a second, ms: median':56}{p50:>12.1f}")
    print(f"{'  p99':56}{p99:>12.1f}")
    for number in (1, 2):
        rest = queries_at_rest(server, number, seconds if part > 1 else max(seconds, 30))
        what = "queries of a node at rest, a second" if number == 1 else f"  of each of {number}"
        print(f"{what:56}{rest:>12.2f}")
    us = figures[f"PostgreSQL, {KINDS[0].words}"]
    pgqueuer, procrastinate = us / figures[PGQUEUER], us / figures[PROCRASTINATE]
    goals = [
        ("times pgqueuer", pgqueuer, ">= 1.5", pgqueuer >= 1.5),
        ("times Procrastinate", procrastinate, ">= 20", procrastinate >= 20),
        ("median of the true start, ms", p50, "<= 8", p50 <= 8),
        ("  p99", p99, "<= 20", p99 <= 20),
        ("queries at rest", rest, "<= 0.13", rest <= 0.13),
    ]
    for what, figure, goal, holds in goals:
        print(f"{what:56}{figure:>12.2f}   goal {goal:7}{'holds' if holds else 'MISSED'}")
    return 0 if all(holds for *_, holds in goals) else 1


def speeds(server: Server, rounds: int, part: int) -> dict[str, float]:
    """Runs per second by turns, for the machine may be busy now and then: the median of each."""
    url = server.url("peer", "127.0.0.1")
    many, few = NUMBER // part, SLOW // part
    kinds: dict[str, Callable[[], float]] = {}
    for place, where in (("PostgreSQL", server), ("SQLite", None)):
        for kind in KINDS:
            number = few if "1 ms" in kind.words else many
            kinds[f"{place}, {kind.words}"] = partial(runs_per_second, kind, number, where)
    kinds[PGQUEUER] = lambda: asyncio.run(pgqueuer_per_second(url, many))
    kinds[PROCRASTINATE] = lambda: asyncio.run(procrastinate_per_second(url, few))
    found: dict[str, list[float]] = {what: [] for what in kinds}
    for _ in range(rounds):
        for what, measure in kinds.items():
            found[what].append(measure())
    return {what: statistics.median(figures) for what, figures in found.items()}


def lateness(server: Server, seconds: int) -> list[float]:
    """Milliseconds from the due time to the start of the function itself, in a real node."""
    with TemporaryDirectory() as folder, server.database() as url:
        starts = Path(folder) / "starts"
        with node(url, env={STARTS: str(starts)}):
            fire_steadily(url, seconds)
        late = [float(line) for line in starts.read_text().splitlines()]
    assert len(late) == 100 * seconds, len(late)
    return late


def fire_steadily(url: str, seconds: int) -> None:
    """A hundred schedules a second become due, one after the other; returns when all have run."""
    with closing(PostgresStore(url)) as store:
        begin = utc_now() + timedelta(seconds=6 + seconds / 3)  # they are added by then
        for number in range(100 * seconds):
            at = begin + timedelta(milliseconds=10 * number)
            trigger = {"at": at.isoformat()}
            add(store, f"job-{number}", NOTED | {"trigger": trigger})
        assert utc_now() < begin
        end = begin + timedelta(seconds=seconds + 3)
        threading.Event().wait((end - utc_now()).total_seconds())


def queries_at_rest(server: Server, number: int, seconds: int) -> float:
    """Statements in the server's log for each of some nodes that have nothing to do."""
    with server.database() as url, ExitStack() as nodes:
        PostgresStore(url).close()
        for _ in range(number):
            nodes.enter_context(node(url))
        eventually(lambda: execute(url, SESSIONS) == [(number,)])
        server.execute("ALTER SYSTEM SET log_statement = 'all'")
        server.execute("SELECT pg_reload_conf()")
        threading.Event().wait(1)
        before = statements_at_rest(server)
        threading.Event().wait(seconds)
        return (statements(server) - before) / seconds / number


def statements_at_rest(server: Server) -> int:
    """Their number once nobody has asked anything for three seconds: nodes that start ask a lot."""
    seen, since = statements(server), time.monotonic()
    while time.monotonic() - since < 3:
        threading.Event().wait(0.2)
        if (found := statements(server)) != seen:
            seen, since = found, time.monotonic()
    return seen


def statements(server: Server) -> int:
    log = (server.folder / "log").read_text(errors="replace")
    return log.count(" LOG:  statement: ") + log.count(" LOG:  execute ")


def add(store: PostgresStore, name: str, form: dict[str, Any]) -> None:
    spec = load_spec(form, name)

    def work(tx: Any) -> None:
        due_at = spec.triggers[0].next_after(tx.now)
        tx.schedules.create_schedule(new_id(), "default", name, spec, due_at, due_at, "bench")

    store.transact(work)


if __name__ == "__main__":
    main()

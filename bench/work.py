"""How late runs of a real node start, and what an idle node costs.

    python -m bench.work [--quick]

With --quick everything is run with few runs, and the figures mean little. Runs per second are
measured in speeds.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.support.waiting import eventually

from bench.drain import execute
from bench.goals import Goals, show
from bench.nodes import node
from bench.program import STARTS
from bench.server import durable_server
from duebook.book import Book
from duebook.clock import utc_now
from duebook.ids import new_id
from duebook.model.definition import load_spec
from duebook.store.postgres import PostgresStore
from duebook.store.values import NewSchedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from tests.support.postgres import Server

SESSIONS = "SELECT count(*) FROM node_sessions"
NOTED = {"target": {"task": "note_start"}, "overlap": "allow"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="how long lateness is measured")
    parser.add_argument("--quick", action="store_true", help="try everything with few runs")
    options = parser.parse_args()
    with durable_server() as server:
        seconds = 3 if options.quick else options.seconds
        sys.exit(report(server, seconds, 3 if options.quick else max(seconds, 30)))


def report(server: Server, seconds: int, resting: int) -> int:
    late = lateness(server, seconds)
    p50, p99 = statistics.median(late), statistics.quantiles(late, n=100)[98]
    for number in (1, 2):
        rest = queries_at_rest(server, number, resting)
        show(f"queries of each of {number} nodes at rest, a second", [rest])
    alerting = queries_at_rest(server, 1, resting, add_rules)
    goals = Goals()
    goals.at_most("true start after the due time, 100 a second: median, ms", 8, [p50])
    goals.at_most("true start after the due time, 100 a second: p99, ms", 20, [p99])
    goals.at_most("queries of a node at rest, a second", 0.13, [rest])
    goals.at_most("  with 20 alert rules in 5 namespaces", 0.13, [alerting])
    return goals.exit_code


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
    """A hundred schedules per second become due, one after another; returns when all have run."""
    with closing(PostgresStore(url)) as store:
        begin = utc_now() + timedelta(seconds=6 + seconds / 3)  # they are added by then
        add(store, [begin + timedelta(milliseconds=10) * n for n in range(100 * seconds)])
        assert utc_now() < begin
        end = begin + timedelta(seconds=seconds + 3)
        threading.Event().wait((end - utc_now()).total_seconds())


def add_rules(store: PostgresStore) -> None:
    """Four rules in each of five namespaces, each with its own channel."""
    for number in range(20):
        hook = f"https://hooks.example.com/{number}"
        Book(store, f"team-{number % 5}").alerts.save(f"rule-{number}", to=hook)


def queries_at_rest(
    server: Server,
    number: int,
    seconds: int,
    prepare: Callable[[PostgresStore], None] = lambda _: None,
) -> float:
    """Statements in the server's log for each of some idle nodes."""
    with server.database() as url, ExitStack() as nodes:
        with closing(PostgresStore(url)) as store:
            prepare(store)
        for _ in range(number):
            nodes.enter_context(node(url))
        eventually(lambda: execute(url, SESSIONS) == [(number,)])
        server.execute("ALTER SYSTEM SET log_statement = 'all'")
        server.execute("SELECT pg_reload_conf()")
        threading.Event().wait(1)
        before = statements_at_rest(server)
        threading.Event().wait(seconds)
        return (statements(server) - before) / seconds / number


def statements_at_rest(server: Server, longest: float = float("inf")) -> int:
    """The number once there were no statements for three seconds, but at most after `longest`
    seconds: starting nodes make many queries."""
    seen, since = statements(server), time.monotonic()
    end = since + longest
    while time.monotonic() < min(since + 3, end):
        threading.Event().wait(0.2)
        if (found := statements(server)) != seen:
            seen, since = found, time.monotonic()
    return seen


def statements(server: Server) -> int:
    log = (server.folder / "log").read_text(errors="replace")
    return log.count(" LOG:  statement: ") + log.count(" LOG:  execute ")


def add(store: PostgresStore, times: list[datetime]) -> None:
    """A schedule for each time, due once."""
    made = []
    for number, at in enumerate(times):
        spec = load_spec(NOTED | {"trigger": {"at": at.isoformat()}}, f"job-{number}")
        made.append(NewSchedule(new_id(), "default", f"job-{number}", spec, at, at))
    store.transact(lambda tx: tx.schedules.create_schedules(made, "bench", utc_now()))


if __name__ == "__main__":
    main()

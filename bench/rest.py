"""What an idle process costs, compared with others: queries per second, memory, start, import.

    python -m bench.rest [--seconds 30] [--rounds 5] [--quick]

The start is the time from the start of the process until a waiting job has started. Memory is the
share of each process of a worker (PSS), with all processes that it started: a Duebook node with
`--roles scheduler,worker` also has a spawner of commands, and `duebook up` the web server as well.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from bench import environments
from bench.contestants import DUEBOOK, stage
from bench.goals import Goals, leave_out, show
from bench.peers import QUEUES, SCHEDULERS, available
from bench.processes import memory
from bench.server import durable_server
from bench.work import statements, statements_at_rest

if TYPE_CHECKING:
    from tests.support.postgres import Server

    from bench.contestants import Stage

NAMES: Final = (*SCHEDULERS, *QUEUES)
PATIENCE: Final = 60
SETTLED: Final = 15.0
"""Seconds until the queries of the start are over, even for those that never stop querying."""
IMPORTS: Final = {
    "APScheduler 3": "apscheduler.schedulers.background",
    "APScheduler 4": "apscheduler",
    "Celery beat": "celery.beat",
    "Procrastinate": "procrastinate",
    "pgqueuer": "pgqueuer",
    "chancy": "chancy",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30, help="how long queries are counted")
    parser.add_argument("--rounds", type=int, default=5, help="starts and imports of each")
    parser.add_argument("--quick", action="store_true", help="try everything for a moment")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rounds = 3, 1
    with durable_server() as server:
        server.execute("ALTER SYSTEM SET log_statement = 'all'")
        server.execute("SELECT pg_reload_conf()")
        sys.exit(report(server, options.seconds, options.rounds))


def report(server: Server, seconds: int, rounds: int) -> int:
    goals = Goals()
    peers = available(server, NAMES)
    for name in (DUEBOOK, *peers):
        starts = [started(server, name) for _ in range(rounds - 1)]
        with stage(server, name) as on_stage:
            taken = begin(on_stage)
            if taken is None:
                leave_out(name, "its first job did not start")
                continue
            starts.append(taken)
            before = statements_at_rest(server, SETTLED)
            threading.Event().wait(seconds)
            queries = (statements(server) - before) / seconds
            assert on_stage.worker is not None
            used = memory(on_stage.worker.pid)
        tell(goals, name, starts, queries, used)
    for name in (DUEBOOK, *(peer for peer in peers if peer in IMPORTS)):
        figures = import_milliseconds(name, rounds)
        chart = "Import of the package, ms"
        if name == DUEBOOK:
            goals.below(f"{name}: import, ms", 100, figures, chart=chart)
        else:
            show(f"{name}: import, ms", figures, chart=chart)
    return goals.exit_code


def tell(goals: Goals, name: str, starts: list[float], queries: float, mb: float) -> None:
    asked, used, began = "Queries at rest, a second", "Memory at rest, MB", "Start to first run, s"
    if name == DUEBOOK:
        goals.at_most(f"{name}: queries at rest, a second", 0.13, [queries], chart=asked)
    elif name != "Celery beat":  # it has no database
        show(f"{name}: queries at rest, a second", [queries], chart=asked)
    show(f"{name}: memory at rest, MB", [mb], chart=used)
    show(f"{name}: start to first run, s", starts, chart=began)


def started(server: Server, name: str) -> float:
    with stage(server, name) as on_stage:
        return begin(on_stage) or float(PATIENCE)


def begin(on_stage: Stage) -> float | None:
    """Start a worker; returns the seconds until a waiting job has started."""
    if on_stage.name != "Celery beat":
        # slightly in the future, because a past start time may count as missed
        on_stage.add(time.time() + 0.5, 1, 1)
        time.sleep(1)
    began = time.time()
    on_stage.worker = on_stage.start()
    found = on_stage.wait(1, began + PATIENCE)
    return found[0].started - began if found else None


def import_milliseconds(name: str, rounds: int) -> list[float]:
    """Of fresh processes, after a first one that compiles the modules."""
    if name == DUEBOOK:
        python, module = sys.executable, "duebook"
    else:
        python, module = environments.argv(name)[0], IMPORTS[name]
    code = (
        f"import time; began = time.perf_counter(); import {module}; "
        "print((time.perf_counter() - began) * 1e3)"
    )
    env = None if name == DUEBOOK else environments.environment(name)
    taken = [
        float(subprocess.run([python, "-c", code], capture_output=True, check=True, env=env).stdout)
        for _ in range(max(rounds, 1) + 1)
    ]
    return taken[1:]


if __name__ == "__main__":
    main()

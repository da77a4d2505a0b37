"""How fast flows are read from files, synchronized with a rapidly changing directory, and run.

    python -m bench.flows [--quick]

Files are stored in the database, with their schedules, in PostgreSQL and in a SQLite file. Flows of
ten consecutive steps, each an async task that does nothing, are run by a real node on PostgreSQL.
With --quick everything is run with few flows, and the figures mean little.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bench.drain import execute
from bench.goals import Goals
from bench.nodes import node
from bench.server import durable_server
from duebook.book.flow_registry import FlowRegistry
from duebook.engine.alarm import Alarm
from duebook.flows.directory_keeper import FlowKeeper
from duebook.ids import new_id
from duebook.model.flow import Revision
from duebook.model.flow_target import FlowTarget
from duebook.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import Server

    from duebook.store.base import Store, Tx

LOADED = 1_000
STORM = 10_000
FLOWS = 2_000
STEPS = 10
FILE = """
schedule: "{minute} {hour} * * *"
params: {{DAY: today}}
steps:
  - {{name: extract, command: ./extract.sh "$DAY", output: ROWS, retries: 3}}
  - {{name: load, command: [./load, "${{ROWS}}"], preconditions: [test -f in.csv]}}
  - name: tell
    http: {{url: "https://example.com/", json: {{rows: "{{{{ steps.extract.output }}}}"}}}}
handler_on: {{failure: ./tell.sh}}
"""
CHAIN = "steps:\n" + "".join(f"  - {{name: s{n}, task: job}}\n" for n in range(STEPS))
SCHEDULED = "SELECT name FROM schedules WHERE deleted_at IS NULL"
ENDED = """
SELECT count(*), extract(epoch FROM max(finished_at) - min(started_at)) FROM runs
WHERE parent_run_id IS NULL AND status = 'succeeded'
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="try everything with few")
    part = 20 if parser.parse_args().quick else 1
    with durable_server() as server:
        sys.exit(report(server, part))


def report(server: Server, part: int) -> int:
    """`part`: use only one in this many."""
    goals = Goals()
    for what, where in (("PostgreSQL", server), ("SQLite", None)):
        loaded = load(where, LOADED // part)
        storm = weather(where, STORM // part)
        goals.below(f"{what}: {LOADED // part:,} files, s", 2, [loaded])
        goals.below(f"{what}: behind {STORM // part:,} files in a storm, s", 10, [storm])
    goals.at_least(f"flows of {STEPS} steps per second", 200, [run(server, FLOWS // part)])
    return goals.exit_code


@contextmanager
def books(server: Server | None) -> Iterator[tuple[Store, str]]:
    with ExitStack() as stack:
        if server is not None:
            place = stack.enter_context(server.database())
        else:
            place = stack.enter_context(TemporaryDirectory(prefix="duebook-bench-", dir=Path.cwd()))
            place += "/books.db"
        store = open_store(place)
        stack.callback(store.close)
        yield store, place


def write(folder: Path, number: int) -> None:
    for n in range(number):
        text = FILE.format(minute=n % 60, hour=n % 24)
        (folder / f"flow-{n}.yaml").write_text(text)


def load(server: Server | None, number: int) -> float:
    """Seconds from the first scan until all files are stored as flows with schedules."""
    with books(server) as (store, _), TemporaryDirectory() as name:
        write(Path(name), number)
        keeper = FlowKeeper([Path(name)], FlowRegistry(store, "default"))
        began = time.perf_counter()
        while len(store.read(lambda tx: tx.flows.list_flows("default"))) < number:
            threading.Event().wait(min(keeper.step(), 0.3))
        taken = time.perf_counter() - began
        keeper.close()
        return taken


def weather(server: Server | None, number: int) -> float:
    """Create, rename and delete files as fast as the disk allows while a node reads them; returns
    how many seconds after the last change the database matches the directory."""
    with books(server) as (store, place), TemporaryDirectory() as name:
        folder, over, alarm = Path(name), threading.Event(), Alarm()
        keeper = FlowKeeper([folder], FlowRegistry(store, "default"))
        keeper.start(alarm.ring)

        def keep() -> None:
            while not over.is_set():
                alarm.wait(keeper.step())

        thread = threading.Thread(target=keep)
        thread.start()
        write(folder, number)
        for n in range(number):
            (folder / f"flow-{n}.yaml").rename(folder / f"moved-{n}.yaml")
        for n in range(number):
            if n % 100:
                (folder / f"moved-{n}.yaml").unlink()
        ended = time.perf_counter()
        wanted = {f"moved-{n}" for n in range(0, number, 100)}
        while {
            flow.name for flow, _ in store.read(lambda tx: tx.flows.list_flows("default"))
        } != wanted:
            threading.Event().wait(0.1)
        behind = time.perf_counter() - ended
        over.set()
        alarm.ring()
        thread.join()
        keeper.close()
        assert {name for (name,) in execute(place, SCHEDULED)} == wanted
        return behind


def run(server: Server, number: int) -> float:
    """Flows per second, from the start of the first to the end of the last."""
    with books(server) as (store, url):
        digest = sha256(CHAIN.encode()).hexdigest()
        revision = Revision("chain", "flows/chain.yaml", digest, CHAIN)
        store.transact(lambda tx: tx.flows.save_flows("default", [revision]))
        for first in range(0, number, 500):
            store.transact(lambda tx, first=first: start(tx, min(500, number - first)))  # type: ignore[misc]
        execute(url, "ANALYZE")
        with node(url, slots=1_000):
            while True:
                ((ended, seconds),) = execute(url, ENDED)
                if ended == number:
                    return number / float(seconds)
                threading.Event().wait(0.2)


def start(tx: Tx, number: int) -> None:
    target: Any = FlowTarget("chain")
    for _ in range(number):
        tx.flow_runs.start_flow(new_id(), "default", target, 0, "manual")


if __name__ == "__main__":
    main()

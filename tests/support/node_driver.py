"""A node as `duebook up` starts it, but with other options and with faults: a clock set by a file,
an identity shared with other nodes, a kill or a stop at a named point of its work with the
database.

Usage: python node_driver.py BOOKS '{"lease": 2, "slots": 10, ...}'. A point is the name of a thread
and of a crash hook, such as "ticker before:COMMIT"; * is any thread. `clock`: a file with the
seconds by which the clock is wrong. `database_clock`: such a file for the clock of PostgreSQL, the
same for all nodes. `kill_at`, `stop_at`: a point, effective when it is first reached, or first
reached after the point `armed_by`. `seen`: a file for every point that was reached. `deaf`: hints
are neither received nor sent. `descriptors`: the most that it may open. `stop_within`: how long it
waits, when it ends, for runs that it has stopped. `app`: a program as MODULE:BOOK, whose tasks it
knows. `flows`: a directory that it manages.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import resource
import signal
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duebook.clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store


def main(place: str, options: dict[str, Any]) -> None:
    if "descriptors" in options:
        resource.setrlimit(resource.RLIMIT_NOFILE, (options["descriptors"],) * 2)
    sys.path.insert(0, str(Path(__file__).parents[2]))
    if "clock" in options:
        _shift_clock(Path(options["clock"]))
    from duebook.targets.command_setup import command_setup
    from duebook.targets.spawner import Spawner

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("duebook.engine.persist").setLevel(logging.DEBUG)  # tests wait for retries
    os.environ["NODE_PID"] = str(os.getpid())
    with Spawner(command_setup(os.environ["DUEBOOK_PASS_ENV"])) as spawner:
        from duebook.engine import node as engine
        from duebook.engine.node import Node, NodeOptions
        from duebook.targets.addresses import read_networks

        if "clone" in options:
            _be_a_clone(options["clone"])
        vars(engine)["END_WITHIN"] = options.get("stop_within", engine.END_WITHIN)
        store = _open(place, options)
        node_options = NodeOptions(
            slots=options.get("slots", 10),
            queues=tuple(options.get("queues", ["default"])),
            lease=timedelta(seconds=options["lease"]),
            stop_within=timedelta(seconds=options.get("shutdown_grace", 10)),
            roles=tuple(options.get("roles", ["scheduler", "worker"])),
            coordination=options.get("coordination", "all"),
            http_allow=read_networks(options.get("http_allow", "")),
            public_url=options.get("public_url"),
        )
        node = Node(store, spawner, node_options, _tasks(options), chores=_chores(store, options))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: node.stop())
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        node.run()
        store.close()
    sys.stdout.write("ended\n")


def _tasks(options: dict[str, Any]) -> Any:
    """The tasks of a program, given as MODULE:BOOK and imported from the repository."""
    if "app" not in options:
        return None
    module, _, name = options["app"].partition(":")
    return getattr(importlib.import_module(module), name).tasks


def _chores(store: Store, options: dict[str, Any]) -> list[Any]:
    from duebook.book.flow_registry import FlowRegistry
    from duebook.flows.directory_keeper import FlowKeeper

    roots = [Path(options["flows"])] if "flows" in options else []
    return [FlowKeeper(roots, FlowRegistry(store, "default"))] if roots else []


def _open(place: str, options: dict[str, Any]) -> Store:
    from duebook.settings import is_postgres
    from duebook.store.opening import open_store

    if options.keys() & {"kill_at", "stop_at", "seen", "scaled"} and is_postgres(place):
        from duebook.store.postgres import PostgresStore

        _scale_timeouts(options["lease"] / 30)
        if options.get("deaf"):
            _hear_nothing()
        return PostgresStore(place, _database_clock(options), hook=_hook(options))
    if "kill_at" in options:
        from duebook.store.sqlite import SqliteStore

        return SqliteStore(Path(place), hook=_hook(options))
    return open_store(place, options.get("listen_url"))


def _database_clock(options: dict[str, Any]) -> Callable[[], datetime] | None:
    from tests.support.clock_files import clock_of

    return clock_of(Path(options["database_clock"])) if "database_clock" in options else None


def _scale_timeouts(factor: float) -> None:
    """Shorten timeouts in proportion to a lease that is shorter than usual."""
    from duebook.store.postgres import beginning, store, transaction

    for name, begin in (("WRITE", beginning.WRITE), ("READ", beginning.READ)):
        message = re.sub(
            rb"(_timeout', ')(\d+)s'",
            lambda found: b"%s%dms'" % (found[1], int(found[2]) * 1000 * factor),
            begin.message,
        )
        vars(store)[name] = beginning.Begin(message, begin.longest * factor)
    vars(transaction)["ON_THE_WAY"] = transaction.ON_THE_WAY * factor


def _hear_nothing() -> None:
    """Neither receive nor send hints: they go to a channel without listeners."""
    from duebook.store.postgres import hints

    vars(hints)["CHANNEL"] = f"nobody_{os.getpid()}"


def _hook(options: dict[str, Any]) -> Callable[[str], None] | None:
    faults = {options.get("kill_at"): signal.SIGKILL, options.get("stop_at"): signal.SIGSTOP}
    armed_by, seen = options.get("armed_by"), set[str]()

    def reach(name: str) -> None:
        thread = threading.current_thread().name.removeprefix("duebook-").rstrip("-0123456789")
        point = f"{thread} {name}"
        if point in seen and armed_by is None:
            return
        if point not in seen and "seen" in options:
            with Path(options["seen"]).open("a") as file:
                file.write(f"{point}\n")
        armed = armed_by is None or armed_by in seen
        seen.update((point, f"* {name}"))
        for fault in faults.keys() & {point, f"* {name}"} if armed else ():
            os.kill(os.getpid(), faults[fault])

    return reach if options.keys() & {"kill_at", "stop_at", "seen"} else None


def _be_a_clone(name: str) -> None:
    """Report the same identity as other nodes, as containers created from one image do; their pids
    mean nothing to each other."""
    from dataclasses import replace

    from duebook.engine import node
    from duebook.engine.session import new_session as original

    vars(node)["new_session"] = lambda *words: replace(
        original(*words), node=name, pid=1, machine=""
    )


def _shift_clock(file: Path) -> None:
    """Called before anything else is imported, so that every module gets this clock."""
    from tests.support.clock_files import clock_of

    vars(duebook.clock)["utc_now"] = clock_of(file)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))

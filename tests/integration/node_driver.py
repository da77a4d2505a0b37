"""A node as `duebook up` starts it, but with other options and, when asked, a clock set by a file.

Usage: python node_driver.py BOOKS '{"lease": 2, "shutdown_grace": 10, "slots": 10, "clock": FILE,
    "descriptors": 60}'
With "app": "module:book" it knows the tasks of that program.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import resource
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duebook.clock


def main(place: str, options: dict[str, float | str]) -> None:
    if "descriptors" in options:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(options["descriptors"]),) * 2)
    if "clock" in options:
        _shift_clock(Path(str(options["clock"])))
    from duebook.targets.spawner import Spawner

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    logging.getLogger("duebook.engine.persist").setLevel(logging.DEBUG)  # tests wait for its tries
    os.environ["NODE_PID"] = str(os.getpid())
    with Spawner() as spawner:
        from duebook.engine.node import Node, NodeOptions
        from duebook.store.opening import open_store
        from duebook.targets.addresses import read_networks

        listen_url = options.get("listen_url")
        store = open_store(place, None if listen_url is None else str(listen_url))
        node_options = NodeOptions(
            slots=int(options.get("slots", 10)),
            lease=timedelta(seconds=float(options["lease"])),
            shutdown_grace=timedelta(seconds=float(options.get("shutdown_grace", 10))),
            http_allow=read_networks(str(options.get("http_allow", ""))),
        )
        node = Node(store, spawner, node_options, _tasks(options))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: node.stop())
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        node.run()
        store.close()
    sys.stdout.write("ended\n")


def _tasks(options: dict[str, float | str]) -> Any:
    """Those of the program that is named as MODULE:BOOK, imported from the repository."""
    if "app" not in options:
        return None
    sys.path.insert(0, str(Path(__file__).parents[2]))
    module, _, name = str(options["app"]).partition(":")
    return getattr(importlib.import_module(module), name).tasks


def _shift_clock(file: Path) -> None:
    """Before anything else is imported: every module then gets this clock."""

    def shifted() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=float(file.read_text()))

    vars(duebook.clock)["utc_now"] = shifted


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))

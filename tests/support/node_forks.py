"""A process that has imported what a node needs, and forks whenever it is asked for one.

Usage: python -m tests.support.node_forks SOCKET, which is the number of a file; see forked.py.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any, Final

from tests.support import node_driver

LONGEST: Final = 100_000
"""Bytes of a request."""
NEEDED: Final = (
    "duebook.book.flow_registry",
    "duebook.engine.node",
    "duebook.flows.directory_keeper",
    "duebook.store.opening",
    "duebook.store.postgres",
    "duebook.store.sqlite",
    "duebook.targets.command_setup",
    "duebook.targets.spawner",
)
NO_MARK: Final = "duebook-node-00000000-0000-0000-0000-000000000000"
_ENVIRONMENT: Final = 47
"""Where in what the kernel says of a process the place of its environment is."""


def main() -> None:
    for name in NEEDED:
        importlib.import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a fork has none of the other threads"
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        node = serve(asked)
    if node is not None:
        node_driver.main(*node)


def serve(asked: socket.socket) -> tuple[str, dict[str, Any]] | None:
    """Answer requests until nobody is there to ask; in a fork, return what the node is to be."""
    while True:
        message, files, *_ = socket.recv_fds(asked, LONGEST, 2)
        if not message:
            return None
        request = json.loads(message)
        if "reap" in request:
            _, status = os.waitpid(request["reap"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if not answer:
                become(request, files)
                return request["place"], request["options"]
            for file in files:
                os.close(file)
        asked.send(json.dumps(answer).encode())


def become(request: dict[str, Any], files: list[int]) -> None:
    """As if this process had been started with these files, this folder and environment."""
    os.setsid()
    os.chdir(request["cwd"])
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
        os.close(file)
    _write_mark(request["env"]["NODE_MARK"])
    told = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}  # by Python
    os.environ.clear()
    os.environ.update(told | request["env"])
    sys.path[0] = str(Path(node_driver.__file__).parent)


def _write_mark(mark: str) -> None:
    """Where others look for it: the kernel shows the environment that a process began with."""
    told = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    first, end = map(int, told[_ENVIRONMENT : _ENVIRONMENT + 2])
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(first)
        place = memory.read(end - first).index(NO_MARK.encode())
        memory.seek(first + place)
        memory.write(mark.encode())


if __name__ == "__main__":
    main()

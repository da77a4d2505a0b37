"""A real node on a database in its own memory: what works, and what says that it cannot."""

from __future__ import annotations

import signal
import subprocess
import sys

from duebook.remote import RemoteBook
from tests.support.nodes import World, world
from tests.support.waiting import eventually

__all__ = ["world"]  # the fixture

PROGRAM = """
import os
from duebook import Context, Duebook

book = Duebook("memory://shop")

@book.task
def hello(name: str = "you") -> str:
    return f"hello {name}"

@book.task(isolation="process")
def apart(n: int) -> int:
    return n + 1

@book.task(isolation="process")
def looks() -> int:
    return len(book.schedules.list())
"""


def test_a_node_in_memory_serves_itself_and_says_what_it_cannot(world: World) -> None:
    (world.folder / "shop.py").write_text(PROGRAM, "utf-8")
    argv = [sys.executable, "-m", "duebook", "up", "--app", "shop:book", "--port", "0"]
    node = world._begin(argv)
    address = node.address
    said = node.output.splitlines()
    assert said[0].endswith("database memory://shop")
    assert said[1].startswith("this database is lost when the node stops")
    token = (world.folder / ".duebook" / "token").read_text().strip()
    with RemoteBook(address, token) as remote:
        runs = []
        for task, payload in (("hello", {"name": "Ann"}), ("apart", {"n": 3}), ("looks", {})):
            remote.schedules.create(task, trigger={"cron": "@yearly"}, target=task, payload=payload)
            runs.append(remote.schedules.trigger(task))
        eventually(lambda: all(remote.runs.get(run.id).finished_at for run in runs))
        hello, apart, looks = (remote.runs.get(run.id) for run in runs)
        assert (hello.output, apart.output) == ("hello Ann", 4)
        assert looks.status == "failed"
        assert "is in the memory of the node" in (looks.error or "")
        assert remote.nodes.list()
    for words in (("ls",), ("db", "backup", "copy.db"), ("db", "status"), ("tick",), ("web",)):
        refused = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "duebook", "--database", "memory://shop", *words],
            env=world.env,
            cwd=world.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode == 2, words
        assert "memory of" in refused.stderr, words
    assert node.end(signal.SIGTERM) == 0
    assert node.output.splitlines()[-1] == "stopped; the database in memory is gone"

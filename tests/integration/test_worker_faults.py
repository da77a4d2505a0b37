"""Workers that are killed, or stopped beyond their lease and continued, while they run work of
each kind; judged by evidence outside the books, on both databases."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.chaos import checker
from tests.chaos.books import read_books
from tests.chaos.witness import Witness
from tests.support import nodes
from tests.support.nodes import HELD, LEASE, NodeProcess, World, cmdline, open_world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP: Final = "tests.integration.program:book"
TASKS: Final = ("thread", "loop", "process")
KINDS: Final = (*TASKS, "command", "http")
EVERY_SECOND: Final[dict[str, Any]] = {
    "trigger": {"every": "1s"},
    "overlap": "queue",
    "grace": "1s",
    "catchup": "all",
    "catchup_pace": "0s",
}


class Hook(ThreadingHTTPServer):
    """Holds requests until the world may go, and writes the evidence of each as commands do."""

    daemon_threads = True

    def __init__(self, world: World) -> None:
        super().__init__(("127.0.0.1", 0), _Held)
        self.world = world
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"


class _Held(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        """`cancelled` is the word when the client goes before its answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say("start")
        self.connection.settimeout(0.02)
        while not self.server.world.go.exists():
            with suppress(TimeoutError):
                self.connection.recv(1)
                self._say("cancelled")
                return
        self._say("end")
        self.send_response(204)
        self.end_headers()

    def _say(self, word: str) -> None:
        told = (self.headers[f"Duebook-{name}"] for name in ("Schedule", "Attempt", "Due-At"))
        schedule, attempt, due = told
        who = f"{schedule} {self.headers['Idempotency-Key']} {attempt} {due}"
        with self.server.world.evidence_file.open("a") as file:
            file.write(f"{word} {who} 0 somewhere {time.time()}\n")

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Schedules of each kind that are due every second, and whose work waits for `go`.

    On PostgreSQL tests/chaos/test_faults.py kills and stops nodes, whatever they work at."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with open_world(tmp_path, url) as opened, serving(Hook(opened)) as hook:
        for task in TASKS:
            opened.book.schedules.create(task, target={"task": task}, **EVERY_SECOND)
        opened.add("command", HELD, **EVERY_SECOND)
        http = {"method": "POST", "url": hook.url, "json": {}}
        opened.book.schedules.create("http", target={"http": http}, timeout="1h", **EVERY_SECOND)
        yield opened


@contextmanager
def serving(hook: Hook) -> Iterator[Hook]:
    thread = threading.Thread(target=hook.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        hook.shutdown()
        hook.server_close()
        thread.join()


def worker(world: World) -> NodeProcess:
    """With a lease that no busy machine costs it: attempts are counted."""
    return world.node(app=APP, http_allow="127.0.0.1", scaled=True, lease=3 * LEASE)


def begun(world: World, number: int = 1) -> None:
    """Until work of each kind has begun so often."""
    for kind in KINDS:
        world.wait_evidence("start", kind, number)


def stop(world: World, node: NodeProcess) -> None:
    if world.path.exists():
        world.stop_outside_transactions(node)
    else:
        node.send(signal.SIGSTOP)
        eventually(lambda: nodes.is_stopped(node.pid))


def check(world: World) -> None:
    """Every invariant, once all work has ended; each kind lost one attempt, and did more since."""
    for kind in KINDS:
        world.wait_evidence("end", kind, 4)
    world.come_to_rest(list(KINDS))
    for kind in KINDS:
        first, *others = sorted(world.book.runs.list(kind, limit=1_000), key=lambda r: r.created_at)
        assert (first.status, first.attempt, first.losses) == ("succeeded", 2, 1), kind
        assert {(run.status, run.attempt) for run in others} == {("succeeded", 1)}, kind
        assert {e.attempt for e in world.evidence("end") if e.run == first.id} == {2}, kind
    if world.path.exists():
        nodes.check(world)
    else:
        pids = {node.mark: node.pid for node in world.nodes}
        evidence = [e for e in world.evidence() if e.word != "cancelled"]
        assert checker.check(read_books(world.place), Witness(evidence, pids=pids)) == []
    checked = world.cli("db", "check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_what_a_killed_worker_was_doing_is_done_by_another(world: World) -> None:
    first = worker(world)
    begun(world)
    worker(world)
    first.end(signal.SIGKILL)
    eventually(lambda: not first.family())  # what it ran has died with it; others go on at once
    begun(world, 2)
    world.go.touch()
    check(world)
    assert went_on(world) == set(), "nobody went on"


def went_on(world: World) -> set[str]:
    """The kinds of work of which an attempt went on after another had begun, as the books say."""
    return {
        kind
        for kind in KINDS
        for run in world.book.runs.list(kind, limit=1_000)
        for attempt in world.book.runs.attempts(run.id)
        if attempt.went_on_until is not None
    }


def test_a_worker_stopped_beyond_its_lease_and_continued_settles_nothing(world: World) -> None:
    first = worker(world)
    begun(world)
    worker(world)
    stop(world, first)
    begun(world, 2)
    assert not [pid for pid in first.family() if b"task_child" in cmdline(pid)], (
        "the spawner, which was not stopped, has killed it"
    )
    assert len({e.pid for e in world.evidence("start", "command")} & set(world.working())) == 1
    first.send(signal.SIGCONT)
    eventually(lambda: "this node continues as session" in first.log)
    for kind in ("thread", "loop", "http"):  # they are asked to end, and hear it
        world.wait_evidence("cancelled", kind)
    world.go.touch()
    check(world)
    assert went_on(world) == {"thread", "loop"}, "what could not be killed"

"""Runs other schedulers and queues for comparison: each in its own processes and environment.

The commands of the programs in `peer_programs` are described in its common.py. Every measurement
has its own database on the server that Duebook is measured on; Celery beat has a Redis.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from psycopg.conninfo import conninfo_to_dict
from tests.support.postgres import free_port, give, launch
from tests.support.waiting import eventually

from bench import environments
from bench.goals import leave_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import Server

__all__ = ["QUEUES", "SCHEDULERS", "Worker", "available", "call", "drained", "place"]

QUEUES: Final = (
    "pgqueuer",
    "Procrastinate",
    "chancy",
    "graphile-worker",
    "graphile-worker, local queue",
    "pg-boss",
)
SCHEDULERS: Final = ("APScheduler 3", "APScheduler 4", "Celery beat")
LONGEST: Final = 600.0
FEW: Final = 20


def available(server: Server, names: tuple[str, ...]) -> list[str]:
    """The peers that can run a few jobs here; reports the others as left out."""
    found = []
    for name in names:
        if not environments.is_installed(name):
            leave_out(name, "it could not be installed; see python -m bench.environments")
        elif name == "Celery beat" and shutil.which("redis-server") is None:
            leave_out(name, "redis-server is not installed")
        elif trouble := tried(server, name):
            leave_out(name, f"it failed with {trouble!r}")
        else:
            found.append(name)
    return found


def tried(server: Server, name: str) -> str:
    """The last output of a peer that fails; empty if it works."""
    try:
        drained(server, name, FEW)
    except AssertionError as error:
        print(error)
        return str(error).strip().splitlines()[-1]
    return ""


def drained(server: Server, name: str, number: int, ms: float = 0, processes: int = 1) -> float:
    """Jobs per second of this many worker processes, from the moment when all of them are ready to
    start until the last reports that nothing is left."""
    with place(server, name) as url, ExitStack() as stack:
        if name != "Celery beat":  # it has no store: its schedules are created in the process
            call(name, "fill", url, number, ms)
        crew = [Worker(name, "drain", url, number, ms) for _ in range(processes)]
        for worker in crew:
            stack.enter_context(worker)
        for worker in crew:
            worker.expect("ready")
        began = time.perf_counter()
        for worker in crew:
            worker.say("go")
        for worker in crew:
            worker.expect("done")
        return number / (time.perf_counter() - began)


@contextmanager
def place(server: Server, name: str) -> Iterator[str]:
    """The URL of an empty database over TCP, in the form that all peers accept."""
    if name == "Celery beat":
        with redis() as url:
            yield url
        return
    with server.database("template0") as url:
        yield server.url(str(conninfo_to_dict(url)["dbname"]), "127.0.0.1")


@contextmanager
def redis() -> Iterator[str]:
    """A Redis that appends its data to a file, and flushes it each second: the default when
    persistence is enabled."""
    program = shutil.which("redis-server")
    assert program is not None
    folder = Path(tempfile.mkdtemp(prefix="duebook-redis-"))
    give(folder)
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--appendonly", "yes"]
    process = launch([program, *options, "--dir", str(folder)], folder)
    try:
        log = folder / "log"
        eventually(lambda: "Ready to accept" in log.read_text(errors="replace"))
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def call(name: str, *words: object) -> None:
    """Run a program to its end."""
    done = subprocess.run(
        environments.argv(name, *words),
        env=environments.environment(name),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, f"{name} {words[0]}: {(done.stdout + done.stderr)[-2000:]}"


class Worker:
    """A running program of a peer, with its input and output."""

    def __init__(self, name: str, *words: object, env: dict[str, str] | None = None) -> None:
        self._name = name
        self._words = environments.argv(name, *words)
        self._env = environments.environment(name) | (env or {})

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Worker:
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            self._words,
            env=self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        return self

    def say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def expect(self, word: str) -> None:
        """Wait until it prints this."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"{self._name} ended: {self.errors()}")

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.communicate()
        self._errors.close()

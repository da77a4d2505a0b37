"""Starts a Redis, and workers and beats of Celery, and reads the evidence of their tasks; all of
them end with the test."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from tests.support.postgres import free_port, give, launch
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook import Duebook
    from tests.support.proxy import Proxy

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = "tests.celery_workers.program"
MISSING: Final = (
    "redis-server is not installed; on Debian: sudo apt-get install redis-server, "
    "or DUEBOOK_NO_REDIS=1 to leave these tests out"
)
YEARLY: Final = {"cron": "0 0 1 1 *"}
QUIET: Final = ("--without-gossip", "--without-mingle", "--without-heartbeat")


class Line(NamedTuple):
    """What a task left."""

    word: str
    task_id: str
    pid: int
    at: float

    @property
    def run_id(self) -> str:
        return self.task_id.rpartition("-")[0]


class CeleryWorld:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._place = Path(tempfile.mkdtemp(prefix="duebook-redis-"))  # sockets need short paths
        give(self._place)
        self.socket = self._place / "s"
        self.port = free_port()
        self.proxy: Proxy | None = None
        self.evidence = folder / "evidence"
        self.url = f"sqlite:///{folder}/duebook.db"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.start_redis()

    @property
    def env(self) -> dict[str, str]:
        return {
            "REDIS": str(self.socket),
            "EVIDENCE": str(self.evidence),
            "DUEBOOK_DATABASE_URL": self.url,
        }

    def start_redis(self) -> None:
        """Without a file: what it knew is gone when it is killed."""
        program = shutil.which("redis-server")
        assert program is not None
        options = [
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--unixsocket",
            str(self.socket),
            "--unixsocketperm",
            "777",
        ]
        argv = [program, *options, "--save", "", "--appendonly", "no"]
        self.redis = launch(argv, self._place)
        eventually(self.socket.exists)

    def kill_redis(self) -> None:
        self.redis.kill()
        self.redis.wait()
        self.socket.unlink()

    def worker(self, *queues: str) -> subprocess.Popen[bytes]:
        options = ("--pool", "solo", "--queues", ",".join(queues), *QUIET)
        return self._celery("worker", *options)

    def beat(self) -> subprocess.Popen[bytes]:
        return self._celery("beat", "-S", "duebook.celery:Scheduler", "--pidfile=")

    def _celery(self, *words: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "celery", "-A", PROGRAM, *words, "--loglevel", "INFO"]
        log = self.folder / f"{words[0]}-{len(self._processes)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603
                argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=ROOT,
                env={**os.environ, **self.env},
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> int:
        """With all that it started, at once; returns its pid."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        return process.pid

    def lines(self, word: str | None = None) -> list[Line]:
        if not self.evidence.exists():
            return []
        split = (text.split() for text in self.evidence.read_text().splitlines())
        found = [Line(first, id_, int(pid), float(at)) for first, id_, pid, at in split]
        return [line for line in found if word in (None, line.word)]

    def by_run(self, word: str) -> dict[str, list[Line]]:
        found: dict[str, list[Line]] = defaultdict(list)
        for line in self.lines(word):
            found[line.run_id].append(line)
        return found

    @property
    def story(self) -> str:
        """What its processes have said, for a test that fails."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in logs)

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                self.kill(process)
        self.redis.kill()
        self.redis.wait(PATIENCE)
        shutil.rmtree(self._place, ignore_errors=True)


def open_world(folder: Path) -> Iterator[CeleryWorld]:
    if os.environ.get("DUEBOOK_NO_REDIS") == "1":
        pytest.skip("DUEBOOK_NO_REDIS=1")
    if shutil.which("redis-server") is None:
        pytest.fail(MISSING, pytrace=False)
    world = CeleryWorld(folder)
    try:
        yield world
    finally:
        world.close()


def run_of(book: Duebook, name: str, target: dict[str, Any], **policies: Any) -> str:
    """A run by hand of a new schedule."""
    task = {"celery": f"{PROGRAM}.{target.pop('task')}"} | target
    book.schedules.create(name, trigger=YEARLY, target=task, overlap="allow", **policies)
    return str(book.schedules.trigger(name).id)


def log_of(book: Duebook, run_id: str) -> str:
    return "\n".join(line.text for _, line in book.runs.log(run_id))

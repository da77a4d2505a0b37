"""Starts nodes as forks of a process that has imported what they need: most of what a node does in
its first second, and the same for each."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from tests.support.node_forks import LONGEST, NO_MARK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT: Final = Path(__file__).parents[2]
DRIVER: Final = Path(__file__).with_name("node_driver.py")


def can_be_forked(argv: Sequence[str]) -> bool:
    """Whether it is a node of node_driver.py, with the clock that the forking process has."""
    return argv[1:2] == [str(DRIVER)] and "clock" not in json.loads(argv[-1])


class ForkedNode:
    """A node of node_driver.py, with what subprocess.Popen has that tests use; `argv` is how it
    would be started otherwise."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        stdout: IO[bytes],
        stderr: IO[bytes],
        env: Mapping[str, str],
        cwd: Path,
        **_: Any,
    ) -> None:
        *_interpreter, place, options = argv
        request = {"place": place, "options": json.loads(options), "env": env, "cwd": str(cwd)}
        self.returncode: int | None = None
        self._lock = threading.Lock()
        self.pid = _forks().ask(request, stdout.fileno(), stderr.fileno())
        self._end = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        ended = self._look(timeout)
        if ended is None:
            raise subprocess.TimeoutExpired("a node", timeout or 0)
        return ended

    def send_signal(self, number: int) -> None:
        with self._lock:
            if self.returncode is None:
                signal.pidfd_send_signal(self._end, number)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and _is_readable(self._end, timeout):
            with self._lock:
                if self.returncode is None:
                    self.returncode = _forks().ask({"reap": self.pid})
                    os.close(self._end)
        return self.returncode


def _is_readable(file: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(None if timeout is None else timeout * 1_000))


class _Forks:
    """The process that forks, for as long as this one lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "tests.support.node_forks", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={"PATH": os.environ["PATH"], "TZ": "UTC", "NODE_MARK": NO_MARK},
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def ask(self, request: dict[str, Any], *files: int) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            return int(json.loads(self._socket.recv(LONGEST)))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _forks() -> _Forks:
    made = _Forks()
    atexit.register(made.close)
    return made

"""Keeps the web process of a node running: starts it, answers its queries, restarts it when it died
or hangs, and stops it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duebook
from duebook.api.node_link import Heartbeat, Line, answer_asks, ping
from duebook.backoff import backoff
from duebook.closing import Closing
from duebook.randomness import fraction
from duebook.targets.command_setup import early_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["WebProcess"]

log = logging.getLogger(__name__)

END_WITHIN: Final = 15.0
"""Seconds after which a web process is killed; on its own it exits within 12."""
WELL: Final = 60.0
"""A web process that ran for this many seconds had started successfully."""
_ROOT: Final = str(Path(duebook.__file__).parents[1])
# -P, and Duebook at the end of the path: the working directory cannot replace our modules
_PROGRAM: Final = (
    "import sys; sys.path.append({root!r}); from duebook.cli.web_process import main; "
    "main({line}, {listening}, {node})"
)


class _Child:
    """A web process, and the node's end of the line to it."""

    def __init__(self, listening: socket.socket) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            fds = (theirs.fileno(), listening.fileno())
            program = _PROGRAM.format(root=_ROOT, line=fds[0], listening=fds[1], node=os.getpid())
            self.process = subprocess.Popen(  # noqa: S603  (our own program)
                [sys.executable, "-P", "-c", program],
                env=early_variables(),  # other settings are sent over the line, hidden from others
                stdin=subprocess.DEVNULL,
                stdout=2,  # stdout is for results of the node
                pass_fds=fds,
                start_new_session=True,  # Ctrl-C goes to the node, which then stops us in order
            )
        self.line = Line(ours)
        with suppress(OSError):  # it has already ended, which is detected later
            self.line.send({"environ": dict(os.environ)})

    def wait(self) -> int:
        """Wait until it has ended, and return its exit code; kills it if it takes too long."""
        try:
            return self.process.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class WebProcess(Closing):
    """When created, the process starts importing; `start` makes it serve.

    Create it in a thread that lives as long as the node: on Linux the process dies with it.
    """

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._child = _Child(listening)
        self._thread: threading.Thread | None = None

    @property
    def pid(self) -> int:
        return self._child.process.pid

    def start(
        self,
        told: Mapping[str, Any],
        answers: Mapping[str, Callable[[], Any]],
        restarted: Callable[[], None],
    ) -> None:
        """Serve according to `told`, and restart whenever it ends; `answers` handle its queries,
        and `restarted` is called each time."""
        self._thread = threading.Thread(
            target=self._supervise,
            args=(told, answers, restarted),
            name="duebook-web-process",
            daemon=True,
        )
        self._thread.start()

    def _supervise(
        self,
        told: Mapping[str, Any],
        answers: Mapping[str, Callable[[], Any]],
        restarted: Callable[[], None],
    ) -> None:
        failures = 0
        while True:
            child, began = self._child, time.monotonic()
            with suppress(OSError):  # it ended before it received anything
                child.line.send(told)
            with _watched(child) as heartbeat:
                answer_asks(child.line, answers, heartbeat)
                code = child.wait()
            if self._over.is_set():
                return
            failures = 1 if time.monotonic() - began > WELL else failures + 1
            log.warning("the web process ended (%s); starting it again", _ending(code))
            child.line.close()
            restarted()
            if not self._start_again(failures):
                return

    def _start_again(self, failures: int) -> bool:
        """False if the node stops meanwhile."""
        while not self._over.wait(backoff(failures, fraction(id(self), failures))):
            with self._lock:
                if self._over.is_set():
                    return False
                try:
                    self._child = _Child(self._listening)
                except OSError as error:  # no processes, descriptors or memory left
                    log.warning("the web process could not be started: %s", error)
                    failures += 1
                else:
                    return True
        return False

    def close(self) -> None:
        """Let running requests finish; returns when the process is gone."""
        self._over.set()
        with self._lock:
            child = self._child
        if self._thread is None:  # it does not serve yet, so it need not finish importing
            child.process.kill()
        child.line.let_go()
        child.wait()
        if self._thread is not None:
            self._thread.join()
        child.line.close()


@contextmanager
def _watched(child: _Child) -> Iterator[Heartbeat]:
    """Kill the process if it hangs during the `with` block."""
    heartbeat, over = Heartbeat(), threading.Event()

    def watch() -> None:
        if ping(child.line, heartbeat, over):
            log.warning("the web process does not respond; killing it")
            child.process.kill()

    thread = threading.Thread(target=watch, name="duebook-web-heartbeat", daemon=True)
    thread.start()
    try:
        yield heartbeat
    finally:
        over.set()
        thread.join()


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"

"""Executes tasks in separate processes, which can be killed; the node's side.

The spawner starts them, so that they end with their node and its lease as commands do. A process
that has finished, and left nothing behind, is kept for the next run. `task_child.py` is the other
side: lines of JSON over a socket in a folder that only this user may enter.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.closing import Closing
from duebook.errors import Unavailable
from duebook.model.codec import encode
from duebook.model.event import Draft
from duebook.model.run import Outcome, Progress
from duebook.targets.command import GRACE, outcome_of
from duebook.targets.command_setup import early_variables
from duebook.targets.node_secrets import SecretFailed
from duebook.targets.outcomes import Unfit
from duebook.targets.processes import Exit, read_exit, read_piece
from duebook.targets.task import CHILD, payload_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal

    from duebook.model.run import Claim
    from duebook.targets.context import Reports
    from duebook.targets.processes import Stop
    from duebook.targets.spawner import Spawner
    from duebook.targets.supervisors import Process
    from duebook.targets.task import Task

    Printed = Callable[[Literal["stdout", "stderr"], bytes], None]

__all__ = ["TaskProcesses"]

MARGIN: Final = 6.0
"""Seconds within which a killed process should be gone."""
BEGIN_WITHIN: Final = 60.0
"""Seconds within which a process should have imported Duebook and asked for work."""
LONGEST_IDLE: Final = 300.0
MOST_PIECES: Final = 64
_PIECE: Final = 65_536


class Child(Closing):
    """One process, which executes one run at a time."""

    def __init__(self, spawner: Spawner, path: Path, env: Mapping[str, str]) -> None:
        self._path = path
        self.listener: socket.socket | None = socket.socket(socket.AF_UNIX)
        self.connection: socket.socket | None = None
        self._unread = b""
        try:
            self.listener.bind(str(path))
            self.listener.listen(1)
            argv = [sys.executable, "-m", CHILD, str(path)]
            self._env = {**os.environ, **env}
            # the rest follows later: commands of the same user can read a process's initial
            # environment
            early = {**spawner.setup.inherited, **early_variables(self._env)}
            self.process: Process = spawner.spawn(argv, early, as_node=True)
        except BaseException:
            self._close_listener()
            raise

    def accept(self) -> socket.socket:
        assert self.listener is not None  # noqa: S101 - it is asked once
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(MARGIN)
        self._close_listener()
        self.send({"environ": self._env})
        return self.connection

    def send(self, message: dict[str, Any]) -> bool:
        """Whether it was accepted in time. Harmless if the process has ended, as its status
        shows."""
        if self.connection is not None:
            try:
                self.connection.sendall(json.dumps(message).encode() + b"\n")
            except TimeoutError:
                return False
            except OSError:
                pass
        return True

    def receive(self) -> list[dict[str, Any]] | None:
        """The messages received; None if there will be no more."""
        assert self.connection is not None  # noqa: S101 - somebody waited for it
        try:
            piece = self.connection.recv(_PIECE)
        except OSError:
            piece = b""
        if not piece:
            return None
        *lines, self._unread = (self._unread + piece).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Kill what is left of it."""
        self.process.close()
        self._close_listener()
        if self.connection is not None:
            self.connection.close()

    def _close_listener(self) -> None:
        if self.listener is not None:
            self.listener.close()
            self.listener = None
            self._path.unlink(missing_ok=True)


class TaskProcesses(Closing):
    """The processes of a node; safe to use from several threads."""

    def __init__(self, spawner: Spawner, env: Mapping[str, str] | None = None) -> None:
        self._spawner = spawner
        self._env = env or {}
        self._most_idle = os.cpu_count() or 1
        self._lock = threading.Lock()
        self._idle: list[tuple[Child, float]] = []
        """with the time since when they are idle; the latest is taken first"""
        self._folder: Path | None = None
        self._started = 0

    def perform(
        self, task: Task, claim: Claim, stop: Stop, printed: Printed, reports: Reports
    ) -> Outcome:
        """Have a run executed, and wait for its end; raises Unavailable without a spawner."""
        try:
            message = _message(task, claim)
        except Unfit as unfit:
            return unfit.outcome
        child = self._take()
        try:
            attempt = _Attempt(child, stop, printed, reports, claim.spec.timeout)
            outcome = attempt.follow(message)
        except BaseException:
            child.close()
            raise
        if attempt.is_reusable:
            self._give(child)
        else:
            child.close()
        return outcome

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
            folder, self._folder = self._folder, None
        for child, _ in idle:
            child.close()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def tidy(self) -> None:
        """End processes that have been idle for long."""
        before = time.monotonic() - LONGEST_IDLE
        with self._lock:
            old = [child for child, since in self._idle if since < before]
            self._idle = [item for item in self._idle if item[1] >= before]
        for child in old:
            child.close()

    def _take(self) -> Child:
        while True:
            with self._lock:
                if not self._idle:
                    break
                child, _ = self._idle.pop()
            if _is_quiet(child):
                return child
            child.close()
        try:
            return Child(self._spawner, self._new_path(), self._env)
        except OSError as error:
            raise Unavailable(f"the task process could not be started: {error}") from error

    def _give(self, child: Child) -> None:
        with self._lock:
            if len(self._idle) < self._most_idle:
                self._idle.append((child, time.monotonic()))
                return
        child.close()

    def _new_path(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="duebook-"))
            self._started += 1
            return self._folder / f"{self._started}"


def _is_quiet(child: Child) -> bool:
    """Whether an idle process is alive; drops what it printed meanwhile, which belongs to no
    run."""
    for _ in range(MOST_PIECES):
        if not (read_piece(child.process.stdout) or read_piece(child.process.stderr)):
            break
    with selectors.PollSelector() as selector:
        selector.register(child.process.status, selectors.EVENT_READ)
        return not selector.select(0)


def _message(task: Task, claim: Claim) -> dict[str, Any]:
    return {
        "run": encode(claim.begun_run),
        "session_id": claim.token.session_id,
        "payload": payload_of(claim),
        "user": claim.user,
        "traceparent": claim.traceparent,
        "task": task.name,
        "qualname": task.function.__qualname__,
        "path": sys.path,
        **_home(task.function.__module__),
    }


def _home(module: str) -> dict[str, str | None]:
    """Where another process finds the code: a module, or the file of the main program."""
    if module != "__main__":
        return {"module": module, "file": None}
    main = sys.modules["__main__"]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return {"module": spec.name, "file": None}
    return {"module": None, "file": str(Path(main.__file__ or "").resolve())}


class _Attempt:
    """Follows one run in a process to its end."""

    def __init__(
        self, child: Child, stop: Stop, printed: Printed, reports: Reports, timeout: Any
    ) -> None:
        self._child = child
        self._stop = stop
        self._printed = printed
        self._reports = reports
        self._timeout = None if timeout is None else timeout.total_seconds()
        self._deadline = math.inf
        self._reason: str | None = None
        self._killed = False
        self._outcome: Outcome | None = None
        self.is_reusable = False

    def follow(self, message: dict[str, Any]) -> Outcome:
        child, process = self._child, self._child.process
        with selectors.PollSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, self._read_stdout)
            selector.register(process.stderr, selectors.EVENT_READ, self._read_stderr)
            selector.register(process.status, selectors.EVENT_READ, self._read_status)
            selector.register(self._stop, selectors.EVENT_READ, self._ask)
            if child.connection is None:
                assert child.listener is not None  # noqa: S101 - nobody has connected yet
                self._deadline = time.monotonic() + BEGIN_WITHIN
                selector.register(
                    child.listener, selectors.EVENT_READ, lambda s: self._begin(s, message)
                )
            else:
                self._begin(selector, message)
            while self._outcome is None:
                self._step(selector)
        return self._outcome

    def _step(self, selector: selectors.BaseSelector) -> None:
        left = self._deadline - time.monotonic()
        for key, _ in selector.select(None if left == math.inf else max(left, 0.0)):
            key.data(selector)
        if self._outcome is None and time.monotonic() >= self._deadline:
            self._escalate()

    def _begin(self, selector: selectors.BaseSelector, message: dict[str, Any]) -> None:
        child = self._child
        if child.listener is not None:
            selector.unregister(child.listener)
            child.accept()
        assert child.connection is not None  # noqa: S101 - there is one by now
        selector.register(child.connection, selectors.EVENT_READ, self._hear)
        taken = child.send(message)
        if self._reason is not None:
            child.send({"stop": self._reason})
        elif taken:
            limit = self._timeout
            self._deadline = math.inf if limit is None else time.monotonic() + limit
        else:
            child.process.kill()
            self._outcome = Outcome("failed", "not_started", "its process did not accept the run")

    def _hear(self, selector: selectors.BaseSelector) -> None:
        messages = self._child.receive()
        if messages is None:  # it is ending; its status will tell how
            selector.unregister(self._child.connection)  # type: ignore[arg-type]
            return
        for message in messages:
            if "line" in message:
                self._reports.line(*message["line"])
            elif "secret" in message:
                self._child.send(self._answer(message["secret"]))
            elif "progress" in message:
                self._reports.progress(Progress(*message["progress"]))
            else:
                self._drain()
                how = message["outcome"]
                events = tuple(Draft(*event) for event in how["events"])
                self._outcome = Outcome(
                    **how | {"kinds": tuple(how["kinds"]), "events": events, "output_secrets": ()}
                )
                self.is_reusable = self._reason is None and message["reusable"]

    def _answer(self, name: str) -> dict[str, Any]:
        """The answer to a task that asks for a secret."""
        try:
            return {"secret": self._reports.secret(name)}
        except (SecretFailed, Unavailable) as error:
            return {"no_secret": str(error)}

    def _read_stdout(self, selector: selectors.BaseSelector) -> None:
        if self._pass_on("stdout", self._child.process.stdout) == 0:
            selector.unregister(self._child.process.stdout)

    def _read_stderr(self, selector: selectors.BaseSelector) -> None:
        if self._pass_on("stderr", self._child.process.stderr) == 0:
            selector.unregister(self._child.process.stderr)

    def _pass_on(self, stream: Literal["stdout", "stderr"], fd: int) -> int | None:
        """How many bytes there were: 0 if the stream has ended, None if there are none yet."""
        piece = read_piece(fd)
        if piece:
            self._printed(stream, piece)
        return None if piece is None else len(piece)

    def _drain(self) -> None:
        """Read what the function printed, which is in the pipes by now; others may print
        endlessly."""
        for _ in range(MOST_PIECES):
            out = self._pass_on("stdout", self._child.process.stdout)
            err = self._pass_on("stderr", self._child.process.stderr)
            if not (out or err):
                break

    def _read_status(self, _: selectors.BaseSelector) -> None:
        """The process ended in the middle of the run."""
        self._drain()
        ended = read_exit(self._child.process.read_status(), self._reason)
        self._outcome = self._ended(ended)

    def _ended(self, ended: Exit) -> Outcome:
        if self._reason == "timeout":
            return Outcome("failed", "timeout", "it took longer than its timeout")
        if self._reason is not None:
            return Outcome("cancelled", self._reason)
        if ended.error is None and ended.stopped is None and ended.code == 0:
            return Outcome("failed", "exit_code", "its process stopped before the task finished", 0)
        return outcome_of(ended)

    def _ask(self, selector: selectors.BaseSelector) -> None:
        selector.unregister(self._stop)
        self._stop_it(self._stop.reason or "stop")

    def _stop_it(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
            self._child.send({"stop": reason})
            self._deadline = time.monotonic() + GRACE

    def _escalate(self) -> None:
        """Ask, then kill, then give up: a stuck process must not hold a thread."""
        if self._child.connection is None and self._reason is None:
            self._child.process.kill()
            self._outcome = Outcome("failed", "not_started", "its process did not start in time")
        elif self._reason is None:
            self._stop_it("timeout")
        elif not self._killed:
            self._killed = True
            self._child.process.kill()
            self._deadline = time.monotonic() + MARGIN
        else:
            self._outcome = self._ended(Exit(error="its process does not stop"))

"""A process that executes tasks for a node, one run at a time: `python -m … SOCKET`.

It imports the program that declares the task, and knows no database itself. It reports whether a
run has left it unchanged, so that another run may use it. It ends when the node closes the socket;
the spawner ensures that nothing of it survives the node.
"""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
import threading
from dataclasses import asdict
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from duebook.errors import Invalid
from duebook.machine import hide_memory
from duebook.model.codec import decode
from duebook.model.enqueued import enqueued_spec
from duebook.model.run import Claim, Outcome, Run, Token
from duebook.targets.context import TaskStop
from duebook.targets.function_signature import FunctionSignature
from duebook.targets.loop import AsyncRun, EventLoop
from duebook.targets.node_secrets import SecretFailed
from duebook.targets.outcomes import raised
from duebook.targets.task import Task, perform_task
from duebook.targets.trace_context import entered

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.event import Draft
    from duebook.model.run import Progress

__all__ = ["has_children", "main"]

Message = dict[str, Any]

_THREADS = Path("/proc/self/task")
_LOOKS = 100


class Line:
    """The socket to the node; messages arrive in order."""

    opened = False
    settles = False

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(address)
        self._lock = threading.Lock()
        self.runs: SimpleQueue[Message] = SimpleQueue()
        self._answers: SimpleQueue[Message] = SimpleQueue()
        self._asking = threading.Lock()
        self.published: list[Draft] = []
        self._stop = TaskStop()
        threading.Thread(target=self._listen, name="duebook-node", daemon=True).start()

    def next_run(self) -> tuple[Message, TaskStop]:
        message = self.runs.get()
        self.published = []
        return message, message["stop"]

    def _listen(self) -> None:
        """Requests after a run concern that run; without a node there is nothing left to do."""
        with self._socket.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if "environ" in message:
                    _replace_environment(message["environ"])
                elif "secret" in message or "no_secret" in message:
                    self._answers.put(message)
                elif "stop" in message:
                    self._stop.set(message["stop"])
                else:
                    self._stop = TaskStop()
                    self.runs.put(message | {"stop": self._stop})
        os._exit(0)

    def send(self, message: Message) -> None:
        with self._lock:
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    # -- what a task reports
    def line(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        self.send({"line": [stream, text]})

    def progress(self, progress: Progress) -> None:
        self.send({"progress": [progress.fraction, progress.text]})

    def secret(self, name: str) -> str:
        """Ask the node for it, which hides the value in everything that comes back."""
        with self._asking:
            self.send({"secret": name})
            answer = self._answers.get()
        if "secret" not in answer:
            raise SecretFailed(answer["no_secret"])
        return str(answer["secret"])

    def shown(self, text: str) -> str:
        """Unchanged, as the node hides secrets."""
        return text

    def settle_in(self, connection: Any, outcome: Outcome) -> None:  # noqa: ARG002
        raise Invalid(
            'settle_in needs the database, which a task with isolation="process" does not have'
        )

    def settled(self) -> NoReturn:
        raise NotImplementedError('a task with isolation="process" cannot settle')

    def close(self) -> None:
        """Nothing to do, as the node has the log."""


def _replace_environment(environ: dict[str, str]) -> None:
    """Set the node's environment; at its start it had less, which others could see."""
    for name in set(os.environ) - set(environ):
        del os.environ[name]
    os.environ.update(environ)


def main(address: str) -> None:
    """Execute what the node sends, until it closes the socket."""
    hide_memory()
    line = Line(address)
    pipes = _pipes()
    while True:
        message, stop = line.next_run()
        outcome = _perform(message, stop, line)
        is_whole = _flush() and _pipes() == pipes and not has_children()
        line.send({"outcome": asdict(outcome), "reusable": is_whole})


def _flush() -> bool:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # the task has closed them
        return False
    return True


def _pipes() -> list[int]:
    """The pipes below Python's stdout and stderr; empty if they were closed."""
    try:
        return [os.fstat(fd).st_ino for fd in (1, 2)]
    except OSError:
        return []


def has_children() -> bool:
    """Whether a process started here is still running, or was not waited for.

    A thread that ends meanwhile passes its children to another one, so the search is repeated;
    where threads keep ending, it assumes that there are some. Not every kernel tells.
    """
    if not _THREADS.joinpath(str(os.getpid()), "children").exists():
        return False
    for _ in range(_LOOKS):
        try:
            return any(_children_of(thread) for thread in _THREADS.iterdir())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return True


def _children_of(thread: Path) -> bytes:
    return thread.joinpath("children").read_bytes()


def _perform(message: Message, stop: TaskStop, line: Line) -> Outcome:
    try:
        function = _find(message)
    except BaseException as error:
        why = raised(error).error or f"exit code {getattr(error, 'code', 1)}"
        told = f'task "{message["task"]}" cannot be imported in its process: {why}'
        return Outcome("failed", "import", told)
    run = decode(Run, message["run"] | {"payload": message["payload"]})
    token = Token(run.id, run.attempt, message["session_id"])
    claim = Claim(run, token, enqueued_spec(message["task"], None), message["user"])
    claim = claim._replace(traceparent=message["traceparent"])
    is_async = iscoroutinefunction(function)
    task = Task(message["task"], function, "process", is_async, FunctionSignature(function))
    if not is_async:
        with entered(claim.traceparent):
            return perform_task(task, claim, stop, line)
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    loop = EventLoop()
    loop.begin([AsyncRun(task, claim, stop, line, lambda _, outcome: outcomes.put(outcome))])
    try:
        return outcomes.get()
    finally:
        loop.close()


_found: dict[tuple[Any, ...], Callable[..., Any]] = {}


def _find(message: Message) -> Callable[..., Any]:
    key = (message["module"], message["file"], message["qualname"])
    if key not in _found:
        sys.path[:] = message["path"]
        if message["file"] is None:
            found: Any = import_module(message["module"])
        else:  # the guard `if __name__ == "__main__"` keeps it from starting a node of its own
            found = _Namespace(runpy.run_path(message["file"], run_name="__duebook_main__"))
        for name in message["qualname"].split("."):
            found = getattr(found, name)
        _found[key] = found
    return _found[key]


class _Namespace:
    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__ = names


if __name__ == "__main__":
    main(sys.argv[1])

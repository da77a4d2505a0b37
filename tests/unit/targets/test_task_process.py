"""A process for tasks that misbehaves before its run has begun."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duebook.model.codec import decode, encode
from duebook.model.enqueued import enqueued_spec
from duebook.model.run import Claim, Outcome, Token
from duebook.targets import task_process
from duebook.targets.command_setup import CommandSetup
from duebook.targets.processes import Stop
from duebook.targets.task import Tasks
from duebook.targets.task_process import TaskProcesses
from tests.support.targets import RUN, Told

if TYPE_CHECKING:
    import pytest


class DeafProcess:
    """It asks for work, and never reads what it gets."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        pipes = [os.pipe() for _ in range(3)]
        self.stdout, self.stderr, self.status = (reader for reader, _ in pipes)
        self._fds = [fd for pipe in pipes for fd in pipe]
        for fd in self._fds:
            os.set_blocking(fd, False)
        self.kills = 0

    def kill(self) -> None:
        self.kills += 1

    def close(self) -> None:
        self._socket.close()
        for fd in self._fds:
            with suppress(OSError):
                os.close(fd)


class DeafSpawner:
    setup = CommandSetup({})

    def spawn(self, argv: list[str], env: dict[str, str], as_node: bool) -> DeafProcess:  # noqa: ARG002
        assert as_node
        self.spawned = DeafProcess(argv[-1])
        return self.spawned


def _digest(text: str) -> None: ...


def test_a_process_that_does_not_take_its_run_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_process, "MARGIN", 0.05)
    monkeypatch.setattr(task_process, "GRACE", 0.05)
    spawner: Any = DeafSpawner()
    task = Tasks().add(_digest, "digest")
    run = RUN._replace(payload={"text": "x" * 5_000_000})
    spec = replace(enqueued_spec("digest", None), timeout=timedelta(seconds=0.1))
    stop = Stop()
    with TaskProcesses(spawner) as processes:
        outcome = processes.perform(
            task, Claim(run, Token("r", 2, "n"), spec, "anna"), stop, lambda *_: None, Told()
        )
    stop.close()
    assert outcome == Outcome("failed", "not_started", "its process did not accept the run")
    assert spawner.spawned.kills == 1


def test_a_run_arrives_in_its_process_as_it_is_shown() -> None:
    assert decode(type(RUN), encode(RUN)) == RUN

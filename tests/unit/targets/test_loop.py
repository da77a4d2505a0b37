"""The event loop of async tasks: every run is told to have ended, whatever becomes of its log."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from duebook.model.enqueued import enqueued_spec
from duebook.model.run import Claim, Outcome, Token
from duebook.targets.context import TaskStop
from duebook.targets.loop import AsyncRun, EventLoop
from duebook.targets.task import Tasks
from tests.support.targets import RUN, Told
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Logged(Told):
    """Reports with a log to close, which may fail."""

    opened = True

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self._error = error

    def close(self) -> None:
        if self._error is not None:
            raise self._error


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()


def begin(loop: EventLoop, function: Callable[[], Any], reports: Logged) -> list[Outcome]:
    """Begins a run; its outcome will be in the list."""
    ended: list[Outcome] = []
    claim = Claim(RUN, Token("r", 2, "n"), enqueued_spec("digest", None), "anna")
    task = Tasks().add(function, "digest")
    loop.begin([AsyncRun(task, claim, TaskStop(), reports, lambda _, how: ended.append(how))])
    return ended


def test_a_log_that_cannot_be_closed_does_not_keep_its_run(
    loop: EventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None: ...

    ended = begin(loop, work, Logged(ValueError("the database refuses this")))
    eventually(lambda: ended == [Outcome("succeeded")])
    assert "run r: its log could not be closed" in caplog.text


def test_threads_that_tasks_keep_busy_do_not_keep_a_log_open(loop: EventLoop) -> None:
    goes_on, begun = threading.Event(), threading.Semaphore(0)
    threads = min(32, (os.cpu_count() or 1) + 4)

    def block() -> None:
        begun.release()
        goes_on.wait(2 * PATIENCE)

    async def hog() -> None:
        await asyncio.gather(*(asyncio.to_thread(block) for _ in range(threads + 1)))

    async def work() -> None: ...

    try:
        hogged = begin(loop, hog, Logged())
        for _ in range(threads):
            assert begun.acquire(timeout=PATIENCE)
        ended = begin(loop, work, Logged())
        eventually(lambda: ended == [Outcome("succeeded")])
    finally:
        goes_on.set()
    eventually(lambda: hogged)

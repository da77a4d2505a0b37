"""The event loop of async tasks: every run is told to have ended, whatever becomes of its log."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from duebook.model.enqueued import enqueued_spec
from duebook.model.run import Claim, Outcome, Token
from duebook.targets.context import TaskStop
from duebook.targets.loop import AsyncRun, EventLoop, ShortTurns
from duebook.targets.task import Tasks
from tests.support.targets import RUN, Told
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


VARIABLE: ContextVar[int] = ContextVar("VARIABLE", default=0)


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


class Quiet(Logged):
    """Reports of a run that prints nothing."""

    opened = False


def begin_many(
    loop: EventLoop, function: Callable[[], Any], number: int, stop: TaskStop | None = None
) -> list[Outcome]:
    """Begins as many runs together, of which the last may be asked to end."""
    ended: list[Outcome] = []
    claim = Claim(RUN, Token("r", 2, "n"), enqueued_spec("digest", None), "anna")
    task = Tasks().add(function, "digest")
    stops = [TaskStop() for _ in range(number - 1)] + [stop or TaskStop()]
    loop.begin(
        [AsyncRun(task, claim, stop, Quiet(), lambda _, how: ended.append(how)) for stop in stops]
    )
    return ended


def test_each_run_is_a_task_with_a_context_of_its_own(loop: EventLoop) -> None:
    """Also those that never wait, which are performed one after the other."""
    seen: list[tuple[asyncio.Task[Any] | None, int]] = []

    async def work() -> None:
        seen.append((asyncio.current_task(), VARIABLE.get()))
        VARIABLE.set(len(seen))

    ended = begin_many(loop, work, 5)
    eventually(lambda: len(ended) == 5)
    assert [value for _, value in seen] == [0] * 5
    assert len({id(task) for task, _ in seen if task is not None}) == 5


def test_a_run_that_waits_goes_on_as_the_same_task(loop: EventLoop) -> None:
    same: list[bool] = []

    async def work() -> None:
        task = asyncio.current_task()
        VARIABLE.set(7)
        async with asyncio.timeout(PATIENCE):
            await asyncio.sleep(0)
        same.append(asyncio.current_task() is task and VARIABLE.get() == 7)

    ended = begin_many(loop, work, 3)
    eventually(lambda: ended == [Outcome("succeeded")] * 3)
    assert same == [True] * 3


def test_what_a_run_leaves_to_the_loop_is_done_after_it_has_ended(loop: EventLoop) -> None:
    order: list[str] = []

    async def work() -> None:
        asyncio.get_running_loop().call_soon(order.append, "later")
        order.append("run")

    ended = begin_many(loop, work, 2)
    eventually(lambda: len(ended) == 2 and len(order) == 4)
    assert order == ["run", "run", "later", "later"]


def test_a_run_that_was_asked_to_end_before_it_began_is_cancelled_at_its_first_wait(
    loop: EventLoop,
) -> None:
    stop = TaskStop()
    stop.set("cancelled")

    async def work() -> None:
        await asyncio.sleep(PATIENCE)

    ended = begin_many(loop, work, 1, stop)
    eventually(lambda: ended == [Outcome("cancelled", "cancelled")])


def test_turns_are_short_while_anybody_wants_them_to_be_and_as_before_afterwards() -> None:
    turns, former = ShortTurns(0.0005), sys.getswitchinterval()
    with turns:
        with turns:
            assert sys.getswitchinterval() == pytest.approx(0.0005)
        assert sys.getswitchinterval() == pytest.approx(0.0005)
    assert sys.getswitchinterval() == pytest.approx(former)
    with ShortTurns(1):
        assert sys.getswitchinterval() == pytest.approx(former)

"""Executes async tasks: one event loop in its own thread, which receives batches."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from duebook.targets.log_fields import about
from duebook.targets.outcomes import failed, returned, stopped, with_published
from duebook.targets.printing import Printing
from duebook.targets.task import begin_task
from duebook.targets.trace_context import entered

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence
    from contextvars import Context
    from typing import Literal

    from duebook.model.event import Draft
    from duebook.model.run import Claim, Outcome, Progress
    from duebook.targets.context import TaskStop
    from duebook.targets.task import Task

    Loop = asyncio.AbstractEventLoop
    Stream = Literal["stdout", "stderr"]
    Work = Coroutine[Any, Any, None]

__all__ = ["AsyncRun", "ClosingReports", "EventLoop", "ShortTurns"]

log = logging.getLogger(__name__)

T = TypeVar("T")

MANY: Final = 10
"""Runs that take longer to start than a thread's turn lasts."""


class ClosingReports(Protocol):
    """Reports with a log that must be closed once opened, which may wait for the database."""

    @property
    def opened(self) -> bool: ...

    def line(self, stream: Stream, text: str) -> None: ...

    def progress(self, progress: Progress) -> None: ...

    def secret(self, name: str) -> str: ...

    def shown(self, text: str) -> str: ...

    @property
    def published(self) -> list[Draft]: ...

    @property
    def settles(self) -> bool: ...

    def settle_in(self, connection: Any, outcome: Outcome) -> None: ...

    def settled(self) -> Outcome: ...

    def close(self) -> None: ...


class AsyncRun:
    """One run in the loop, with the callback for its end."""

    __slots__ = ("claim", "ended", "over", "reports", "stop", "task")

    def __init__(
        self,
        task: Task,
        claim: Claim,
        stop: TaskStop,
        reports: ClosingReports,
        ended: Callable[[Claim, Outcome], None],
    ) -> None:
        self.task = task
        self.claim = claim
        self.stop = stop
        self.reports = reports
        self.ended = ended
        self.over = False
        """whether the function has ended: then nothing is left to cancel"""

    async def perform(self, closers: ThreadPoolExecutor) -> None:
        """Reports its end even if its log cannot be written: the run matters more."""
        try:
            with Printing(self.reports):
                if self.claim.traceparent is None:
                    value = await begin_task(self.task, self.claim, self.stop, self.reports)
                else:
                    with entered(self.claim.traceparent):
                        value = await begin_task(self.task, self.claim, self.stop, self.reports)
        except BaseException as error:  # including a cancellation
            self.over = True
            outcome = failed(self.stop, error, self.reports)
        else:
            self.over = True
            if (asked := stopped(self.stop, None)) is not None:
                outcome = asked
            elif self.reports.settles:
                outcome = await _apart(closers, self.reports.settled)
            else:
                outcome = with_published(returned(value), self.reports.published)
        try:
            if self.reports.opened:
                await _apart(closers, self.reports.close)
        except Exception:
            told = "run %s: its log could not be closed"
            log.exception(told, self.claim.run.id, extra=about(self.claim))
        finally:
            self.ended(self.claim, outcome)


async def _apart(closers: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Run what waits for the database in a thread."""
    return await asyncio.get_running_loop().run_in_executor(closers, work)


class EventLoop:
    """Started with the first batch. A run needs no thread, and a batch wakes the loop once.

    Logs are closed in separate threads, as those of asyncio.to_thread belong to the tasks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closers = ThreadPoolExecutor(thread_name_prefix="duebook-closer")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._running: set[asyncio.Task[None]] = set()

    def begin(self, runs: Sequence[AsyncRun]) -> None:
        """From any thread; the loop's own thread need not wake it."""
        loop = self._started()
        if threading.current_thread() is self._thread:
            loop.call_soon(self._begin, runs)
        else:
            loop.call_soon_threadsafe(self._begin, runs)

    def close(self, timeout: float = 1.0) -> None:
        """Cancel what it still runs, and end it; a function that blocks the loop is left alone."""
        with self._lock:
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop,), name="duebook-loop", daemon=True
                )
                self._thread.start()
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            for task in self._running:
                task.cancel()
            if self._running:
                loop.run_until_complete(asyncio.wait(self._running, timeout=0.5))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            self._closers.shutdown(wait=False)
            loop.close()

    def _begin(self, runs: Sequence[AsyncRun]) -> None:
        loop, running = asyncio.get_running_loop(), self._running
        works = [run.perform(self._closers) for run in runs]
        with SHORT_TURNS if len(runs) >= MANY else nullcontext():
            for run, task in zip(runs, _eager_tasks(works, loop), strict=True):
                if not task.done():
                    running.add(task)
                    task.add_done_callback(running.discard)
                    run.stop.when_set(_Cancel(loop, task, run))


class ShortTurns:
    """While this is entered, a thread that waits for the interpreter gets it sooner.

    The event loop starts a thousand runs without a pause. Meanwhile the threads that claim and
    settle receive answers of the database, and would wait 5 ms for their turn with each.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._inside = 0
        self._former = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._former = sys.getswitchinterval()
                sys.setswitchinterval(min(self._seconds, self._former))
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setswitchinterval(self._former)


SHORT_TURNS: Final = ShortTurns(0.001)


class _Cancel:
    """Called from any thread when a run was asked to stop; cancels its function."""

    __slots__ = ("_loop", "_run", "_task")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[None], run: AsyncRun
    ) -> None:
        self._loop = loop
        self._task = task
        self._run = run

    def __call__(self) -> None:
        with suppress(RuntimeError):  # the loop has ended, and the run with it
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if not self._run.over:
            self._run.stop.seen = True
            self._task.cancel()


if sys.version_info >= (3, 12):

    def _eager_tasks(works: Sequence[Work], loop: Loop) -> Iterator[asyncio.Task[None]]:
        """Each task runs to its first wait at once: one that never waits is never scheduled."""
        for work in works:
            yield asyncio.Task(work, loop=loop, eager_start=True)

else:

    def _eager_tasks(works: Sequence[Work], loop: Loop) -> Iterator[asyncio.Task[None]]:
        """As above: intercepts the first step that each new task schedules, and runs it here."""
        steps: list[tuple[Callable[[], object], Context]] = []

        def call_soon(step: Callable[[], object], *, context: Context) -> None:
            steps.append((step, context))

        own = vars(loop)
        own["call_soon"] = call_soon
        try:
            tasks = [asyncio.Task(work, loop=loop) for work in works]
        finally:
            del own["call_soon"]
        for task, (step, context) in zip(tasks, steps, strict=True):
            context.run(step)
            yield task

"""The client for async programs: every use case as a coroutine, over a local or a remote client.

Waiting for a run does not occupy a thread.
"""

from __future__ import annotations

import asyncio
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from duebook.aio.parts import (
    AsyncAlerts,
    AsyncAudit,
    AsyncCalendars,
    AsyncCatchup,
    AsyncDoctor,
    AsyncEvents,
    AsyncFeeds,
    AsyncFlows,
    AsyncNamespaces,
    AsyncNodes,
    AsyncQueues,
    AsyncSchedules,
    AsyncShadow,
    AsyncTemplates,
    AsyncTokens,
    AsyncWindows,
    AsyncZones,
    ThreadedRuns,
)
from duebook.aio.threads import AsyncPart, Threads, threaded
from duebook.book.waiting import not_in_time, read_timeout
from duebook.client import Client
from duebook.errors import WaitTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Self

    from duebook.book.waiting import Timeout
    from duebook.model.run import Run

    Ended = list[Run]
    Wait = Callable[[str, float | None], Awaitable[Run]]

__all__ = ["AsyncBook", "AsyncRuns"]


class AsyncRuns(ThreadedRuns):
    """As `book.runs`, awaited."""

    def __init__(self, part: Any, threads: Threads, wait: Wait) -> None:
        super().__init__(part, threads)
        self._wait = wait

    async def wait(self, run: str | Run, timeout: Timeout = None) -> Run:
        """Wait until a run has ended, in any status, and return it; raises WaitTimeout."""
        seconds = read_timeout(timeout)
        return await self._wait(run if isinstance(run, str) else run.id, seconds)

    async def wait_all(self, runs: Sequence[str | Run], timeout: Timeout = None) -> Ended:
        """As `wait`, until all of several runs have ended; returns them in the given order."""
        seconds, began_at = read_timeout(timeout), time.monotonic()
        ended = []
        for run in runs:
            left = None if seconds is None else max(began_at + seconds - time.monotonic(), 0.0)
            try:
                ended.append(await self.wait(run, left))
            except WaitTimeout:
                run_id = run if isinstance(run, str) else run.id
                raise not_in_time(run_id, seconds or 0.0) from None
        return ended


class AsyncBook(AsyncPart):
    """A client whose methods are coroutines; safe to use from several event loops.

    `when_ended` returns a future of the run with this id, in this process; `wait` waits for it
    on a server.
    """

    def __init__(
        self,
        client: Client,
        when_ended: Callable[[str], Future[Run]] | None = None,
        wait: Wait | None = None,
    ) -> None:
        super().__init__(client, Threads())
        self._when_ended = when_ended
        self._wait_there = wait

    enqueue = threaded(Client.enqueue)
    readiness = threaded(Client.readiness)
    problems = threaded(Client.problems)
    simulate = threaded(Client.simulate)
    spread = threaded(Client.spread)

    async def wait(self, run: str | Run, timeout: Timeout = None) -> Run:
        """Wait until a run has ended, in any status, and return it.

        `timeout` is a number of seconds or a duration such as `30s`; the default waits forever.
        Raises WaitTimeout if the run has not ended by then (it continues), and NotFound.

        >>> import asyncio, tempfile
        >>> from duebook import Duebook
        >>> book = Duebook(f"{tempfile.mkdtemp()}/books.db")
        >>> @book.task
        ... def double(number: int) -> int:
        ...     return 2 * number
        >>> async def main() -> int:
        ...     run = await book.aio.enqueue("double", {"number": 21})
        ...     return (await book.aio.wait(run, "1m")).output
        >>> with book.running():
        ...     asyncio.run(main())
        42
        """
        return await self.runs.wait(run, timeout)

    async def _ended(self, run_id: str, seconds: float | None) -> Run:
        if self._wait_there is not None:
            return await self._wait_there(run_id, seconds)
        assert self._when_ended is not None  # noqa: S101 - one of them was given
        run = await self.runs.get(run_id)
        if not run.is_active:
            return run
        ended = asyncio.wrap_future(self._when_ended(run.id))
        try:
            return await asyncio.wait_for(ended, seconds)
        except TimeoutError:
            raise not_in_time(run.id, seconds or 0.0) from None

    @cached_property
    def runs(self) -> AsyncRuns:
        return AsyncRuns(self._part.runs, self._threads, self._ended)

    @cached_property
    def schedules(self) -> AsyncSchedules:
        return AsyncSchedules(self._part.schedules, self._threads)

    @cached_property
    def catchup(self) -> AsyncCatchup:
        return AsyncCatchup(self._part.catchup, self._threads)

    @cached_property
    def flows(self) -> AsyncFlows:
        return AsyncFlows(self._part.flows, self._threads)

    @cached_property
    def alerts(self) -> AsyncAlerts:
        return AsyncAlerts(self._part.alerts, self._threads)

    @cached_property
    def shadow(self) -> AsyncShadow:
        return AsyncShadow(self._part.shadow, self._threads)

    @cached_property
    def nodes(self) -> AsyncNodes:
        return AsyncNodes(self._part.nodes, self._threads)

    @cached_property
    def events(self) -> AsyncEvents:
        return AsyncEvents(self._part.events, self._threads)

    @cached_property
    def queues(self) -> AsyncQueues:
        return AsyncQueues(self._part.queues, self._threads)

    @cached_property
    def templates(self) -> AsyncTemplates:
        return AsyncTemplates(self._part.templates, self._threads)

    @cached_property
    def calendars(self) -> AsyncCalendars:
        return AsyncCalendars(self._part.calendars, self._threads)

    @cached_property
    def windows(self) -> AsyncWindows:
        return AsyncWindows(self._part.windows, self._threads)

    @cached_property
    def feeds(self) -> AsyncFeeds:
        return AsyncFeeds(self._part.feeds, self._threads)

    @cached_property
    def audit(self) -> AsyncAudit:
        return AsyncAudit(self._part.audit, self._threads)

    @cached_property
    def namespaces(self) -> AsyncNamespaces:
        return AsyncNamespaces(self._part.namespaces, self._threads)

    @cached_property
    def tokens(self) -> AsyncTokens:
        return AsyncTokens(self._part.tokens, self._threads)

    @cached_property
    def doctor(self) -> AsyncDoctor:
        return AsyncDoctor(self._part.doctor, self._threads)

    @cached_property
    def zones(self) -> AsyncZones:
        return AsyncZones(self._part.zones, self._threads)

    def stop(self) -> None:
        """End the threads once their current calls finish. The client itself stays open."""
        self._threads.close()

    async def close(self) -> None:
        """Close the client, and end the threads."""
        await self._threads.run(self._part.close)
        self.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

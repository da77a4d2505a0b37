"""Waits for a run on a server: each request waits there for a while, and is sent again. A value
without a connection decides the next step, for threads and event loops alike."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from duebook.book.waiting import not_in_time, read_timeout
from duebook.errors import Unavailable
from duebook.model.codec import decode
from duebook.model.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.book.waiting import Timeout
    from duebook.remote.server import Server

__all__ = ["Patience", "wait_for_run", "wait_for_run_async"]

HOLD: Final = 20.0
"""Seconds that the server is asked to wait; proxies abort requests that take much longer."""
REST: Final = 1.0
"""Seconds between two requests when the server has no slot for a waiting request."""
LONGEST_REST: Final = 5.0
PATIENCE: Final = 30.0
"""Seconds for which a server may be unavailable before the caller gets an error."""


class Patience:
    """How long one caller waits, and what it does next."""

    def __init__(
        self, run_id: str, timeout: Timeout, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run_id = run_id
        self._seconds = read_timeout(timeout)
        self._clock = clock
        self._began_at = clock()
        self._heard_at: float | None = None
        self._rest = REST

    @property
    def _left(self) -> float:
        if self._seconds is None:
            return float("inf")
        return max(self._began_at + self._seconds - self._clock(), 0.0)

    @property
    def hold(self) -> str:
        """How long the next request should wait on the server."""
        return f"{min(self._left, HOLD):.3f}"

    def heard(self, form: dict[str, Any]) -> Run | None:
        """The run if it has ended; None: send another request. Raises WaitTimeout."""
        self._heard_at, self._rest = self._clock(), REST
        run = decode(Run, form)
        if not run.is_active:
            return run
        if not self._left:
            raise not_in_time(run.id, self._seconds or 0.0)
        return None

    def failed(self, error: Unavailable) -> float:
        """Seconds to pause before the next request. Raises the error if the server never responded,
        or has not for a long time, and WaitTimeout."""
        out_of_reach = error.code != "busy"
        if out_of_reach and (self._heard_at is None or self._clock() - self._heard_at > PATIENCE):
            raise error
        if not self._left:
            raise not_in_time(self._run_id, self._seconds or 0.0)
        rest, self._rest = self._rest, min(self._rest * 2, LONGEST_REST)
        return min(rest, self._left)


def wait_for_run(server: Server, run_id: str, timeout: Timeout) -> Run:
    patience = Patience(run_id, timeout)
    while True:
        try:
            run = patience.heard(server.get("runs", run_id, "wait", timeout=patience.hold))
        except Unavailable as error:
            time.sleep(patience.failed(error))
        else:
            if run is not None:
                return run


async def wait_for_run_async(server: Server, run_id: str, timeout: Timeout) -> Run:
    """As `wait_for_run`, without a thread."""
    patience = Patience(run_id, timeout)
    async with server.connect_async() as client:
        while True:
            try:
                form = await server.get_async(client, "runs", run_id, "wait", timeout=patience.hold)
                run = patience.heard(form)
            except Unavailable as error:
                await asyncio.sleep(patience.failed(error))
            else:
                if run is not None:
                    return run

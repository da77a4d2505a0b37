"""Methods of a client as coroutines: each call runs in a thread of a bounded pool, so that the
event loop never waits for a database or a server. Does not depend on any use case."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["THREADS", "AsyncPart", "Threads", "threaded"]

THREADS: Final = 8
"""Maximum concurrent calls of one client; further calls wait."""
P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    """The thread pool of one client; its threads start with the first call."""

    def __init__(self, most: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="duebook-aio")

    async def run(self, call: Callable[[], R]) -> R:
        """Run a call and return its result. If the caller is cancelled, the call still finishes."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        self._pool.shutdown(wait=False)


class AsyncPart:
    """A part of a client whose methods are coroutines."""

    def __init__(self, part: Any, threads: Threads) -> None:
        self._part = part
        self._threads = threads


class threaded(Generic[P, R]):  # noqa: N801 - it reads like `property`
    """A method of a Protocol as a coroutine with the same arguments."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self.__doc__ = method.__doc__
        self._name = method.__name__

    def __get__(
        self, part: AsyncPart | None, owner: type[AsyncPart] | None = None
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        if part is None:
            return self  # type: ignore[return-value]  # for those who read docs

        async def call(*values: P.args, **named: P.kwargs) -> R:
            method: Callable[P, R] = getattr(part._part, self._name)  # noqa: SLF001
            return await part._threads.run(  # noqa: SLF001
                partial(method, *values, **named)
            )

        return call

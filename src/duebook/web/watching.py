"""Sees that something changed, once for all who look: one cheap question a second to the books."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.concurrency import run_in_threadpool

from duebook.api.gate import LIVE
from duebook.book.insights import Insights
from duebook.errors import DuebookError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable, Mapping

    from duebook.store.base import Store

    T = TypeVar("T")

__all__ = ["Watches"]

LOOK_EVERY: Final = 1.0
"""Seconds."""
TURN: Final = 0.3
"""Seconds after which a stream may look at its session again; the books are asked less often."""
KEPT: Final = 200
"""Pages whose contents are kept for others that look at the same change."""


class Watch:
    """The changes of one namespace, numbered; looked for as long as anybody waits for them."""

    def __init__(self, insights: Insights, clock: Callable[[], float] = time.monotonic) -> None:
        self._insights = insights
        self._clock = clock
        self._looked_at = float("-inf")
        self._signal: object = None
        self._looking = asyncio.Lock()
        self.number = 0

    async def look(self) -> int:
        """The number of the latest change; asks the books at most once a second, for everybody."""
        async with self._looking:
            if self._clock() - self._looked_at >= LOOK_EVERY:
                signal = await run_in_threadpool(self._insights.signal)
                self._looked_at = self._clock()
                if signal != self._signal:
                    self._signal, self.number = signal, self.number + 1
        return self.number


class Watches:
    """The watches of a server, and what pages showed at the latest change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watches: dict[str, Watch] = {}
        self._kept: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._busy: dict[Hashable, threading.Lock] = {}

    def of(self, namespace: str) -> Watch:
        return self._watches.setdefault(namespace, Watch(Insights(self._store, namespace)))

    def number(self, namespace: str) -> int:
        """Of the latest change that somebody saw; asks nobody."""
        watch = self._watches.get(namespace)
        return 0 if watch is None else watch.number

    async def changes(self, namespace: str) -> AsyncIterator[int]:
        """Each change from now on, and 0 now and then so that the caller may look at itself."""
        watch = self.of(namespace)
        seen = 0
        while True:
            try:
                number = await watch.look()
            except DuebookError:
                number = seen  # the books do not answer: pages stay as they are
            yield number if number != seen else 0
            seen = number
            await asyncio.sleep(TURN)

    def shared(
        self, namespace: str, key: Hashable, headers: Mapping[str, str], load: Callable[[], T]
    ) -> T:
        """What `load` gives; of those that look again after a change, the first asks the books.

        A change that this server has not seen is shared with nobody: its number is made up, or of
        another server. What is kept counts for the latest change that was seen before it was
        loaded, never for the number that somebody sent.
        """
        change = _read_number(headers.get(LIVE, ""))
        if change is None or change > self.number(namespace):
            return load()
        key = (namespace, key)
        with self._lock:
            turn = self._busy.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                found = self._kept.get(key)
            if found is not None and found[0] >= change:
                return found[1]  # type: ignore[no-any-return]
            latest = self.number(namespace)
            try:
                value = load()
            except BaseException:
                with self._lock:
                    self._busy.pop(key, None)
                raise
            with self._lock:
                self._kept[key] = (latest, value)
                self._kept.move_to_end(key)
                while len(self._kept) > KEPT:
                    forgotten, _ = self._kept.popitem(last=False)
                    self._busy.pop(forgotten, None)
            return value


def _read_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None

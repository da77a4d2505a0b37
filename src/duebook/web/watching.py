"""Watches for changes on behalf of all live pages, with one cheap query a second."""

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
"""Seconds after which a stream may check its session again; the database is queried less often."""
KEPT: Final = 200
"""Pages whose contents are cached for other viewers of the same change."""


class Watch:
    """Numbers the changes of one namespace; queries only while a page waits for them."""

    def __init__(self, insights: Insights, clock: Callable[[], float] = time.monotonic) -> None:
        self._insights = insights
        self._clock = clock
        self._looked_at = float("-inf")
        self._signal: object = None
        self._looking = asyncio.Lock()
        self.number = 0

    async def look(self) -> int:
        """The number of the latest change; queries the database at most once a second in total."""
        async with self._looking:
            if self._clock() - self._looked_at >= LOOK_EVERY:
                signal = await run_in_threadpool(self._insights.signal)
                self._looked_at = self._clock()
                if signal != self._signal:
                    self._signal, self.number = signal, self.number + 1
        return self.number


class Watches:
    """The watches of a server, and the cached contents of pages."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watches: dict[str, Watch] = {}
        self._kept: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._busy: dict[Hashable, threading.Lock] = {}

    def of(self, namespace: str) -> Watch:
        return self._watches.setdefault(namespace, Watch(Insights(self._store, namespace)))

    def number(self, namespace: str) -> int:
        """The number of the latest change seen so far, without a query."""
        watch = self._watches.get(namespace)
        return 0 if watch is None else watch.number

    async def changes(self, namespace: str) -> AsyncIterator[int]:
        """The number of each change from now on, and 0 in between so that callers get a turn."""
        watch = self.of(namespace)
        seen = 0
        while True:
            try:
                number = await watch.look()
            except DuebookError:
                number = seen  # the database is unavailable; pages stay as they are
            yield number if number != seen else 0
            seen = number
            await asyncio.sleep(TURN)

    def shared(
        self, namespace: str, key: Hashable, headers: Mapping[str, str], load: Callable[[], T]
    ) -> T:
        """The result of `load`, which only the first page to reload after a change calls.

        A change that this server has not seen is not shared: its number is invented, or from
        another server. A cached result belongs to the latest change seen before it was loaded,
        never to the number that a client sent.
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

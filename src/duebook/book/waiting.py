"""Waits for runs to end. One thread polls the store for all waiters and is woken by its hints;
because it also polls without a hint, a lost hint costs only time."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, ref

from duebook.errors import Invalid, NotFound, Unavailable, WaitTimeout, quoted
from duebook.timetext import format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.run import Run
    from duebook.store.base import Store, Tx

__all__ = [
    "RunWatch",
    "Timeout",
    "not_in_time",
    "read_timeout",
    "stop_watching",
    "wait_in_turn",
    "watch_of",
]

Timeout = str | timedelta | float | None
"""Seconds, or a duration such as `30s`; None: no limit."""
SOON: Final = 0.02
"""Seconds until the first poll for a new waiter; the store may not give hints yet."""
SELDOM: Final = 5.0
"""Seconds between two polls while there are no hints."""
GROWTH: Final = 1.5
SLICE: Final = 0.05
"""Seconds after which the thread notices a new waiter."""
BUSY: Final = 0.01
"""Minimum seconds between two polls, however many runs end."""
PATIENCE: Final = 30.0
"""Seconds for which the database may be unavailable before waiters get an error."""
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?", re.ASCII)
LONGEST: Final = timedelta(days=3650).total_seconds()


def read_timeout(value: Timeout) -> float | None:
    """A number of seconds; raises Invalid."""
    if value is None:
        return None
    if isinstance(value, str):
        value = float(value) if _SECONDS.fullmatch(value) else _parse(value)
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST:
        told = f"timeout {quoted(value)} is not a number of seconds or a duration"
        raise Invalid(f"{told} such as 30s")
    return float(value)


def _parse(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except Invalid as error:
        raise type(error)(f"timeout: {error}") from None


def wait_in_turn(
    wait: Callable[[str, float | None], Run], run_ids: Sequence[str], timeout: Timeout
) -> list[Run]:
    """The runs in the given order, once all have ended; raises WaitTimeout."""
    seconds, began_at = read_timeout(timeout), time.monotonic()
    ended = []
    for run_id in run_ids:
        left = None if seconds is None else max(began_at + seconds - time.monotonic(), 0.0)
        try:
            ended.append(wait(run_id, left))
        except WaitTimeout:
            raise not_in_time(run_id, seconds or 0.0) from None
    return ended


def not_in_time(run_id: str, seconds: float) -> WaitTimeout:
    whole = timedelta(seconds=round(seconds))
    told = format_duration(whole) if whole and whole.total_seconds() == seconds else f"{seconds:g}s"
    return WaitTimeout(f"run {run_id} has not ended within {told}; it continues")


_WATCHES: WeakKeyDictionary[Store, RunWatch] = WeakKeyDictionary()
_MAKING: Final = threading.Lock()


def watch_of(store: Store) -> RunWatch:
    """The watch of a store, created if necessary."""
    with _MAKING:
        found = _WATCHES.get(store)
        if found is None:
            found = _WATCHES[store] = RunWatch(store)
        return found


def stop_watching(store: Store) -> None:
    """Fail the waiters of a store that is about to be closed."""
    with _MAKING:
        found = _WATCHES.pop(store, None)
    if found is not None:
        found.fail(Unavailable("the database was closed while a run was awaited"))


class RunWatch:
    """The runs of a store that this process waits for. Its thread lives while there are waiters."""

    def __init__(self, store: Store) -> None:
        self._look = _Look(store)
        self._lock = threading.Lock()
        self._waiting: dict[str, list[Future[Run]]] = {}
        self._thread: threading.Thread | None = None
        self._joined = False
        """whether a waiter was added since the last poll"""

    def when_ended(self, run_id: str) -> Future[Run]:
        """Return a future of the ended run. It fails with NotFound if the run is deleted, and with
        Unavailable if the database is unavailable for long. Cancel it to stop waiting."""
        future: Future[Run] = Future()
        with self._lock:
            self._waiting.setdefault(run_id, []).append(future)
            self._joined = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._loop, name="duebook-run-watch", daemon=True
                )
                self._thread.start()
        return future

    def _loop(self) -> None:
        pause, answered_at, seen = SOON, time.monotonic(), 0
        while ids := self._awaited():
            try:
                self._deliver(self._look(ids))
                answered_at = time.monotonic()
                pause, seen = self._rest(pause, seen)
            except Unavailable as error:
                if time.monotonic() - answered_at > PATIENCE:
                    self.fail(error)
                time.sleep(SLICE)
            except Exception as error:  # otherwise all waiters would hang
                self.fail(error)

    def _awaited(self) -> list[str]:
        """The runs with waiters; if there are none, the thread ends."""
        with self._lock:
            for run_id, futures in list(self._waiting.items()):
                left = [future for future in futures if not future.cancelled()]
                if left:
                    self._waiting[run_id] = left
                else:
                    del self._waiting[run_id]
            if not self._waiting:
                self._thread = None
            self._joined = False
            return list(self._waiting)

    def _rest(self, pause: float, seen: int) -> tuple[float, int]:
        """Pause until there is a reason to poll; returns how long to pause next time, and the last
        hint seen."""
        time.sleep(BUSY)
        until = time.monotonic() + pause
        while (left := until - time.monotonic()) > 0:
            told = self._look.wait_for_hint(seen, min(left, SLICE))
            if self._joined:
                return SOON, told
            if told != seen:
                return pause, told
        return min(pause * GROWTH, SELDOM), seen

    def _deliver(self, found: dict[str, Run | None]) -> None:
        for run_id, run in found.items():
            with self._lock:
                futures = self._waiting.pop(run_id, [])
            for future in futures:
                if not future.set_running_or_notify_cancel():
                    continue
                if run is None:
                    future.set_exception(NotFound(f'run "{run_id}" does not exist any more'))
                else:
                    future.set_result(run)

    def fail(self, error: Exception) -> None:
        """Pass the error to all waiters and remove them."""
        with self._lock:
            futures = [future for some in self._waiting.values() for future in some]
            self._waiting.clear()
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)


class _Look:
    """Queries the store for a watch, without keeping the store alive."""

    def __init__(self, store: Store) -> None:
        self._store = ref(store)

    def _opened(self) -> Store:
        store = self._store()
        if store is None:
            raise Unavailable("the database is closed")
        return store

    def __call__(self, ids: Sequence[str]) -> dict[str, Run | None]:
        """The runs that have ended; None for a run that does not exist."""

        def work(tx: Tx) -> dict[str, Run | None]:
            active = tx.runs.list_active_of(ids)
            others = [run_id for run_id in ids if run_id not in active]
            found = {run.id: run for run in tx.runs.get_runs(others)}
            ended: dict[str, Run | None] = {}
            for run_id in others:
                run = found.get(run_id)
                if run is None or not run.is_active:  # it may have been retried just now
                    ended[run_id] = run
            return ended

        return self._opened().read(work)

    def wait_for_hint(self, seen: int, timeout: float) -> int:
        return self._opened().wait_for_ends(seen, timeout)

"""Tells other processes that there is something to do, and hears it from them.

Hints only: whoever misses one looks by itself a little later. So they are sent after the commit,
by a thread, and seldom: NOTIFY inside a transaction makes all commits of the server wait in line.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from duebook.errors import Unavailable
from duebook.store.postgres.connection import connect, place_of, translated

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Herald", "Listener"]

log = logging.getLogger(__name__)

CHANNEL: Final = "duebook"
SELDOM: Final = 0.005
"""Seconds between two hints of a process."""
FIRST_LISTEN: Final = 5.0
LOOK_UP: Final = 1.0
LONGEST_WAIT: Final = 5.0


class Herald:
    """Sends hints; those that come while one is being sent share the next."""

    def __init__(self, send: Callable[[bytes], None], sender: str) -> None:
        self._send = send
        self._hint = f"NOTIFY {CHANNEL}, '{sender}'".encode()
        self._state = threading.Condition()
        self._pending = False
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def ring(self) -> None:
        with self._state:
            self._pending = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._loop, name="duebook-herald", daemon=True
                )
                self._thread.start()
            self._state.notify()

    def close(self) -> None:
        """What is pending is sent first."""
        self._closing.set()
        with self._state:
            self._state.notify()
        if self._thread is not None:
            self._thread.join(FIRST_LISTEN)

    def _loop(self) -> None:
        while self._next():
            try:
                self._send(self._hint)
            except Unavailable as error:
                log.debug("a hint is lost: %s", error)
            self._closing.wait(SELDOM)

    def _next(self) -> bool:
        with self._state:
            self._state.wait_for(lambda: self._pending or self._closing.is_set())
            pending, self._pending = self._pending, False
            return pending


class Listener:
    """Counts hints of others, on a connection of its own; one that was lost counts as well."""

    def __init__(self, conninfo: str, ourselves: str) -> None:
        self._conninfo = conninfo
        self._ourselves = ourselves
        self._lock = threading.Lock()
        self._count = 0
        self._listening = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def count(self) -> int:
        """How many there were; begins to listen when it is first asked."""
        if self._thread is None:
            self._begin()
        return self._count

    def _begin(self) -> None:
        with self._lock:
            if self._thread is not None or self._closing.is_set():
                return
            self._thread = threading.Thread(target=self._loop, name="duebook-listener", daemon=True)
            self._thread.start()
        self._listening.wait(FIRST_LISTEN)

    def add(self) -> None:
        with self._lock:
            self._count += 1

    def close(self, wake: Callable[[], None]) -> None:
        """End the thread; `wake` sends it a hint, so that it notices at once."""
        self._closing.set()
        if self._thread is not None:
            wake()
            self._thread.join(FIRST_LISTEN)

    def _loop(self) -> None:
        wait = 0.1
        while not self._closing.is_set():
            try:
                self._listen()
                wait = 0.1
            except Unavailable as error:
                if not self._closing.is_set():
                    log.warning("%s; listening again in %.1f s", error, wait)
            self._closing.wait(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    def _listen(self) -> None:
        connection = connect(self._conninfo)
        try:
            with translated(place_of(self._conninfo)):
                connection.execute(f"LISTEN {CHANNEL}".encode())
                self.add()  # nobody knows what was missed
                self._listening.set()
                while not self._closing.is_set():
                    for hint in connection.notifies(timeout=LOOK_UP, stop_after=1):
                        if hint.payload != self._ourselves:
                            self.add()
        finally:
            connection.close()

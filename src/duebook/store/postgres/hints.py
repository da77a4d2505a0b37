"""Tells other processes that there is something to do, and hears it from them.

Hints only: whoever misses one looks by itself a little later. So they are sent after the commit,
by a thread, and seldom: NOTIFY inside a transaction makes all commits of the server wait in line.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from duebook.errors import Unavailable
from duebook.store.base import News
from duebook.store.postgres.connection import connect, place_of, translated

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Herald", "Listener", "hint"]

log = logging.getLogger(__name__)

CHANNEL: Final = "duebook"
ANY: Final = ~News(0)
SELDOM: Final = 0.005
"""Seconds between two hints of a process."""
FIRST_LISTEN: Final = 5.0
LOOK_UP: Final = 1.0
LONGEST_WAIT: Final = 5.0


def hint(sender: str, news: News) -> bytes:
    """The statement that tells all listeners but the sender itself."""
    return f"NOTIFY {CHANNEL}, '{sender} {news.value}'".encode()


class Herald:
    """Sends hints; those that come while one is being sent share the next."""

    def __init__(self, send: Callable[[bytes], None], sender: str) -> None:
        self._send = send
        self._sender = sender
        self._state = threading.Condition()
        self._pending = News(0)
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def ring(self, news: News) -> None:
        with self._state:
            self._pending |= news
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
        while news := self._next():
            try:
                self._send(hint(self._sender, news))
            except Unavailable as error:
                log.debug("a hint is lost: %s", error)
            self._closing.wait(SELDOM)

    def _next(self) -> News:
        with self._state:
            self._state.wait_for(lambda: self._pending or self._closing.is_set())
            pending, self._pending = self._pending, News(0)
            return pending


class Listener:
    """Gathers hints of others, on a connection of its own; what was lost may have been any."""

    def __init__(self, conninfo: str, ourselves: str) -> None:
        self._conninfo = conninfo
        self._ourselves = ourselves
        self._state = threading.Condition()
        self._news = News(0)
        self._listening = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, timeout: float) -> News:
        """What was told since it was last asked; begins to listen when it is first asked."""
        if self._thread is None:
            self._begin()
        with self._state:
            self._state.wait_for(lambda: self._news, timeout)
            news, self._news = self._news, News(0)
            return news

    def _begin(self) -> None:
        with self._state:
            if self._thread is not None or self._closing.is_set():
                return
            self._thread = threading.Thread(target=self._loop, name="duebook-listener", daemon=True)
            self._thread.start()
        self._listening.wait(FIRST_LISTEN)

    def add(self, news: News) -> None:
        with self._state:
            self._news |= news
            self._state.notify_all()

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
                self.add(ANY)  # nobody knows what was missed
                self._listening.set()
                while not self._closing.is_set():
                    for hint in connection.notifies(timeout=LOOK_UP, stop_after=1):
                        sender, _, news = hint.payload.partition(" ")
                        if sender != self._ourselves:
                            self.add(_news(news))
        finally:
            connection.close()


def _news(text: str) -> News:
    """What a hint says; all that is known, from a newer node."""
    return ANY & News(int(text)) if text.isdecimal() and int(text) <= ANY.value else ANY

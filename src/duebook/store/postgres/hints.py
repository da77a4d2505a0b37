"""Notifies other processes that there is something to do, and receives their notifications.

These are only hints: a process that misses one looks by itself a little later. They are sent after
the commit, by a thread, and rarely, as NOTIFY in a transaction serializes all commits of the
server.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from duebook.backoff import backoff
from duebook.errors import Unavailable
from duebook.randomness import fraction
from duebook.store.postgres.connection import translated
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.postgres.connection import Connection
    from duebook.store.postgres.route import Route

    Ask = Callable[[bytes], list[tuple[Any, ...]]]
    """executes a statement in the database"""

__all__ = ["Herald", "Listener", "hint"]

log = logging.getLogger(__name__)

CHANNEL: Final = "duebook"
ANY: Final = ~News(0)
SELDOM: Final = 0.005
"""Minimum seconds between two hints of a process."""
FIRST_LISTEN: Final = 5.0
LOOK_UP: Final = 1.0
QUIET: Final = 45.0
"""Seconds without a hint after which the listening connection is tested: it may be dead."""
FAILURES_TO_TELL: Final = 3
ENDS: Final = News.ENDS | News.AWAITED
"""Notified to processes that wait for runs, not to nodes."""
AWAITED_FOR: Final = 60.0
"""Seconds for which ends of runs are notified after a process announced that it waits."""
DEAF_FOR: Final = 60.0
"""Seconds until the next attempt to listen where hints do not arrive."""
_HERE: Final = b"SELECT current_database(), pg_postmaster_start_time()"


def hint(sender: str, news: News) -> bytes:
    """The statement that notifies all listeners except the sender."""
    return f"NOTIFY {CHANNEL}, '{sender} {news.value}'".encode()


class Herald:
    """Sends hints; those that arrive during a send share the next one."""

    def __init__(self, send: Ask, sender: str) -> None:
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
        """Send pending hints first."""
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
                log.debug("a notification was lost: %s", error)
            self._closing.wait(SELDOM)

    def _next(self) -> News:
        with self._state:
            self._state.wait_for(lambda: self._pending or self._closing.is_set())
            pending, self._pending = self._pending, News(0)
            return pending


class Deaf(Unavailable):
    """Hints do not arrive at the place where it listens."""


class Listener:
    """Collects hints of others, on its own connection; after a loss, any hint may have been missed.

    `ask` executes in the database in which hints are sent. Without a connection it reports
    News.LOOK.
    """

    def __init__(self, route: Route, ourselves: str, ask: Ask) -> None:
        self._route = route
        self._ourselves = ourselves
        self._ask = ask
        self._state = threading.Condition()
        self._news = News(0)
        self._grown = 0
        """how many notifications it received that the log of events may have grown"""
        self._ended = 0
        """how many notifications it received that runs have ended"""
        self._awaiting = 0
        """how many local threads wait for runs to end"""
        self._awaited_until = float("-inf")
        self._told: str | None = None
        self._begun = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self, timeout: float) -> News:
        """The hints since the last call; the first call starts to listen."""
        if self._thread is None:
            self._begin()
        with self._state:
            self._state.wait_for(lambda: self._news, timeout)
            news, self._news = self._news, News(0)
            return news

    def wait_for_log(self, seen: int, timeout: float) -> int:
        if self._thread is None:
            self._begin()
        with self._state:
            self._state.wait_for(lambda: self._grown != seen, timeout)
            return self._grown

    def wait_for_ends(self, seen: int, timeout: float) -> int:
        if self._thread is None:
            self._begin()
        with self._state:
            self._awaiting += 1
            try:
                self._state.wait_for(lambda: self._ended != seen, timeout)
            finally:
                self._awaiting -= 1
            return self._ended

    @property
    def are_ends_awaited(self) -> bool:
        """Whether another process waits for runs to end."""
        return time.monotonic() < self._awaited_until

    def _begin(self) -> None:
        with self._state:
            if self._thread is not None or self._closing.is_set():
                return
            self._thread = threading.Thread(target=self._loop, name="duebook-listener", daemon=True)
            self._thread.start()
        self._begun.wait(FIRST_LISTEN)

    def add(self, news: News) -> None:
        with self._state:
            if news & ~ENDS:
                self._news |= news
            if news & (News.LOG | News.LOOK):
                self._grown += 1
            if news & (News.ENDS | News.LOOK):
                self._ended += 1
            if news & News.AWAITED:
                self._awaited_until = time.monotonic() + AWAITED_FOR
            if self._awaiting or news & ~ENDS:  # most ends interest no thread here
                self._state.notify_all()

    def close(self, wake: Callable[[], None]) -> None:
        """End the thread; `wake` sends it a hint, so that it notices at once."""
        self._closing.set()
        if self._thread is not None:
            wake()
            self._thread.join(FIRST_LISTEN)

    def _loop(self) -> None:
        failures = 0
        while not self._closing.is_set():
            try:
                self._listen()
                failures = 0
            except Unavailable as error:
                failures += 1
                self._begun.set()
                if isinstance(error, Deaf) or failures >= FAILURES_TO_TELL:
                    self._log_once(error)
                if isinstance(error, Deaf):
                    self._look_instead()
                else:
                    self.add(News.LOOK)
                    self._closing.wait(backoff(failures, fraction(self._ourselves, failures)))

    def _log_once(self, error: Unavailable) -> None:
        """Unless the database itself is unavailable, which is reported elsewhere."""
        text = str(error)
        if text == self._told or self._closing.is_set():
            return
        try:
            self._ask(_HERE)
        except Unavailable:
            return
        self._told = text
        log.warning("%s; this node polls until notifications arrive", text)

    def _look_instead(self) -> None:
        """Act for a while as if a hint arrived every second."""
        until = time.monotonic() + DEAF_FOR
        while time.monotonic() < until and not self._closing.wait(LOOK_UP):
            self.add(News.LOOK)

    def _listen(self) -> None:
        with translated(self._route.place):
            connection = self._route.connect()
            try:
                self._check(connection)
                connection.execute(f"LISTEN {CHANNEL}".encode())
                if self._told is not None:
                    log.info("notifications from other nodes arrive again")
                    self._told = None
                self.add(ANY)  # what was missed is unknown
                self._begun.set()
                self._hear(connection)
            finally:
                connection.close()

    def _check(self, connection: Connection) -> None:
        """Whether hints sent in the store's database arrive here; raises Deaf."""
        (backend,) = connection.execute(b"SELECT pg_backend_pid()").fetchall()[0]
        if backend != connection.info.backend_pid:
            raise Deaf(
                f"notifications do not pass through a pooler, such as the {self._route.place}: "
                "set listen_url (DUEBOOK_LISTEN_URL) to the address of the server itself"
            )
        if connection.execute(_HERE).fetchall() != self._ask(_HERE):
            raise Deaf(f"listen_url is the {self._route.place}, not the database in use")

    def _hear(self, connection: Connection) -> None:
        heard_at = time.monotonic()
        while not self._closing.is_set():
            for hint in connection.notifies(timeout=LOOK_UP, stop_after=1):
                heard_at = time.monotonic()
                sender, _, news = hint.payload.partition(" ")
                if sender != self._ourselves:
                    self.add(_news(news))
            if time.monotonic() - heard_at > QUIET:
                connection.execute(b"")  # raises if the connection is dead
                heard_at = time.monotonic()


def _news(text: str) -> News:
    """The meaning of a hint; one from a newer node counts as all."""
    return ANY & News(int(text)) if text.isdecimal() and int(text) <= ANY.value else ANY

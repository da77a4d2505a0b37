"""The link between a web process and its node, JSON lines over a socket: the web sends queries
with a deadline, and the node detects whether the web still responds."""

from __future__ import annotations

import json
import logging
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from duebook.api.timed_cache import TimedCache
from duebook.closing import Closing
from duebook.engine.measures import Measures
from duebook.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["ANSWER_WITHIN", "Heartbeat", "Line", "NodeLink", "answer_asks", "ping"]

log = logging.getLogger(__name__)

ANSWER_WITHIN: Final = 1.0
"""In seconds; a node responds in milliseconds unless it is stopped or has no processor time."""
PING_EVERY: Final = 1.0
"""In seconds."""
SILENT: Final = 10
"""Pings without a response after which a web process counts as hanging."""
SILENT_AT_FIRST: Final = 60
"""The same until its first response, because it has to open the database."""
KEEP: Final = 1.0
"""Seconds for which numbers are reused, so that many scrapes cost the node no more than one."""


class Line(Closing):
    """One end of the socket; messages arrive whole and in order."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._reader = end.makefile("rb")
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Raises OSError if the other end is gone."""
        text = json.dumps(message).encode() + b"\n"
        with self._lock:
            self._socket.sendall(text)

    def receive(self) -> dict[str, Any] | None:
        """The next message; None if the other end is gone."""
        try:
            text = self._reader.readline()
        except OSError:
            return None
        if not text.endswith(b"\n"):
            return None
        message: dict[str, Any] = json.loads(text)
        return message

    def messages(self) -> Iterator[dict[str, Any]]:
        while (message := self.receive()) is not None:
            yield message

    def let_go(self) -> None:
        """Tell the other end that nothing more will be sent."""
        with suppress(OSError):  # it is already gone
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Only while no thread waits for a message."""
        self._reader.close()
        self._socket.close()


class NodeLink:
    """The web's side. Has at most one open query of each kind, so that a node that does not read
    blocks no thread."""

    def __init__(self, line: Line, within: float = ANSWER_WITHIN) -> None:
        self._line = line
        self._within = within
        self._lock = threading.Lock()
        self._waiting: dict[str, Future[Any]] = {}
        self._cached = TimedCache(self._ask_measures, KEEP)
        self._soon: Callable[[Callable[[], None]], None] | None = None

    def answer_pings(self, soon: Callable[[Callable[[], None]], None]) -> None:
        """Respond to pings from now on, in the event loop through `soon`: not if that hangs."""
        self._soon = soon
        soon(self._pong)

    def _pong(self) -> None:
        with suppress(OSError):  # the node is gone
            self._line.send({"pong": True})

    def listen(self) -> None:
        """Receive the node's responses; returns when the node is gone."""
        for message in self._line.messages():
            if "ping" in message:
                if self._soon is not None:
                    self._soon(self._pong)
                continue
            with self._lock:
                waiting = self._waiting.pop(str(message.get("answer")), None)
            if waiting is not None:
                waiting.set_result(message.get("value"))

    def ask(self, word: str) -> Any:
        """The node's response; raises Unavailable if it is not in time."""
        try:
            with self._lock:
                waiting = self._waiting.get(word)
                if waiting is None:
                    waiting = self._waiting[word] = Future()
                    self._line.send({"ask": word})
            return waiting.result(self._within)
        except OSError:  # includes TimeoutError
            raise Unavailable(f"this node did not respond within {self._within:g} s") from None

    def trouble(self) -> str | None:
        """Why the node does not work; None if it does."""
        try:
            told: str | None = self.ask("trouble")
        except Unavailable as error:
            return f"{error}; it is suspended, or has no processor time"
        return told

    def measures(self) -> Measures | None:
        """The node's counters, up to a second old; None if it does not respond."""
        return self._cached.get()

    def _ask_measures(self) -> Measures | None:
        try:
            return Measures.load(self.ask("measures"))
        except Unavailable:
            return None


class Heartbeat:
    """Counts pings without a response. It does not measure time: if node and web were both stopped,
    for example because the machine slept, the web does not hang."""

    def __init__(self, silent: int = SILENT, at_first: int = SILENT_AT_FIRST) -> None:
        self.silent = silent
        self._most = at_first
        self._missed = 0

    def answered(self) -> None:
        self._most = self.silent
        self._missed = 0

    def missed(self) -> bool:
        """Count one more ping, before its response; True if too many got none."""
        self._missed += 1
        return self._missed > self._most


def ping(line: Line, heartbeat: Heartbeat, over: threading.Event) -> bool:
    """The node's side: sends pings until `over` is set or the other end is gone; True if the other
    end exists but hangs."""
    while not over.wait(PING_EVERY):
        if heartbeat.missed():
            return True
        try:
            line.send({"ping": True})
        except OSError:
            return False
    return False


def answer_asks(
    line: Line, answers: Mapping[str, Callable[[], Any]], heartbeat: Heartbeat | None = None
) -> None:
    """The node's side: responds to every query, until the other end is gone."""
    for message in line.messages():
        if heartbeat is not None and "pong" in message:
            heartbeat.answered()
        word = str(message.get("ask"))
        if word in answers:
            try:
                line.send({"answer": word, "value": answers[word]()})
            except OSError:
                return
            except Exception:  # the query times out, and is sent again
                log.exception("the web process requested %s", word)

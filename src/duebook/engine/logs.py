"""Stores what a run prints: whole lines with their times, head and tail up to a cap."""

from __future__ import annotations

import codecs
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from duebook.engine.persist import persist
from duebook.errors import Unavailable
from duebook.model.run import LogLine

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.model.run import Token
    from duebook.store.base import Store, Tx

__all__ = ["RunLog"]

Stream = Literal["stdout", "stderr"]
_STREAMS: Final[tuple[Stream, ...]] = ("stdout", "stderr")

LONGEST_LINE: Final = 16_384
LINE_COST: Final = 100
"""What a line counts besides its text, so that a million empty lines are bounded as well."""
FLUSH_SECONDS: Final = 0.5


class RunLog:
    """The log of one attempt, written in batches.

    A log longer than `cap` characters keeps its first quarter and the newest three quarters of the
    cap. `hide` replaces secrets in a line.
    """

    def __init__(
        self,
        store: Store,
        token: Token,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        cap: int,
        hide: Callable[[str], str] = str,
    ) -> None:
        self._store = store
        self._token = token
        self._clock = clock
        self._monotonic = monotonic
        self._hide = hide
        self._head_room = cap // 4
        self._tail_room = cap - cap // 4
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")("replace") for name in _STREAMS
        }
        self._partial = dict.fromkeys(_STREAMS, "")
        self._pending: list[tuple[int, LogLine]] = []
        self._pending_size = 0
        self._flushed_at = monotonic()
        self._next_seq = 1
        self._head_seq = 0
        self._tail: deque[tuple[int, int]] = deque()  # (seq, size) of droppable lines
        self._tail_size = 0
        self._tail_from = 0
        """lines between the head and this number are dropped"""
        self._trimmed_to = 0
        self._lock = threading.Lock()
        """never held during a write to the database: a log call in an event loop must not wait"""
        self._flushing = threading.Lock()

    def write(self, stream: Stream, data: bytes) -> None:
        """Add what a stream printed; flushes now and then."""
        text = self._partial[stream] + self._decoders[stream].decode(data)
        *lines, rest = text.replace("\r\n", "\n").split("\n")
        if len(rest) > LONGEST_LINE:
            rest = self._hide(rest)
        while len(rest) > LONGEST_LINE:
            lines.append(rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        self._partial[stream] = rest
        self._add_all(stream, lines)
        self.flush_if_overdue()

    def add(self, stream: Stream, text: str) -> None:
        """Add whole lines; another thread flushes them."""
        self._add_all(stream, text.split("\n"))

    def flush_if_overdue(self) -> None:
        """Another thread calls this too, for runs that print a line and then stay silent."""
        if self._pending and self._monotonic() - self._flushed_at > FLUSH_SECONDS:
            self.flush()

    def note(self, text: str) -> None:
        """Add a line of Duebook itself."""
        with self._lock:
            self._number(LogLine(self._clock(), "duebook", self._hide(text)))

    def close(self, give_up: Callable[[], bool] = lambda: True) -> None:
        """Add unfinished lines, and write everything; `give_up` decides how long to retry."""
        for stream in _STREAMS:
            if rest := self._partial[stream] + self._decoders[stream].decode(b"", final=True):
                self._partial[stream] = ""
                self._add_all(stream, [rest])
        with self._flushing:
            if taken := self._take():
                persist(self._store, partial(self._append, taken), give_up)

    def flush(self) -> None:
        """Write pending lines; while the database is unavailable they wait, within the cap."""
        with self._flushing:
            self._flushed_at = self._monotonic()
            if not (taken := self._take()):
                return
            try:
                self._trimmed_to = self._store.transact(partial(self._append, taken))
            except BaseException as error:
                self._put_back(taken)
                if not isinstance(error, Unavailable):
                    raise

    def _append(self, taken: list[tuple[int, LogLine]], tx: Tx) -> int:
        """Write lines, and drop those no longer in the tail; returns where the tail starts."""
        with self._lock:
            head_seq, tail_from = self._head_seq, self._tail_from
        for stretch in (
            [(seq, line) for seq, line in taken if seq <= head_seq],
            [(seq, line) for seq, line in taken if seq > head_seq],
        ):
            if stretch:
                tx.attempts.append_log(self._token, stretch[0][0], [line for _, line in stretch])
        if tail_from > self._trimmed_to:
            tx.attempts.trim_log(self._token, head_seq, tail_from)
        return tail_from

    def _take(self) -> list[tuple[int, LogLine]]:
        with self._lock:
            self._prune()
            taken, self._pending, self._pending_size = self._pending, [], 0
            return taken

    def _put_back(self, taken: list[tuple[int, LogLine]]) -> None:
        with self._lock:
            self._pending[:0] = taken
            self._prune()

    def _prune(self) -> None:
        """Drop pending lines that would not be kept."""
        head, tail = self._head_seq, self._tail_from
        self._pending = [item for item in self._pending if item[0] <= head or item[0] >= tail]
        self._pending_size = sum(_size(line) for _, line in self._pending)

    def _add_all(self, stream: Stream, lines: list[str]) -> None:
        with self._lock:
            now = self._clock()
            for line in lines:
                self._add(stream, self._hide(line), now)

    def _add(self, stream: Stream, text: str, now: datetime) -> None:
        for start in range(0, max(len(text), 1), LONGEST_LINE):
            line = text[start : start + LONGEST_LINE].replace("\0", "\N{REPLACEMENT CHARACTER}")
            self._number(LogLine(now, stream, line))

    def _number(self, line: LogLine) -> None:
        """Count a line in the head or the tail, whose oldest lines make room for it."""
        seq, size = self._next_seq, _size(line)
        self._next_seq += 1
        if not self._tail and self._head_room >= size:
            self._head_room -= size
            self._head_seq = seq
        else:
            self._tail.append((seq, size))
            self._tail_size += size
        while self._tail_size > self._tail_room and len(self._tail) > 1:
            self._tail_size -= self._tail.popleft()[1]
            self._tail_from = self._tail[0][0]
        self._pending.append((seq, line))
        self._pending_size += size
        if self._pending_size > 2 * self._tail_room:
            self._prune()


def _size(line: LogLine) -> int:
    return len(line.text) + LINE_COST

"""Keeps what a run prints: whole lines with their times, the head and the tail within a cap."""

from __future__ import annotations

import codecs
import logging
import threading
from collections import deque
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

log = logging.getLogger(__name__)

Stream = Literal["stdout", "stderr"]
_STREAMS: Final[tuple[Stream, ...]] = ("stdout", "stderr")

LONGEST_LINE: Final = 16_384
LINE_COST: Final = 100
"""What a line costs beside its text, so that a million empty lines are bounded as well."""
FLUSH_SECONDS: Final = 0.5


class RunLog:
    """The log of one attempt, written in batches.

    Of a log above `cap` characters the first quarter and the newest three quarters stay.
    """

    def __init__(
        self,
        store: Store,
        token: Token,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        cap: int,
    ) -> None:
        self._store = store
        self._token = token
        self._clock = clock
        self._monotonic = monotonic
        self._head_room = cap // 4
        self._tail_room = cap - cap // 4
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")("replace") for name in _STREAMS
        }
        self._partial = dict.fromkeys(_STREAMS, "")
        self._pending: list[LogLine] = []
        self._pending_size = 0
        self._flushed_at = monotonic()
        self._next_seq = 1
        self._head_seq = 0
        self._tail: deque[tuple[int, int]] = deque()  # (seq, size) of what may still be dropped
        self._tail_size = 0
        self._trim_from: int | None = None
        self._lock = threading.RLock()

    def write(self, stream: Stream, data: bytes) -> None:
        """Add what a stream printed; flushes now and then."""
        text = self._partial[stream] + self._decoders[stream].decode(data)
        *lines, rest = text.replace("\r\n", "\n").split("\n")
        while len(rest) > LONGEST_LINE:
            lines.append(rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        self._partial[stream] = rest
        with self._lock:
            now = self._clock()
            for line in lines:
                self._add(stream, line, now)
            if self._pending_size > 2 * self._tail_room:
                self._relieve()
        self.flush_if_overdue()

    def add(self, stream: Stream, text: str) -> None:
        """Add whole lines; another thread flushes them, unless they are a flood."""
        with self._lock:
            now = self._clock()
            for line in text.split("\n"):
                self._add(stream, line, now)
            if self._pending_size > 2 * self._tail_room:
                self._relieve()

    def flush_if_overdue(self) -> None:
        """Called by another thread too, for runs that print a line and then are silent."""
        with self._lock:
            if self._pending and self._monotonic() - self._flushed_at > FLUSH_SECONDS:
                self.flush()

    def note(self, text: str) -> None:
        """Add a line of Duebook's own."""
        with self._lock:
            self._pending.append(LogLine(self._clock(), "duebook", text))

    def close(self, give_up: Callable[[], bool] = lambda: True) -> None:
        """Add what has no line end yet, and write it all; while that fails, `give_up` decides."""
        with self._lock:
            for stream in _STREAMS:
                if rest := self._partial[stream] + self._decoders[stream].decode(b"", final=True):
                    self._partial[stream] = ""
                    self._add(stream, rest, self._clock())
            if self._pending:
                persist(self._store, self._append, give_up)
                self._written()
            if self._trim_from is not None:
                persist(self._store, self._trim, lambda: True)

    def flush(self) -> None:
        """Write what is pending; while the books cannot be reached it waits, within the cap."""
        with self._lock:
            self._flushed_at = self._monotonic()
            if self._pending:
                try:
                    self._flush_pending()
                except Unavailable as error:
                    self._drop_beyond_cap(error)

    def _flush_pending(self) -> None:
        self._store.transact(self._append)
        self._written()

    def _append(self, tx: Tx) -> None:
        tx.append_log(self._token, self._next_seq, self._pending)
        self._trim(tx)

    def _trim(self, tx: Tx) -> None:
        if self._trim_from is not None:
            tx.trim_log(self._token, self._head_seq, self._trim_from)

    def _written(self) -> None:
        """Count what was written; what falls out of the tail is dropped with the next write."""
        self._trim_from = self._account(self._pending, self._next_seq)
        self._next_seq += len(self._pending)
        self._pending, self._pending_size = [], 0

    def _drop_beyond_cap(self, error: Unavailable) -> None:
        if self._pending_size > self._tail_room:
            log.warning("log lines of run %s are lost: %s", self._token.run_id, error)
            self._pending, self._pending_size = [], 0
            self.note("some lines are lost: the books could not be reached")

    def _relieve(self) -> None:
        """A flood: write the head, and afterwards drop what would not stay in the tail anyway."""
        if self._next_seq == 1:
            self.flush()
            return
        dropped = 0
        while self._pending_size > self._tail_room:
            self._pending_size -= len(self._pending[dropped].text) + LINE_COST
            dropped += 1
        del self._pending[:dropped]
        self._next_seq += dropped
        self._tail.clear()
        self._tail_size = 0
        self._trim_from = self._next_seq

    def _add(self, stream: Stream, text: str, now: datetime) -> None:
        for start in range(0, max(len(text), 1), LONGEST_LINE):
            line = text[start : start + LONGEST_LINE].replace("\0", "\N{REPLACEMENT CHARACTER}")
            self._pending.append(LogLine(now, stream, line))
            self._pending_size += len(line) + LINE_COST

    def _account(self, lines: list[LogLine], first_seq: int) -> int | None:
        """Count the lines towards head and tail; returns where the tail begins if it moved."""
        for seq, line in enumerate(lines, first_seq):
            size = len(line.text) + LINE_COST
            if not self._tail and self._head_room >= size:
                self._head_room -= size
                self._head_seq = seq
            else:
                self._tail.append((seq, size))
                self._tail_size += size
        moved = False
        while self._tail_size > self._tail_room and len(self._tail) > 1:
            self._tail_size -= self._tail.popleft()[1]
            moved = True
        return self._tail[0][0] if moved else None

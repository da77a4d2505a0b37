"""Copies what a task prints to the log of its run: replaces sys.stdout and sys.stderr, and finds
the run in a context variable.

So it follows a task through the event loop and asyncio.to_thread, but not into threads that the
task starts itself, into programs, or below Python's streams.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextvars import Token
    from typing import TextIO

    from duebook.model.run import Claim
    from duebook.targets.context import Reports

    Stream = Literal["stdout", "stderr"]

__all__ = ["Printing", "aside", "claim_at_work", "keeping_prints"]

LONGEST_PART: Final = 16_384
"""Characters without a line end that are held back for one."""


class Printing:
    """While this is entered, what its context prints goes to the reports of a run."""

    __slots__ = ("_former", "_parts", "_reports")
    _lock: Final = threading.Lock()

    def __init__(self, reports: Reports) -> None:
        self._reports: Reports | None = reports
        self._parts: dict[Stream, str] = {}
        """text without a line end so far"""

    def __enter__(self) -> None:
        self._former: Token[Printing | None] = _current.set(self)

    def __exit__(self, *_: object) -> None:
        """After the end of the run, prints of background work belong to no run."""
        _current.reset(self._former)
        with self._lock:
            reports, self._reports = self._reports, None
        if reports is not None:
            for stream, rest in self._parts.items():
                if rest:
                    reports.line(stream, rest)

    @property
    def claim(self) -> Claim | None:
        """The run that prints, while it is active."""
        return getattr(self._reports, "claim", None)

    def shown(self, text: str) -> str:
        """The text for the node's own output, without secrets."""
        reports = self._reports
        return text if reports is None else reports.shown(text)

    def add(self, stream: Stream, text: str) -> None:
        """From any thread that has the context."""
        with self._lock:
            if self._reports is None:
                return
            joined = (self._parts.get(stream, "") + text).replace("\r\n", "\n")
            whole, end, rest = joined.rpartition("\n")
            if end:
                self._reports.line(stream, whole)
            if len(rest) > LONGEST_PART:
                self._reports.line(stream, rest)
                rest = ""
            self._parts[stream] = rest


_current: ContextVar[Printing | None] = ContextVar("duebook_printing", default=None)


def claim_at_work() -> Claim | None:
    """The run whose task calls this, if any."""
    printing = _current.get()
    return None if printing is None else printing.claim


@contextmanager
def aside() -> Iterator[None]:
    """Divert prints while a log is written: Python may call the finalizer of anything at any time,
    and one that prints must not wait for the lock that its own thread holds."""
    former = _current.set(None)
    try:
        yield
    finally:
        _current.reset(former)


class _Routed:
    """A text stream that reports what is written to the run at work, and passes it on."""

    def __init__(self, stream: TextIO, name: Stream) -> None:
        self._stream = stream
        self._name: Stream = name

    def write(self, text: str) -> int:
        printing, shown = _current.get(), text
        if printing is not None and isinstance(text, str):
            former = _current.set(None)  # like `aside`, which costs more
            try:
                printing.add(self._name, text)
                shown = printing.shown(text)
            finally:
                _current.reset(former)
        written = self._stream.write(shown)
        return written if shown is text else len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def keeping_prints() -> Iterator[None]:
    """Replace this process's streams, also in logging handlers that already hold them."""
    streams = sys.stdout, sys.stderr
    routed: Any = _Routed(streams[0], "stdout"), _Routed(streams[1], "stderr")
    _replace(streams, routed)
    try:
        yield
    finally:
        _replace(routed, streams)


def _replace(former: tuple[TextIO, TextIO], others: tuple[TextIO, TextIO]) -> None:
    if sys.stdout is former[0]:
        sys.stdout = others[0]
    if sys.stderr is former[1]:
        sys.stderr = others[1]
    for handler in _handlers():
        for stream, other in zip(former, others, strict=True):
            if handler.stream is stream:
                handler.setStream(other)


def _handlers() -> Iterator[logging.StreamHandler[Any]]:
    for logger in (logging.root, *logging.root.manager.loggerDict.values()):
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler):
                yield handler

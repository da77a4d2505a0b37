"""Follows one started command to its end; knows its pipes, its timeout and who may stop it."""

from __future__ import annotations

import fcntl
import math
import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Literal

from duebook.closing import Closing
from duebook.lazy_dataclasses import dataclass
from duebook.targets.spawner_process import unpack_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.targets.supervisors import Process

    Stream = Literal["stdout", "stderr"]
    Output = Callable[[Stream, bytes], None]

__all__ = ["Exit", "Stop", "read_exit", "read_piece", "supervise"]

_CHUNK = 65_536
_PIPE_HOLDS = 1_048_576  # the most that Linux grants without privileges
_MARGIN = 6.0  # extra seconds for a supervisor beyond the grace; it gives up on survivors after 5


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended: by itself (`code`), by a signal, or not at all (`error`).

    `stopped` is set if it was ended before it came to an end by itself, with the reason: "timeout",
    the reason given to `Stop`, "killed" (by `Process.kill()`), "lease" (the node's lease ran out)
    or "spawner" (closed or lost). `survivors` counts processes that could not be killed, such as
    those of another user.
    """

    code: int | None = None
    signal: int | None = None
    error: str | None = None
    stopped: str | None = None
    cpu_seconds: float | None = None
    max_rss: int | None = None  # bytes; at least the 10 MB of the supervisor it was forked from
    survivors: int = 0


class Stop(Closing):
    """A request to stop with its reason; any thread may make it, and a selector can wait for it."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._lock = threading.RLock()  # a signal handler may interrupt a `set()` with another
        self._closed = True  # until there is something to close
        self._reader, self._writer = _open_flag()
        self._closed = False

    def set(self, reason: str) -> None:
        """Only the first reason counts."""
        with self._lock:
            if self.reason is None:
                self.reason = reason
                if not self._closed:
                    os.write(self._writer, (1).to_bytes(8, sys.byteorder))

    def fileno(self) -> int:
        """Readable from the first `set()` on."""
        return self._reader

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                for fd in {self._reader, self._writer}:
                    os.close(fd)

    def __del__(self) -> None:
        self.close()


def _open_flag() -> tuple[int, int]:
    if sys.platform != "linux":
        return os.pipe()
    fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    return fd, fd


def supervise(
    process: Process,
    output: Output,
    stop: Stop,
    timeout: float | None,
    grace: float,
    clock: Callable[[], float] = time.monotonic,
    stop_signal: int = signal.SIGTERM,
) -> Exit:
    """Follow `process` until it and all its descendants have ended, and close it.

    `output` is called in this thread with what the command writes, as it comes, in pieces of at
    most 64 KiB; while it works, the command waits on a full pipe. The command is stopped (by
    `stop_signal`, and SIGKILL after `grace` seconds) when `stop` is set or `timeout` seconds after
    this call; how it ended is told by the Exit. Whatever `output` raises is passed on, and kills
    the command.
    """
    with process:
        return _Watch(process, output, stop, grace, clock, stop_signal).follow(timeout)


class _Watch:
    def __init__(
        self,
        process: Process,
        output: Output,
        stop: Stop,
        grace: float,
        clock: Callable[[], float],
        stop_signal: int,
    ) -> None:
        self._process = process
        self._output = output
        self._stop = stop
        self._grace = grace
        self._clock = clock
        self._signal = stop_signal
        self._reason: str | None = None
        self._killed = False
        self._deadline = math.inf

    def follow(self, timeout: float | None) -> Exit:
        if timeout is not None:
            self._deadline = self._clock() + timeout
        process = self._process
        poll = select.poll()
        for fd in (process.stdout, process.stderr, process.status, self._stop.fileno()):
            poll.register(fd, select.POLLIN)
        while not self._step(poll):
            if self._clock() >= self._deadline and not self._escalate():
                return Exit(error="the command's supervisor does not respond", stopped=self._reason)
        return self._finish()

    def _step(self, poll: select.poll) -> bool:
        """Handle what is ready; True when the status is, which comes after all output."""
        process = self._process
        ready = {fd for fd, _ in poll.poll(self._patience())}
        if process.status in ready:
            return True
        if self._stop.fileno() in ready:
            poll.unregister(self._stop)
            self._ask(self._stop.reason or "stop")
        if process.stdout in ready and self._pass_on("stdout", process.stdout) == 0:
            poll.unregister(process.stdout)
        if process.stderr in ready and self._pass_on("stderr", process.stderr) == 0:
            poll.unregister(process.stderr)
        return False

    def _patience(self) -> int | None:
        """In milliseconds."""
        if self._deadline == math.inf:
            return None
        return max(0, math.ceil((self._deadline - self._clock()) * 1000))

    def _pass_on(self, name: Stream, fd: int) -> int | None:
        """How many bytes there were: 0 if the stream has ended, None if there are none yet."""
        piece = read_piece(fd)
        if piece:
            self._output(name, piece)
        return None if piece is None else len(piece)

    def _ask(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
            self._process.stop(self._grace, self._signal)
            self._deadline = self._clock() + max(0.0, self._grace) + _MARGIN

    def _escalate(self) -> bool:
        """Stop, then kill, then give up (False): a stuck supervisor must not hold a thread."""
        if self._reason is None:
            self._ask("timeout")
        elif not self._killed:
            self._killed = True
            self._process.kill()
            self._deadline = self._clock() + _MARGIN
        else:
            return False
        return True

    def _finish(self) -> Exit:
        self._drain("stdout", self._process.stdout)
        self._drain("stderr", self._process.stderr)
        return read_exit(self._process.read_status(), self._reason)

    def _drain(self, name: Stream, fd: int) -> None:
        """Read what the command wrote, all of which is in the pipe by now.

        Not until the pipe's end: a process outside the command's family may still hold it.
        """
        if not (size := self._pass_on(name, fd)):
            return
        left = _capacity(fd) - size
        while left > 0 and (size := self._pass_on(name, fd)):
            left -= size


def _capacity(pipe: int) -> int:
    try:
        return fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    except (AttributeError, OSError):  # not Linux
        return _PIPE_HOLDS


def read_piece(fd: int) -> bytes | None:
    """What is in a pipe by now: empty if it has ended, None if there is nothing yet."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None


def read_exit(status: bytes, reason: str | None) -> Exit:
    """How a process ended, from what its supervisor wrote."""
    fields = unpack_status(status)
    if not fields:
        return Exit(error="the command's supervisor stopped unexpectedly", stopped=reason)
    ended_by = fields.get("ended_by")
    return Exit(
        code=_number(fields, "exit"),
        signal=_number(fields, "signal"),
        error=fields.get("error"),
        stopped=(reason or "killed") if ended_by == "node" else ended_by,
        cpu_seconds=float(fields["cpu_seconds"]) if "cpu_seconds" in fields else None,
        max_rss=_kibibytes(fields, "max_rss_kib"),
        survivors=_number(fields, "survivors") or 0,
    )


def _number(fields: dict[str, str], key: str) -> int | None:
    return int(fields[key]) if key in fields else None


def _kibibytes(fields: dict[str, str], key: str) -> int | None:
    return int(fields[key]) * 1024 if key in fields else None

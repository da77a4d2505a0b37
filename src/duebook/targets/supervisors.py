"""The node's channels to supervisors: those with active commands, and those waiting for one.

`spawner_process.py` is the other side.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

from duebook.closing import Closing
from duebook.errors import Unavailable
from duebook.targets.spawner_process import CALL, END, KILL, START, STATUS_LIMIT, STOP, WAITS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Process", "Supervisors", "open_channel", "send_start"]


def open_channel(timeout: float) -> tuple[socket.socket, socket.socket]:
    """The node's end and the supervisor's; `timeout` applies to what the node sends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.settimeout(timeout)
    return ours, theirs


def send_start(
    channel: socket.socket, request: bytes, fds: Sequence[int], lease_ends: float
) -> bool:
    """Send a command to a supervisor; False if there is no supervisor to start it.

    Raises Unavailable, and closes the channel, if it is not read: it is then unknown whether the
    command was started.
    """
    message = CALL.pack(START, lease_ends, len(request)) + request
    try:
        sent = socket.send_fds(channel, [message], fds)
        if sent < len(message):
            channel.sendall(memoryview(message)[sent:])
    except TimeoutError as error:
        channel.close()
        raise Unavailable("a command's supervisor does not respond") from error
    except ConnectionError:
        return False
    return True


class Supervisors(Closing):
    """The supervisors of one spawner that wait for a command; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[socket.socket, float]] = []
        """each with the time since when it has waited; the latest is taken first"""
        self._closed = False

    def take(self) -> socket.socket | None:
        with self._lock:
            return self._idle.pop()[0] if self._idle else None

    def keep(self, channel: socket.socket) -> None:
        with self._lock:
            if not self._closed:
                return self._idle.append((channel, time.monotonic()))
        channel.close()
        return None

    def end_idle(self, longest: float) -> None:
        """End those that have waited for this many seconds."""
        before = time.monotonic() - longest
        with self._lock:
            old = [channel for channel, since in self._idle if since <= before]
            self._idle = [item for item in self._idle if item[1] > before]
        for channel in old:
            _say(channel, END)  # a fork of this process may hold a copy of the channel
            channel.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.end_idle(0.0)

    def forget(self) -> None:
        """After a fork: these supervisors wait for commands of the parent."""
        self._lock = threading.Lock()
        for channel, _ in self._idle:
            channel.close()
        self._idle = []


class Process(Closing):
    """A started command: descriptors to read its output and status from, and two ways to end it.

    `stdout`, `stderr` and `status` do not block. `supervise()` reads them and closes the whole;
    closing (or losing) a Process kills what is still running. Safe to use from several threads.
    """

    def __init__(
        self, stdout: int, stderr: int, channel: socket.socket, supervisors: Supervisors
    ) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.status = channel.fileno()
        self._channel = channel
        self._supervisors = supervisors
        self._owner = os.getpid()
        self._ended = False
        self._waits = False
        self._closed = False
        self._lock = threading.Lock()

    def stop(self, grace: float, number: int = signal.SIGTERM) -> None:
        """A signal to the command's process group now, SIGKILL to all its family after `grace`."""
        if grace <= 0 or number == signal.SIGKILL:
            self.kill()
        else:
            self._tell(STOP, grace, b"%d" % number)

    def kill(self) -> None:
        """SIGKILL to the command and all its family, now."""
        self._tell(KILL)

    def read_status(self) -> bytes:
        """The status of its end, when `status` is readable; empty if its supervisor wrote
        nothing."""
        with self._lock:
            self._ended = True
            try:
                status, end, rest = self._channel.recv(STATUS_LIMIT + 1).partition(WAITS)
            except OSError:  # the supervisor was gone before it read what was sent
                return b""
            self._waits = end == WAITS and not rest
            return status

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            os.close(self.stdout)
            os.close(self.stderr)
            if self._waits:
                self._supervisors.keep(self._channel)
            else:
                self._let_go()

    def _let_go(self) -> None:
        """Send the end explicitly instead of only closing: a process forked off the node in the
        meantime may hold a copy of the channel. In such a fork, nothing is sent."""
        if not self._ended and os.getpid() == self._owner:
            _say(self._channel, KILL)
        self._channel.close()

    def _tell(self, word: bytes, value: float = 0.0, rest: bytes = b"") -> None:
        with self._lock:
            if not (self._ended or self._closed):
                _say(self._channel, word, value, rest)

    def __del__(self) -> None:
        self.close()


def _say(channel: socket.socket, word: bytes, value: float = 0.0, rest: bytes = b"") -> None:
    with contextlib.suppress(OSError):  # the supervisor is gone, and with it what it watched
        channel.send(CALL.pack(word, value, len(rest)) + rest)

"""The node's side of the spawner process; it uses pipes and sockets, and starts no command itself.

All processes of a command end with its run, with the node, with the spawner and with the node's
lease; `spawner_process.py` explains how.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from duebook.closing import Closing
from duebook.errors import Conflict, Invalid, Unavailable, shorten
from duebook.machine import helper_mark, hide_memory, this_process
from duebook.targets.command_setup import command_setup
from duebook.targets.spawner_process import (
    LEASE,
    MESSAGE,
    SUPERVISE,
    lease_clock,
    pack_request,
)
from duebook.targets.supervisors import Process, Supervisors, open_channel, send_start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from duebook.targets.command_setup import CommandSetup, CommandUser

__all__ = ["Process", "Spawner", "lease_clock"]

_PROGRAM = Path(__file__).with_name("spawner_process.py")
_ANSWER_WITHIN = 10.0  # seconds; the spawner answers in milliseconds unless it was stopped
_END_WITHIN = 8.0  # seconds; the spawner itself gives up after 5 on processes that do not die
LONGEST_IDLE = 10.0  # seconds that a supervisor waits for its next command
# Few starts in flight at once: the kernel refuses to hold more descriptors in sockets than a
# process may open, and a sender that waits is better than a start that fails.
_SEND_BUFFER = 16_384


class Spawner(Closing):
    """Starts commands through a small separate process; safe to use from several threads.

    After `start()`, only processes of root can read the memory and the environment of this one:
    otherwise commands of the same user could.

    Every method raises Unavailable if that process is gone or does not answer, and Conflict in a
    fork of the process that called `start()`.
    """

    def __init__(self, setup: CommandSetup | None = None) -> None:
        self.setup = setup or command_setup()
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._supervisors = Supervisors()
        self._lease_ends = math.inf

    def start(self) -> Self:
        """Start the spawner process; an earlier one is ended first, with everything that it
        started."""
        self.close()
        hide_memory()
        with self._lock:
            self._owner = os.getpid()
            try:
                self._begin()
            except OSError as error:
                self._end()
                raise Unavailable(f"the spawner could not be started: {error}") from error
        return self

    def spawn(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None = None,
        as_node: bool = False,
        stdin: int | None = None,
    ) -> Process:
        """Start `argv` with exactly `env` in `cwd` (None: where the spawner was started), as the
        user that the setup names, or with `as_node` as the user of the node. Its standard input is
        the file `stdin`, or else empty.

        No shell is involved; the program is looked up in `env`'s PATH. Returns at once: the status
        shows if the command could not be started. Raises Invalid for what cannot be passed to a
        program: no argv, a NUL anywhere, a variable name that is empty or contains "=".
        """
        request = _request(argv, env, cwd, as_node)
        self._refuse_after_fork()
        sent: list[int] = []
        kept: list[int] = []
        try:
            _open_pipes(sent, kept)
            if stdin is not None:
                sent.append(os.dup(stdin))
            channel, supervisors = self._begin_run(request, sent)
        except BaseException as error:
            _close(kept)
            if isinstance(error, OSError):  # out of descriptors or of memory
                raise Unavailable(f"the command could not be started: {error}") from error
            raise
        finally:
            _close(sent)
        return Process(kept[0], kept[1], channel, supervisors)

    def _begin_run(self, request: bytes, fds: list[int]) -> tuple[socket.socket, Supervisors]:
        """Use a supervisor that waits, or else a new one."""
        supervisors = self._supervisors
        while (waiting := supervisors.take()) is not None:
            if send_start(waiting, request, fds, self._lease_ends):
                return waiting, supervisors
            waiting.close()
        channel, theirs = open_channel(_ANSWER_WITHIN)
        try:
            with theirs:
                self._send(SUPERVISE, 0.0, [theirs.fileno()])
            # Not sent if the spawner was quick to refuse: it has given the reason on the channel.
            send_start(channel, request, fds, self._lease_ends)
        except BaseException:
            channel.close()
            raise
        return channel, supervisors

    def tidy(self, longest_idle: float = LONGEST_IDLE) -> None:
        """End supervisors that have had no command for this many seconds."""
        if os.getpid() == self._owner:
            self._supervisors.end_idle(longest_idle)

    def extend_lease(self, seconds: float, since: float | None = None) -> None:
        """Let commands run until `seconds` after `since`, unless a later call changes that.

        `since` is `lease_clock()` as read before the lease was renewed (default: now), so that a
        node that was stopped in between does not grant itself more than it was granted. Before the
        first call there is no limit. At the limit all commands are killed, and new ones are refused
        until it is extended.
        """
        start = lease_clock() if since is None else since
        self._lease_ends = start + seconds
        self._send(LEASE, self._lease_ends, [])

    def is_alive(self) -> bool:
        process = self._process
        return process is not None and process.poll() is None

    def close(self) -> None:
        """Kill all commands and end the spawner; returns when both are done."""
        if os.getpid() != self._owner:
            return self._forget()
        with self._lock:
            self._end()
        return None

    def __enter__(self) -> Self:
        return self if self.is_alive() else self.start()

    def _begin(self) -> None:
        # Both kinds report the death of the other end. Only Linux has SEQPACKET for AF_UNIX; STREAM
        # also works, because all messages have the same size.
        kind = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_STREAM
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, kind)
        self._socket.settimeout(_ANSWER_WITHIN)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        with theirs:
            words = [str(theirs.fileno()), _words_of(self.setup.user), *_mark()]
            self._process = subprocess.Popen(  # noqa: S603  (our own program)
                [sys.executable, "-I", "-S", str(_PROGRAM), *words],
                env=self.setup.inherited,  # commands can read it in /proc, and have it anyway
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the node, which then ends us in order
            )
        if not self._socket.recv(MESSAGE.size):
            raise ConnectionError("it stopped before it was ready")

    def _end(self) -> None:
        self._supervisors.close()
        self._supervisors = Supervisors()
        self._lease_ends = math.inf
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it is already gone
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                self._process.wait(_END_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()  # it was stopped; its supervisors see it die, and act
                self._process.wait()
            self._process = None

    def _forget(self) -> None:
        """After a fork: the spawner, and any lock that was held, belong to the parent."""
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._supervisors.forget()
        self._supervisors = Supervisors()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.returncode = 0  # or Popen would warn: it is not our child
            self._process = None

    def _refuse_after_fork(self) -> None:
        if os.getpid() != self._owner:
            raise Conflict(
                f"this spawner belongs to process {self._owner}; start another one after the fork"
            )

    def _send(self, word: bytes, value: float, fds: list[int]) -> None:
        self._refuse_after_fork()
        if not self._lock.acquire(timeout=_ANSWER_WITHIN):
            raise Unavailable(f"the spawner was busy for more than {_ANSWER_WITHIN:g} s")
        try:
            self._send_locked(MESSAGE.pack(word, value), fds)
        finally:
            self._lock.release()

    def _send_locked(self, message: bytes, fds: list[int]) -> None:
        if self._socket is None or self._process is None:
            raise Unavailable("the spawner is not running")
        code = self._process.poll()
        if code is not None:
            raise Unavailable(f"the spawner has stopped ({code})")
        try:
            if fds:
                socket.send_fds(self._socket, [message], fds)
            else:
                self._socket.send(message)
        except TimeoutError as error:
            raise Unavailable(f"the spawner did not respond for {_ANSWER_WITHIN:g} s") from error
        except OSError as error:
            raise Unavailable(f"the spawner cannot be reached ({error})") from error


def _words_of(user: CommandUser | None) -> str:
    if user is None:
        return "-"
    return f"{user.uid}:{user.gid}:{','.join(map(str, user.groups))}"


def _mark() -> list[str]:
    """A mark by which others see that commands of this node may still be running."""
    this = this_process()
    return [] if this is None else [helper_mark(this)]


def _request(argv: Sequence[str], env: Mapping[str, str], cwd: str | None, as_node: bool) -> bytes:
    if isinstance(argv, str) or not argv or not argv[0]:
        raise Invalid(
            f'argv "{shorten(argv)}" has no program; use a list such as ["pg_dump", "mydb"]'
        )
    for name in env:
        if not name or "=" in name:
            raise Invalid(f'"{shorten(name)}" is not a valid name for an environment variable')
    packed = pack_request(argv, env, cwd, as_node)
    if packed.count(b"\0") != 2 + len(argv) + len(env):  # more than its separators
        texts = (*argv, *env.keys(), *env.values(), cwd or "")
        wrong = next(text for text in texts if "\0" in text)
        raise Invalid(f'"{shorten(wrong)}" contains NUL, which cannot be passed to a program')
    return packed


def _open_pipes(sent: list[int], kept: list[int]) -> None:
    """Create pipes for stdout and stderr towards the node."""
    for _ in ("stdout", "stderr"):
        reader, writer = os.pipe()
        kept.append(reader)
        sent.append(writer)
        os.set_blocking(reader, False)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)

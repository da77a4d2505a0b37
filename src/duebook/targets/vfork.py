"""Starts programs that end with this process by vfork: a list of calls to libc, run by the child.

A fork copies the memory of this process, page by page, for a child that is about to drop it. After
a vfork the child has the memory of its parent, which waits until the child has become another
program. No Python may run in it. The standard library's functions of this kind (`posix_spawn`,
`subprocess`) cannot set PR_SET_PDEATHSIG, so libc is called directly: `makecontext` prepares each
call with a separate stack and links it to the next, and `clone` starts with the first.

It imports nothing of Duebook: `spawner_process.py` loads it by its path.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_CLONE_VM, _CLONE_VFORK = 0x100, 0x4000
_STACK = 16_384
_NOWHERE = b"/nonexistent/duebook"


class _StackOf(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


class _Context(ctypes.Structure):
    """ucontext_t: in glibc it starts like this on every machine, and glibc fills in the rest."""

    _fields_ = (
        ("flags", ctypes.c_ulong),
        ("link", ctypes.c_void_p),
        ("stack", _StackOf),
        ("rest", ctypes.c_char * 8_192),  # more than on any machine
    )


class _Call:
    """One call to a function of libc, with room for its context and its stack."""

    def __init__(self) -> None:
        self.context = _Context()
        self.stack = ctypes.create_string_buffer(_STACK)


class VFork:
    """Raises AttributeError where libc lacks a function, as on musl."""

    def __init__(self) -> None:
        self._libc = libc = ctypes.CDLL(None)
        self._enter, self._clone = libc.setcontext, libc.clone
        self._save, self._make = libc.getcontext, libc.makecontext
        self._calls: list[_Call] = []
        self._failed = ctypes.create_string_buffer(1)  # written by a child that shares this memory
        stack = ctypes.create_string_buffer(_STACK)
        self._stack = stack  # kept alive, as only the address of its end is passed on
        top = ctypes.addressof(stack) + _STACK
        self._top = ctypes.c_void_p(top - top % 16)

    def prepare(
        self,
        programs: Sequence[bytes],
        argv: Sequence[bytes],
        variables: Sequence[bytes],
        stdout: int,
        stderr: int,
    ) -> None:
        """Prepare what `start()` starts: the first of `programs` that can be executed.

        It will block the signals that are blocked now.
        """
        libc, number = self._libc, ctypes.c_long
        words, environ = _texts(argv), _texts(variables)
        paths = [ctypes.c_char_p(program) for program in programs]
        zeros = (number(0), number(0), number(0))
        self._kept = (words, environ, paths)  # kept alive, as libc only has their addresses
        self._link(
            [
                (libc.setsid,),
                (libc.dup2, number(stdout), number(1)),
                (libc.dup2, number(stderr), number(2)),
                (libc.prctl, number(_PR_SET_PDEATHSIG), number(signal.SIGKILL), *zeros),
                *(
                    (libc.execve, path, ctypes.byref(words), ctypes.byref(environ))
                    for path in paths
                ),
                # only reached if none of these became a program
                (libc.memset, ctypes.byref(self._failed), number(1), number(1)),
                (libc["_exit"], number(127)),
            ]
        )

    def start(self) -> int | None:
        """Start what was prepared, once, as the leader of its own session; returns the process, or
        None if it could not be executed.

        It is killed when this process ends. The caller must ensure that each signal has its default
        action, or is ignored, and that signals it needs itself are blocked.
        """
        flags = _CLONE_VM | _CLONE_VFORK | signal.SIGCHLD
        first = ctypes.byref(self._calls[0].context)
        self._failed.raw = b"\0"
        pid: int = self._clone(self._enter, self._top, flags, first)
        if pid > 0 and self._failed.raw == b"\0":
            return pid
        if pid > 0:
            os.waitpid(pid, 0)
        return None

    def _link(self, calls: Sequence[tuple[Any, ...]]) -> None:
        while len(self._calls) < len(calls):
            self._calls.append(_Call())
        following: int | None = None
        for call, (function, *words) in zip(
            reversed(self._calls[: len(calls)]), reversed(calls), strict=True
        ):
            context = call.context
            self._save(ctypes.byref(context))
            context.stack.start, context.stack.size = ctypes.addressof(call.stack), _STACK
            context.link = following
            self._make(ctypes.byref(context), function, len(words), *words)
            following = ctypes.addressof(context)


def _texts(texts: Sequence[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * (len(texts) + 1))(*texts, None)


def open_vfork() -> VFork | None:
    """None where it does not work, as found out with a process whose death would do no harm."""
    if sys.platform != "linux":
        return None
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(_try())
        finally:
            os._exit(1)
    return VFork() if os.waitpid(pid, 0)[1] == 0 else None


def _try() -> int:
    """Whether a failure is noticed, which takes all but the last step of a success."""
    vfork = VFork()
    vfork.prepare([_NOWHERE, _NOWHERE], [_NOWHERE], [], 0, 0)
    return 0 if vfork.start() is None else 1

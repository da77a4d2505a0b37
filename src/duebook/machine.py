"""Which process of which machine this is, and whether another one there is gone, as /proc tells.

Where there is no /proc, or one of other processes, nobody is told apart and nobody is gone.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

__all__ = [
    "ProcessId",
    "Seen",
    "helper_mark",
    "hide_memory",
    "is_gone",
    "process_is_gone",
    "this_process",
]

_PROC: Final = Path("/proc")
_NAMESPACES: Final = ("pid", "time")
"""Those that give a pid, and the instant at which its process began, their meaning."""
_STATE, _THREADS, _STARTED = 0, 17, 19
"""Places in what follows the name of the program in /proc/PID/stat."""


_PR_SET_DUMPABLE: Final = 4


def hide_memory() -> None:
    """Let no other process but root's read the memory and the environment of this one.

    Otherwise every process of the same user can, also a command, in /proc/PID/environ and
    /proc/PID/mem. Debuggers and profilers of that user cannot either, and there is no core dump.
    Only Linux has this; it ends with exec.
    """
    if sys.platform == "linux":
        zero = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, zero, zero, zero, zero)


class ProcessId(NamedTuple):
    """Names one process for as long as its machine is up; another may get its pid later."""

    machine: str
    """the boot and the namespaces in which the others mean something"""
    pid: int
    started: int
    """in ticks since the boot"""


class Seen(NamedTuple):
    """What there is under a pid."""

    exists: bool
    started: int | None = None
    """None: not to be seen"""
    is_zombie: bool = False
    """it has ended, with all of its threads, and its parent has not noticed"""
    helpers: bool = False
    """whether any process is left that it started commands with"""


def this_process() -> ProcessId | None:
    """None where that cannot be told."""
    pid = os.getpid()
    try:
        if Path(_PROC / "self").readlink() != Path(str(pid)):
            return None  # of another namespace
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        spaces = [_PROC / "self/ns" / name for name in _NAMESPACES]
        names = [str(space.readlink()) for space in spaces if space.is_symlink()]
        seen = _look(pid)
    except OSError:
        return None
    if not boot or not names or seen.started is None:
        return None
    return ProcessId(" ".join([boot, *names]), pid, seen.started)


def is_gone(started: int, seen: Seen) -> bool:
    """Whether the process that began then is over, going by what there is under its pid now.

    One that is stopped is there. One that cannot be seen may be, and so may its commands while
    anybody is left to end them.
    """
    if seen.helpers:
        return False
    if not seen.exists:
        return True
    return seen.started is not None and (seen.started != started or seen.is_zombie)


def process_is_gone(pid: int, started: int) -> bool:
    """Of a process of this machine, whose `ProcessId.machine` is this one's."""
    if pid <= 0 or started <= 0:
        return False
    try:
        seen = _look(pid)
        if is_gone(started, seen):  # only then is it worth to look at all processes
            seen = seen._replace(helpers=_has_helpers(pid, started))
    except (OSError, OverflowError):
        return False
    return is_gone(started, seen)


def helper_mark(process: ProcessId) -> str:
    """What stands on the command line of its helpers, and of processes that they fork."""
    return f"duebook-helper-of-{process.pid}-{process.started}"


def _look(pid: int) -> Seen:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Seen(exists=False)
    except PermissionError:
        pass
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
        fields = text[text.rindex(")") + 1 :].split()
        is_zombie = fields[_STATE] in "ZX" and int(fields[_THREADS]) <= 1
        return Seen(exists=True, started=int(fields[_STARTED]), is_zombie=is_zombie)
    except (OSError, ValueError, IndexError):  # hidden from this user, or gone just now
        return Seen(exists=True)


def _has_helpers(pid: int, started: int) -> bool:
    if not (_PROC / "1").exists():
        return True  # /proc hides processes (hidepid), those of helpers too
    mark = helper_mark(ProcessId("", pid, started)).encode()
    for place in _PROC.iterdir():
        if place.name.isdecimal():
            with suppress(OSError):  # it has just ended
                if mark in (place / "cmdline").read_bytes().split(b"\0"):
                    return True
    return False

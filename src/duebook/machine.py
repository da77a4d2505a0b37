"""Identifies this process and machine, and detects from /proc whether another process is gone.

Without a /proc that shows the other processes, a process has no id and none counts as gone.
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
"""The namespaces that a pid and the start time of its process depend on."""
_STATE, _THREADS, _STARTED = 0, 17, 19
"""Indexes of the fields after the program's name in /proc/PID/stat."""


_PR_SET_DUMPABLE: Final = 4


def hide_memory() -> None:
    """Prevent other processes, except root's, from reading the memory and environment of this one.

    Otherwise every process of the same user, commands included, can read /proc/PID/environ and
    /proc/PID/mem. This also stops that user's debuggers and profilers, and disables core dumps.
    Works only on Linux; exec resets it.
    """
    if sys.platform == "linux":
        zero = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, zero, zero, zero, zero)


class ProcessId(NamedTuple):
    """Identifies one process until its machine restarts; its pid may be reused."""

    machine: str
    """the boot and the namespaces in which the other fields are valid"""
    pid: int
    started: int
    """in ticks since boot"""


class Seen(NamedTuple):
    """What /proc shows for a pid."""

    exists: bool
    started: int | None = None
    """None: not visible"""
    is_zombie: bool = False
    """it has ended, with all of its threads, but its parent has not reaped it"""
    helpers: bool = False
    """whether any of the helper processes that start its commands is left"""


def this_process() -> ProcessId | None:
    """None if it cannot be determined."""
    pid = os.getpid()
    try:
        if Path(_PROC / "self").readlink() != Path(str(pid)):
            return None  # belongs to another namespace
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
    """Whether the process that started then has ended, judging by what its pid shows now.

    A stopped process has not ended. One that is not visible may be running, and so may its
    commands while a helper is left to stop them.
    """
    if seen.helpers:
        return False
    if not seen.exists:
        return True
    return seen.started is not None and (seen.started != started or seen.is_zombie)


def process_is_gone(pid: int, started: int) -> bool:
    """For a process of this machine, one with the same `ProcessId.machine`."""
    if pid <= 0 or started <= 0:
        return False
    try:
        seen = _look(pid)
        if is_gone(started, seen):  # look at all processes only then
            seen = seen._replace(helpers=_has_helpers(pid, started))
    except (OSError, OverflowError):
        return False
    return is_gone(started, seen)


def helper_mark(process: ProcessId) -> str:
    """An argument on the command line of its helpers and of the processes that they fork."""
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
    except (OSError, ValueError, IndexError):  # not visible to this user, or just ended
        return Seen(exists=True)


def _has_helpers(pid: int, started: int) -> bool:
    if not (_PROC / "1").exists():
        return True  # /proc hides processes (hidepid), helpers included
    mark = helper_mark(ProcessId("", pid, started)).encode()
    for place in _PROC.iterdir():
        if place.name.isdecimal():
            with suppress(OSError):  # it has just ended
                if mark in (place / "cmdline").read_bytes().split(b"\0"):
                    return True
    return False

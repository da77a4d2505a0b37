"""The spawner process: starts commands for one node and ends every descendant they leave.

It knows its node's socket, a lease and the processes below itself, and may touch nothing else.
It runs as a program of its own (`python -I -S spawner_process.py FD USER MARK`; USER is who runs
the commands, as UID:GID:GROUPS, or `-`; the mark tells others whose it is) and imports nothing of
Duebook; `spawner.py` is the node's side, and shares the few
words of the protocol below.

    node ── spawner ─┬─ supervisor ── command ── whatever the command starts
                     └─ supervisor ── command ── ...

The spawner forks one supervisor per run, and the supervisor starts the command. Both are child
subreapers: a process that loses its parent, however often it forks or calls setsid, becomes a
child of its run's supervisor, or of the spawner once that supervisor is gone. So "waitpid knows
no child" is proof that nothing is left, and each failure has someone who notices:

    the command ends           its supervisor ends the rest of the family
    the node asks, or lets go  the supervisor reads the lifeline
    the node dies              the spawner sees its socket close (or its pidfd become readable)
    the node stops             the spawner sees the lease run out
    the supervisor dies        the spawner inherits the family and ends it
    the supervisor is stopped  the spawner continues it
    the spawner dies           each supervisor sees the end of a pipe that only the spawner holds
"""

from __future__ import annotations

import ctypes
import math
import os
import select
import signal
import socket
import struct
import sys
import time
import warnings  # noqa: F401  (os.execvpe imports it: better once here than in every child)
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import NoReturn

# ------------------------------------------------------------ the words shared with the node

MESSAGE = struct.Struct("=cd")  # one size for all, so that the socket's kind does not matter
START, LEASE, READY = b"S", b"L", b"R"
FDS_PER_START = 5  # request, stdout, stderr, status, lifeline
KILL = b"kill\n"  # on the lifeline; any other line there is a number: stop within that grace
STATUS_LIMIT = 4096  # a pipe takes this much in one piece

# Also counts while the machine is suspended, as the database's clock does; all processes of a
# machine read the same value, so a deadline can be sent as it is.
_LEASE_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_clock() -> float:
    return time.clock_gettime(_LEASE_CLOCK)


class Request(NamedTuple):
    """What shall be started."""

    argv: list[bytes]
    env: dict[bytes, bytes]
    cwd: bytes | None = None
    as_node: bool = False
    """whether it is part of the node, and so runs as the node's user"""


def pack_request(request: Request) -> bytes:
    """NUL-separated, since no part of an exec may contain one: no text is ever re-parsed."""
    argv, env, cwd, as_node = request
    variables = [key + b"=" + value for key, value in env.items()]
    head = [b"%d" % len(argv), b"node" if as_node else b"", cwd or b""]
    return b"\0".join([*head, *argv, *variables])


def unpack_request(packed: bytes) -> Request:
    count, who, cwd, *parts = packed.split(b"\0")
    argv, variables = parts[: int(count)], parts[int(count) :]
    pairs = (variable.partition(b"=") for variable in variables)
    return Request(argv, {key: value for key, _, value in pairs}, cwd or None, who == b"node")


def pack_status(fields: Mapping[str, object]) -> bytes:
    """One field per line; shortened, since a pipe takes only so much in one piece."""
    lines = (f"{key}={str(value).replace(chr(10), ' ')[:500]}\n" for key, value in fields.items())
    return "".join(lines).encode("utf-8", "backslashreplace")[:STATUS_LIMIT]


def unpack_status(status: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in status.decode(errors="replace").split("\n") if line)
    return {key: value for key, _, value in pairs}


# ------------------------------------------------------------ processes below this one

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_LEFT_SURVIVORS = 3  # a supervisor's exit code: status written, but something would not die
_PATIENCE = 5.0  # seconds in which a killed process should be gone


def _prctl(option: int, value: int) -> None:
    """Elsewhere than on Linux nothing happens, and only process groups can be ended."""
    if sys.platform == "linux":
        argument = ctypes.c_ulong
        _LIBC.prctl(option, argument(value), argument(0), argument(0), argument(0))


_LIBC = ctypes.CDLL(None)
_KERNEL_LISTS_CHILDREN = os.access(f"/proc/self/task/{os.getpid()}/children", os.R_OK)


def _read_file(path: str) -> bytes:
    """The whole file, or nothing if the process it tells about has ended."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return b"".join(iter(lambda: os.read(fd, 65536), b""))
    except OSError:
        return b""
    finally:
        os.close(fd)


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208  (pathlib would double the time to start)
    except OSError:
        return []


def _family_facts(pid: int) -> tuple[int, int] | None:
    """Parent and process group of `pid`, or None if it has ended."""
    fields = _read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return (int(fields[1]), int(fields[2])) if fields else None


def _listed_children(pid: int) -> list[int]:
    """A child belongs to the thread that forked it, so every thread is asked."""
    files = (f"/proc/{pid}/task/{thread}/children" for thread in _entries(f"/proc/{pid}/task"))
    return [int(child) for path in files for child in _read_file(path).split()]


def _scanned_children() -> dict[int, list[int]]:
    """Children by parent, for kernels without CONFIG_PROC_CHILDREN."""
    children: dict[int, list[int]] = {}
    for entry in _entries("/proc"):
        facts = _family_facts(int(entry)) if entry.isdecimal() else None
        if facts:
            children.setdefault(facts[0], []).append(int(entry))
    return children


def _descendants(spared: Collection[int]) -> list[int]:
    """All processes below this one, parents first, without the families of `spared`.

    A family that forks meanwhile can escape one look, never the next ones: see `_sweep`.
    """
    scanned = None if _KERNEL_LISTS_CHILDREN else _scanned_children()
    family = [os.getpid()]
    seen = {*family, *spared}
    for parent in family:
        children = _listed_children(parent) if scanned is None else scanned.get(parent, [])
        fresh = [child for child in children if child not in seen]
        seen.update(fresh)
        family.extend(fresh)
    return family[1:]


def _sweep(spared: Collection[int] = ()) -> int:
    """Send SIGKILL to all processes below this one but `spared`; return how many were there.

    Whole process groups are killed: unlike a walk from process to process, that is atomic
    towards fork. Each command has a session of its own, which nothing outside of it can join, so
    the group of a descendant holds only descendants. Repeat until waitpid knows no child.
    """
    family = _descendants(spared)
    relatives = {os.getpid(), *family}
    killed = {os.getpgrp()}  # a supervisor's child is in its group until it has called setsid
    for pid in family:
        facts = _family_facts(pid)
        if facts is None or facts[0] not in relatives:
            continue  # ended, and its number may already belong to a stranger
        if facts[1] == os.getpgrp():
            _signal(pid, signal.SIGKILL)
        elif facts[1] not in killed:
            killed.add(facts[1])
            _signal(-facts[1], signal.SIGKILL)
    return len(family)


def _signal(pid: int, number: int) -> bool:
    """Whether there was something to signal; a negative pid is a process group, as for kill(2)."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it is there, but runs as someone else (sudo)
    return True


def _wake_on_child() -> int:
    """A pipe that becomes readable when a child has changed state."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reader


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass


def _poll(poll: select.poll, seconds: float) -> set[int]:
    timeout = None if seconds == math.inf else max(0, math.ceil(seconds * 1000))
    return {fd for fd, _ in poll.poll(timeout)}


def _close_all_but(kept: Iterable[int]) -> None:
    lowest = 3
    for fd in sorted(kept):
        os.closerange(lowest, fd)
        lowest = max(lowest, fd + 1)
    os.closerange(lowest, os.sysconf("SC_OPEN_MAX"))


def _write_status(fd: int, fields: Mapping[str, object]) -> None:
    try:  # noqa: SIM105  (contextlib is not worth its import here)
        os.write(fd, pack_status(fields))
    except OSError:
        pass  # the node no longer listens


# ------------------------------------------------------------ the command


class User(NamedTuple):
    """Who runs the commands."""

    uid: int
    gid: int
    groups: list[int]


_user: list[User] = []  # at most one; given once, to main()


def read_user(text: str) -> list[User]:
    if text == "-":
        return []
    uid, gid, groups = text.split(":")
    return [User(int(uid), int(gid), [int(group) for group in groups.split(",")])]


def _become(user: User) -> None:
    """For good, with all ids and groups; as root gives itself up, it loses its capabilities."""
    for fd in (1, 2):
        os.fchown(fd, user.uid, user.gid)  # or it could not open /dev/stdout
    os.setgroups(user.groups)
    os.setgid(user.gid)
    os.setuid(user.uid)


def _become_command(request: Request, stdout: int, stderr: int, report: int) -> NoReturn:
    """Turn this freshly forked process into the command, or write to `report` why not."""
    argv, env, cwd, as_node = request
    problem = "cannot prepare the command"
    try:
        os.setsid()
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        _close_all_but([report])
        for user in () if as_node else _user:
            problem = f"cannot become user {user.uid}"
            _become(user)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # after that: another user forgets it
        _reset_signals()
        problem = f"cannot enter the directory {os.fsdecode(cwd or b'')}"
        if cwd is not None:
            os.chdir(cwd)
        problem = f"cannot start {os.fsdecode(argv[0])}"
        os.execvpe(argv[0], argv, env)  # noqa: S606  (no shell: argv stays data)
    except OSError as error:
        _write_status(report, {"error": f"{problem}: {error.strerror}"})
    finally:
        os._exit(127)


_ALL_SIGNALS = signal.valid_signals()
_ignored_signals: list[signal.Signals | int] = []  # found out once, by main()


def _reset_signals() -> None:
    for number in _ignored_signals:
        signal.signal(number, signal.SIG_DFL)
    # The supervisor blocked all signals before the fork: a SIGTERM that came since then is
    # delivered here, by default action, and not lost to the spawner's SIG_IGN.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


# ------------------------------------------------------------ the supervisor of one run


class _Supervisor:
    """Starts one command, waits for its end or for the node's word, ends its whole family."""

    def __init__(self, fds: Sequence[int], spawner_alive: int) -> None:
        self.request, self.stdout, self.stderr, self.status, self.lifeline = fds
        self.spawner_alive = spawner_alive
        self.main = 0
        self.ended: dict[str, object] | None = None  # how the command itself ended
        self.ender: str | None = None  # who ended it, if it did not end on its own
        self.kill_at = math.inf
        self.stopping = False

    def run(self) -> int:
        os.setsid()
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        signal.set_wakeup_fd(-1)
        _close_all_but([*self._fds(), self.spawner_alive])
        self.child_signal = _wake_on_child()
        try:
            self._start()
        except OSError as error:
            _write_status(self.status, {"error": f"cannot fork: {error.strerror}"})
            return 0
        self._watch()
        survivors = self._end_family()
        _write_status(self.status, {**self._result(), "survivors": survivors})
        return _LEFT_SURVIVORS if survivors else 0

    def _fds(self) -> tuple[int, ...]:
        return self.request, self.stdout, self.stderr, self.status, self.lifeline

    def _start(self) -> None:
        size = os.fstat(self.request).st_size
        request = unpack_request(os.pread(self.request, size, 0))
        self.report, report = os.pipe()
        os.set_blocking(self.report, False)
        signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)
        self.main = os.fork()
        if self.main == 0:
            _become_command(request, self.stdout, self.stderr, report)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Were these kept open here, the node would never see the end of the output.
        for fd in (self.request, self.stdout, self.stderr, report):
            os.close(fd)

    def _watch(self) -> None:
        """Until the rest of the family may be killed (or nothing of it is left)."""
        poll = select.poll()
        for fd in (self.lifeline, self.spawner_alive, self.child_signal):
            poll.register(fd, select.POLLIN)
        while time.monotonic() < self.kill_at:
            ready = _poll(poll, self._patience())
            _drain(self.child_signal)
            if self._reap():  # first: a command that has ended was not stopped by what follows
                return
            if self.spawner_alive in ready:
                self._kill("spawner")
            elif self.lifeline in ready:
                self._obey(os.read(self.lifeline, 4096))
            if self._group_is_gone():
                return

    def _patience(self) -> float:
        """While stopping, the group may empty without a signal to its supervisor."""
        left = self.kill_at - time.monotonic()
        return min(left, 0.02) if self.ended is not None else left

    def _obey(self, words: bytes) -> None:
        if words == b"" or words.endswith(KILL):
            return self._kill("node")
        grace = float(words.split(b"\n")[-2])
        self.kill_at = min(self.kill_at, time.monotonic() + grace)
        if not self.stopping and self.ended is None:
            self.stopping = True
            self.ender = "node"
            # A child that has not yet come to its setsid is no group; the signal awaits it.
            target = -self.main if _signal(-self.main, 0) else self.main
            _signal(target, signal.SIGTERM)
            _signal(target, signal.SIGCONT)  # a stopped process could not react
        return None

    def _kill(self, ender: str) -> None:
        self.kill_at = 0
        if self.ended is None:
            self.ender = self.ender or ender

    def _group_is_gone(self) -> bool:
        """Whether nothing is left that deserves the rest of the grace.

        A shell that is told to stop ends before the program it waits for, which was told as well
        and is still tidying up; without a stop nothing may outlive the command.
        """
        return self.ended is not None and not (self.stopping and _signal(-self.main, 0))

    def _reap(self) -> bool:
        """Whether no child is left, which proves that no descendant is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.main:
                self.ended = _describe_end(status)
                self.ended["cpu_seconds"] = f"{usage.ru_utime + usage.ru_stime:.6f}"
                self.ended["max_rss_kib"] = usage.ru_maxrss

    def _end_family(self) -> int:
        """Kill until nothing is left; the number of processes that would not die in time."""
        poll = select.poll()
        poll.register(self.child_signal, select.POLLIN)
        give_up_at = time.monotonic() + _PATIENCE
        survivors = 0
        if sys.platform != "linux":  # orphans went elsewhere: their group is all that is known
            _signal(-self.main, signal.SIGKILL)
        while not self._reap():
            if time.monotonic() >= give_up_at:
                return survivors
            if self.ended is None:
                _signal(-self.main, signal.SIGKILL)
            survivors = max(1, _sweep())
            _poll(poll, 0.01)
            _drain(self.child_signal)
        return 0

    def _result(self) -> dict[str, object]:
        try:
            error = unpack_status(os.read(self.report, STATUS_LIMIT))
        except BlockingIOError:  # a survivor that never came to its exec
            error = {}
        result = error or self.ended or {"error": "the command could not be ended"}
        return {**result, "ended_by": self.ender} if self.ender else {**result}


def _describe_end(status: int) -> dict[str, object]:
    code = os.waitstatus_to_exitcode(status)
    return {"exit": code} if code >= 0 else {"signal": -code}


def _supervise(fds: Sequence[int], spawner_alive: int) -> NoReturn:
    """The whole life of a supervisor; it must never return into the spawner's loop."""
    code = 1
    try:
        code = _Supervisor(fds, spawner_alive).run()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


# ------------------------------------------------------------ the spawner


class _Ward:
    """A supervisor as the spawner sees it: where its run's status goes, and who ended it."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.ender: str | None = None


class _Spawner:
    """Serves one node: starts, leases, and the end of everything when the node is gone."""

    def __init__(self, node: socket.socket) -> None:
        self.node = node
        self.wards: dict[int, _Ward] = {}
        self.owed: list[tuple[int, dict[str, object]]] = []  # told once their families are gone
        self.lease_ends = math.inf
        self.looks_for_strays = 0
        self.strays_since = 0.0
        # Only the spawner holds the writing end, so its death is the end of the pipe.
        self.alive, self._alive_writer = os.pipe()
        self.child_signal = _wake_on_child()
        self.poll = select.poll()
        for fd in (node.fileno(), self.child_signal, *_watch_parent()):
            self.poll.register(fd, select.POLLIN)

    def serve(self) -> None:
        self.node.send(MESSAGE.pack(READY, 0.0))
        while self.step():
            pass
        self._end_all("spawner")
        poll = select.poll()
        poll.register(self.child_signal, select.POLLIN)
        give_up_at = time.monotonic() + _PATIENCE
        while (self.wards or self.looks_for_strays) and time.monotonic() < give_up_at:
            _poll(poll, 0.01)
            self._look_after_children()

    def step(self) -> bool:
        """Wait for something to happen and act on it; False when the node is gone."""
        ready = _poll(self.poll, self._patience())
        if self.node.fileno() in ready and not self._receive():
            return False
        if ready - {self.node.fileno(), self.child_signal}:
            return False
        if self.wards and self._lease_is_over():
            self._end_all("lease")
        self._look_after_children()
        return True

    def _patience(self) -> float:
        if self.looks_for_strays and not self._strays_persist():
            return 0.01
        if self.wards and self.lease_ends < math.inf:
            # Poll's own clock stands still while the machine is suspended, the lease does not.
            return min(1.0, self.lease_ends - lease_clock())
        return 1.0 if self.looks_for_strays else math.inf

    def _strays_persist(self) -> bool:
        """They cannot be killed (sudo, a dead disk): no reason to hurry or to hold a status."""
        return time.monotonic() >= self.strays_since + _PATIENCE

    def _lease_is_over(self) -> bool:
        return lease_clock() >= self.lease_ends

    def _receive(self) -> bool:
        cloexec = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        try:
            message, fds, _, _ = socket.recv_fds(self.node, MESSAGE.size, FDS_PER_START, cloexec)
        except ConnectionError:
            return False
        if len(message) != MESSAGE.size:
            return False
        word, value = MESSAGE.unpack(message)
        if word == LEASE:
            self.lease_ends = value
        elif len(fds) == FDS_PER_START:
            self._start(fds)
        else:  # out of descriptors: the node sees its status pipe end without a word
            for fd in fds:
                os.close(fd)
        return True

    def _start(self, fds: list[int]) -> None:
        request, stdout, stderr, status, lifeline = fds
        try:
            self._fork_supervisor(fds, status)
        except OSError as error:
            self._report(status, {"error": f"cannot fork: {error.strerror}"})
        finally:
            for fd in (request, stdout, stderr, lifeline):
                os.close(fd)

    def _fork_supervisor(self, fds: list[int], status: int) -> None:
        if self._lease_is_over():
            return self._report(status, {"ended_by": "lease"})
        pid = os.fork()
        if pid == 0:
            _supervise(fds, self.alive)
        self.wards[pid] = _Ward(status)
        return None

    def _report(self, status: int, fields: Mapping[str, object]) -> None:
        _write_status(status, fields)
        os.close(status)

    def _end_all(self, ender: str) -> None:
        """Without their supervisors all families become strays, and strays are swept."""
        for pid, ward in self.wards.items():
            ward.ender = ward.ender or ender
            _signal(pid, signal.SIGKILL)

    def _look_after_children(self) -> None:
        _drain(self.child_signal)
        self._reap()
        if self.looks_for_strays:
            # The kernel's list may skip one entry while others vanish: look twice.
            self.looks_for_strays = 2 if _sweep(spared=self.wards) else self.looks_for_strays - 1
            self._reap()
        if not self.looks_for_strays or self._strays_persist():
            self._pay_owed()

    def _pay_owed(self) -> None:
        for status, fields in self.owed:
            self._report(status, fields)
        self.owed.clear()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._continue(pid)
            elif pid in self.wards:
                self._supervisor_ended(self.wards.pop(pid), os.waitstatus_to_exitcode(status))

    def _continue(self, pid: int) -> None:
        """A supervisor has no reason to stand still; a command may have tried to stop it."""
        if pid in self.wards:
            _signal(pid, signal.SIGCONT)

    def _supervisor_ended(self, ward: _Ward, code: int) -> None:
        if code == 0:
            return os.close(ward.status)
        self.strays_since = time.monotonic()
        self.looks_for_strays = 2
        if code == _LEFT_SURVIVORS:
            return os.close(ward.status)
        if ward.ender:
            self.owed.append((ward.status, {"ended_by": ward.ender}))
        else:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self.owed.append((ward.status, {"error": f"the run's supervisor ended with {how}"}))
        return None


def _watch_parent() -> list[int]:
    """A pidfd of the node: also true if a process it forked still holds its socket."""
    try:
        return [os.pidfd_open(os.getppid())]
    except (AttributeError, OSError):  # not Linux, or before 5.3: the socket has to do
        return []


def _fill_standard_fds() -> None:
    """A node that closed its stderr must not make a run's pipe take that number."""
    while (fd := os.open("/dev/null", os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def main(fd: int, user: str) -> None:
    _prctl(_PR_SET_DUMPABLE, 0)  # no command reads what this process, or a supervisor, knows
    _user.extend(read_user(user))
    _fill_standard_fds()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _ignored_signals.extend(n for n in _ALL_SIGNALS if signal.getsignal(n) is signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    os.set_inheritable(fd, False)
    _Spawner(socket.socket(fileno=fd)).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

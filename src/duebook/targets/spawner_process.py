"""The spawner process: starts commands for one node and ends every descendant they leave.

It uses only its node's socket, a lease and the processes below itself. It runs as a separate
program (`python -I -S spawner_process.py FD USER MARK`; USER is the user that runs the commands, as
UID:GID:GROUPS, or `-`; the mark shows others whose it is) and imports nothing of Duebook but
`vfork.py`, by its path. `spawner.py` and `supervisors.py` are the node's side, and share the few
definitions of the protocol below.

    node ── spawner ─┬─ supervisor ── command ── whatever the command starts
                     └─ supervisor ── command ── ...

The spawner forks a supervisor for each active run, and the supervisor starts the command. Both
are child subreapers: a process that loses its parent, however often it forks or calls setsid,
becomes a child of its run's supervisor, or of the spawner once that supervisor is gone. So "waitpid
knows no child" is proof that nothing is left. A supervisor that has this proof waits for the next
command, which the node sends to it directly; to fork it again would cost more than the command.
Each kind of end is noticed by some process:

    the command ends           its supervisor ends the rest of the family
    the node asks, or closes   the supervisor reads its channel
    the node dies              the spawner sees its socket close (or its pidfd become readable)
    the node stops             the spawner sees the lease run out
    the supervisor dies        the spawner inherits the family and ends it
    the supervisor is stopped  the spawner continues it
    the spawner dies           each supervisor sees the end of a pipe that only the spawner holds

On systems other than Linux no process inherits a family, so the spawner asks its supervisors to end
theirs, and processes that left the process group of their command are not found.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal without enums, which are slow
import ctypes
import math
import os
import select
import signal
import socket
import struct
import sys
import time
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import NoReturn

    from duebook.targets.vfork import VFork

# ------------------------------------------------------------ the words shared with the node

MESSAGE = struct.Struct(
    "=cd"
)  # to the spawner; one size, so that the socket's kind does not matter
SUPERVISE, LEASE, READY = b"N", b"L", b"R"  # the first has a descriptor: the channel

CALL = struct.Struct("=cdI")  # on a channel, to the supervisor: a word, a value, a size
START = b"S"  # until when the lease lasts, and the size of the request, which follows
STOP, KILL, END = b"T", b"K", b"E"  # STOP: within that grace, by the signal whose number follows;
# END: no command comes any more
FDS_PER_START = 3  # stdout, stderr, and stdin for a command that is given something to read

STATUS_LIMIT = 4096
WAITS = b"\0"  # ends the status that is written by a supervisor which waits for another command

# Also counts while the machine is suspended, as the database's clock does; all processes of a
# machine read the same value, so a deadline can be sent as it is.
_LEASE_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def lease_clock() -> float:
    return time.clock_gettime(_LEASE_CLOCK)


class Request(NamedTuple):
    """The command to start."""

    argv: list[bytes]
    variables: list[bytes]
    """each as NAME=value"""
    cwd: bytes | None = None
    as_node: bool = False
    """whether it is part of the node, and so runs as the node's user"""

    @property
    def env(self) -> dict[bytes, bytes]:
        pairs = (variable.partition(b"=") for variable in self.variables)
        return {name: value for name, _, value in pairs}


def pack_request(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, as_node: bool
) -> bytes:
    """NUL-separated, since no part of an exec may contain one: nothing is ever parsed again."""
    head = (str(len(argv)), "node" if as_node else "", cwd or "")
    variables = [f"{name}={value}" for name, value in env.items()]
    return os.fsencode("\0".join([*head, *argv, *variables]))


def unpack_request(packed: bytes) -> Request:
    count, who, cwd, *parts = packed.split(b"\0")
    argv, variables = parts[: int(count)], parts[int(count) :]
    return Request(argv, variables, cwd or None, who == b"node")


def pack_status(fields: Mapping[str, object]) -> bytes:
    """One field per line; shortened, so that it arrives as a whole."""
    lines = (f"{key}={str(value).replace(chr(10), ' ')[:500]}\n" for key, value in fields.items())
    return "".join(lines).encode("utf-8", "backslashreplace")[:STATUS_LIMIT]


def unpack_status(status: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in status.decode(errors="replace").split("\n") if line)
    return {key: value for key, _, value in pairs}


# ------------------------------------------------------------ processes below this one

_LEFT_SURVIVORS = 3  # a supervisor's exit code: status written, but something would not die
_PATIENCE = 5.0  # seconds within which a killed process should be gone


def _prctl_words(option: int, value: int) -> tuple[object, ...]:
    argument = ctypes.c_ulong
    return option, argument(value), argument(0), argument(0), argument(0)


def _prctl(words: tuple[object, ...]) -> None:
    """Does nothing on systems other than Linux, where only process groups can be ended."""
    if sys.platform == "linux":
        _LIBC.prctl(*words)


_LIBC = ctypes.CDLL(None)
_DIE_WITH_PARENT = _prctl_words(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
_HIDE_MEMORY = _prctl_words(4, 0)  # PR_SET_DUMPABLE
_ADOPT_ORPHANS = _prctl_words(36, 1)  # PR_SET_CHILD_SUBREAPER
_ASKS = {"lease": signal.SIGUSR1, "spawner": signal.SIGUSR2}  # to supervisors, without Linux
_KERNEL_LISTS_CHILDREN = os.access(f"/proc/self/task/{os.getpid()}/children", os.R_OK)


def _read_file(path: str) -> bytes:
    """The whole file, or nothing if the process that it describes has ended."""
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
        return os.listdir(path)  # noqa: PTH208  (pathlib would double the startup time)
    except OSError:
        return []


def _family_facts(pid: int) -> tuple[int, int] | None:
    """Parent and process group of `pid`, or None if it has ended."""
    fields = _read_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return (int(fields[1]), int(fields[2])) if fields else None


def _listed_children(pid: int) -> list[int]:
    """A child belongs to the thread that forked it, so the children of every thread are read."""
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

    A family that forks in the meantime can escape one scan, but not the next ones: see `_sweep`.
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
    """Send SIGKILL to all processes below this one except `spared`; return how many there were.

    Whole process groups are killed: unlike a walk from process to process, that is atomic with
    respect to fork. Each command has its own session, which nothing outside of it can join, so the
    group of a descendant holds only descendants. Repeat until waitpid finds no child.
    """
    family = _descendants(spared)
    relatives = {os.getpid(), *family}
    killed = {os.getpgrp()}  # a supervisor's child is in its group until it has called setsid
    for pid in family:
        facts = _family_facts(pid)
        if facts is None or facts[0] not in relatives:
            continue  # ended, and its number may already belong to another process
        if facts[1] == os.getpgrp():
            _send_signal(pid, signal.SIGKILL)
        elif facts[1] not in killed:
            killed.add(facts[1])
            _send_signal(-facts[1], signal.SIGKILL)
    return len(family)


def _send_signal(pid: int, number: int) -> bool:
    """Whether the process existed; a negative pid is a process group, as for kill(2)."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it exists, but runs as another user (sudo)
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


def _write_status(fd: int, fields: Mapping[str, object], end: bytes = b"") -> None:
    try:  # noqa: SIM105  (contextlib is not worth its import here)
        os.write(fd, pack_status(fields) + end)
    except OSError:
        pass  # the node no longer listens


_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_FD = struct.Struct("=i")


def _receive(source: socket.socket, size: int, most_fds: int) -> tuple[bytes, list[int]]:
    """A message with its descriptors, which no command inherits (`recv_fds` ignores its flags);
    shorter than `size` if the other end has closed."""
    room = socket.CMSG_SPACE(most_fds * _FD.size)
    message, notes, _, _ = source.recvmsg(size, room, _CLOEXEC)
    fds = [fd for _, _, data in notes for (fd,) in _FD.iter_unpack(data)]
    for fd in () if _CLOEXEC else fds:
        os.set_inheritable(fd, False)
    return message, fds


def _receive_all(source: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes, or fewer if the other end has closed."""
    pieces = []
    while size > 0 and (piece := source.recv(min(size, 1_048_576))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _start_is_unread(channel: socket.socket) -> bool:
    """Whether a command was sent that will not be started; from now on none can be sent."""
    try:
        channel.shutdown(socket.SHUT_RD)
        return channel.recv(CALL.size, socket.MSG_DONTWAIT)[:1] == START
    except OSError:
        return False


# ------------------------------------------------------------ the command


class User(NamedTuple):
    """The user that runs the commands."""

    uid: int
    gid: int
    groups: list[int]


_user: list[User] = []  # at most one; set once, by main()


def read_user(text: str) -> list[User]:
    if text == "-":
        return []
    uid, gid, groups = text.split(":")
    return [User(int(uid), int(gid), [int(group) for group in groups.split(",")])]


def _become(user: User) -> None:
    """Change all ids and groups for good; root loses its capabilities by this."""
    for fd in (1, 2):
        os.fchown(fd, user.uid, user.gid)  # otherwise it could not open /dev/stdout
    os.setgroups(user.groups)
    os.setgid(user.gid)
    os.setuid(user.uid)


_ignored_signals: list[int] = []  # determined once, by main()


_vfork: list[VFork] = []  # at most one; determined once, by main()


def _start_command(
    request: Request, fds: tuple[int, int, int], home: int | None, stdin: int = -1
) -> int:
    """Start a command with this stdout and stderr; an error is written to the third descriptor.

    `home` is the directory of this process, if it can return there. Raises OSError if no process
    can be created for the command.
    """
    user = None if request.as_node or not _user else _user[0]
    programs = _programs(request)
    comes_back = request.cwd is None or home is not None
    quickly = user is None and comes_back and stdin < 0
    vfork = _vfork[0] if _vfork and quickly else None
    if vfork is not None:
        vfork.prepare(programs, request.argv, request.variables, fds[0], fds[1])
    # A SIGTERM that comes soon is delivered to the child once its action is the default one, and
    # not lost to the spawner's SIG_IGN.
    _signal.pthread_sigmask(signal.SIG_BLOCK, _ignored_signals)
    try:
        pid = None if vfork is None else _vfork_command(vfork, request.cwd, home)
        if pid is None:  # also after a failure: this attempt finds the reason
            pid = os.fork()
        if pid == 0:
            _become_command(request, programs, user, fds, stdin)
        return pid
    finally:
        _signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _programs(request: Request) -> list[bytes]:
    """Possible paths of the program, the likeliest first."""
    name = request.argv[0]
    if b"/" in name:
        return [name]
    folders = request.env.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    return [os.path.join(folder, name) for folder in folders]  # noqa: PTH118


def _vfork_command(vfork: VFork, cwd: bytes | None, home: int | None) -> int | None:
    """None if it could not be started. This process does in advance what its child cannot do."""
    try:
        if cwd is not None:
            os.chdir(cwd)
        for number in _ignored_signals:
            _signal.signal(number, _signal.SIG_DFL)
        return vfork.start()
    except OSError:
        return None
    finally:
        for number in _ignored_signals:
            _signal.signal(number, _signal.SIG_IGN)
        if cwd is not None and home is not None:
            os.fchdir(home)


def _become_command(
    request: Request,
    programs: list[bytes],
    user: User | None,
    fds: tuple[int, int, int],
    stdin: int,
) -> NoReturn:
    """Runs in the child. Every page that is touched here is copied first, so it does little: what
    can be known before the fork was determined there, and all descriptors close on exec."""
    stdout, stderr, report = fds
    problem = "cannot prepare the command"
    try:
        os.setsid()
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        if stdin >= 0:
            os.dup2(stdin, 0)
        if user is not None:
            problem = f"cannot switch to user {user.uid}"
            _become(user)
        _prctl(_DIE_WITH_PARENT)  # only now: changing the user resets it
        for number in _ignored_signals:
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if request.cwd is not None:
            problem = f"cannot enter the directory {os.fsdecode(request.cwd)}"
            os.chdir(request.cwd)
        problem = "cannot start"
        _exec(programs, request)
    except OSError as error:
        if problem == "cannot start":
            problem += f" {os.fsdecode(request.argv[0])}"
        _write_status(report, {"error": f"{problem}: {error.strerror}"})
    finally:
        os._exit(127)


def _exec(programs: list[bytes], request: Request) -> None:
    """Raises the error of the first program that exists and cannot be started, as a shell does.

    No shell is involved: argv stays data.
    """
    env = request.env
    found: OSError | None = None
    for program in programs:
        try:
            os.execve(program, request.argv, env)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError) as error:
            last = error
        except OSError as error:
            found = found or error
    raise found or last


# ------------------------------------------------------------ the supervisor of a run


class _Call(NamedTuple):
    """A message from the node to a supervisor."""

    word: bytes
    value: float = 0.0
    request: bytes = b""
    stdout: int = -1
    stderr: int = -1
    stdin: int = -1
    """none: the standard input of the command is empty"""


def _open_home() -> int | None:
    """The directory of this process; None if its user may not enter it."""
    try:
        return os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC)
    except OSError:
        return None


class _Supervisor:
    """Starts one command after another, and ends the whole family of each."""

    def __init__(self, channel: socket.socket, spawner_alive: int) -> None:
        self.channel = channel
        self.spawner_alive = spawner_alive
        self.asked: str | None = None  # why the spawner has asked to end everything

    def run(self) -> int:
        os.setsid()
        _prctl(_ADOPT_ORPHANS)
        signal.set_wakeup_fd(-1)
        _close_all_but([self.channel.fileno(), self.spawner_alive])
        self.child_signal = _wake_on_child()
        if sys.platform != "linux":
            for ender, number in _ASKS.items():
                signal.signal(number, lambda *_, ender=ender: setattr(self, "asked", ender))
        self.report, self.report_writer = os.pipe()
        os.set_blocking(self.report, False)
        self.home = _open_home()
        self.poll = select.poll()
        for fd in (self.channel.fileno(), self.spawner_alive, self.child_signal):
            self.poll.register(fd, select.POLLIN)
        while (start := self._next_start()).word == START:
            status = self._perform(start)
            survivors = status.get("survivors")
            _write_status(self.channel.fileno(), status, b"" if survivors else WAITS)
            # Not earlier: the end of the output would wake the node just before the status does.
            for fd in start[3:]:
                if fd >= 0:
                    os.close(fd)
            if survivors:
                return _LEFT_SURVIVORS
        return 0

    def _next_start(self) -> _Call:
        """The next start, or END if the node or the spawner has closed its end.

        A STOP or KILL between two commands was meant for the first, which had ended.
        """
        while True:
            ready = _poll(self.poll, math.inf) if self.asked is None else ()
            if self.asked is not None or self.spawner_alive in ready:
                if _start_is_unread(self.channel):
                    _write_status(self.channel.fileno(), {"ended_by": self.asked or "spawner"})
                return _Call(END)
            if self.channel.fileno() in ready:
                call = self.hear()
                if call.word in (START, END):
                    return call
            _drain(self.child_signal)

    def hear(self) -> _Call:
        """The next message of the node; END also if it has closed its end."""
        try:
            head, fds = _receive(self.channel, CALL.size, FDS_PER_START)
            word, value, size = CALL.unpack(head) if len(head) == CALL.size else (END, 0.0, 0)
            request = _receive_all(self.channel, size)
        except ConnectionError:
            return _Call(END)
        count = len(fds) in (FDS_PER_START - 1, FDS_PER_START) if word == START else not fds
        is_whole = len(request) == size and count
        if not is_whole:  # the node has died in the meantime, or there were no descriptors
            for fd in fds:
                os.close(fd)
            return _Call(END)
        return _Call(word, value, request, *fds)

    def _perform(self, start: _Call) -> dict[str, object]:
        family = _Family(self)
        try:
            if lease_clock() >= start.value:
                return {"ended_by": "lease"}
            family.start(start)
        except OSError as error:
            return {"error": f"cannot fork: {error.strerror}"}
        return family.follow()


class _Family:
    """A command with everything that it starts, from its start until nothing is left of it."""

    def __init__(self, supervisor: _Supervisor) -> None:
        self.supervisor = supervisor
        self.main = 0
        self.ended: dict[str, object] | None = None  # how the command itself ended
        self.ender: str | None = None  # what ended it, if it did not end on its own
        self.kill_at = math.inf
        self.stopping = False

    def start(self, start: _Call) -> None:
        fds = (start.stdout, start.stderr, self.supervisor.report_writer)
        request, home = unpack_request(start.request), self.supervisor.home
        self.main = _start_command(request, fds, home, start.stdin)

    def follow(self) -> dict[str, object]:
        """Wait until nothing is left that could be ended; returns how the command ended."""
        self._watch()
        survivors = self._end()
        result = self._result()
        return {**result, "survivors": survivors} if survivors else result

    def _watch(self) -> None:
        """Wait until the rest of the family may be killed, or nothing of it is left."""
        supervisor = self.supervisor
        while time.monotonic() < self.kill_at:
            ready = _poll(supervisor.poll, self._patience())
            if supervisor.child_signal in ready:
                _drain(supervisor.child_signal)
            if self._reap():  # first: a command that has ended was not stopped by what follows
                return
            if supervisor.asked is not None:
                self._kill(supervisor.asked)
            elif supervisor.spawner_alive in ready:
                self._kill("spawner")
            elif supervisor.channel.fileno() in ready:
                self._obey(supervisor.hear())
            if self._group_is_gone():
                return

    def _patience(self) -> float:
        """While stopping, the group may become empty without a signal to its supervisor."""
        left = self.kill_at - time.monotonic()
        return min(left, 0.02) if self.ended is not None else left

    def _obey(self, call: _Call) -> None:
        if call.word != STOP:
            return self._kill("node")
        self.kill_at = min(self.kill_at, time.monotonic() + call.value)
        if not self.stopping and self.ended is None:
            self.stopping = True
            self.ender = "node"
            # A child that has not yet called setsid has no group; the signal waits for it.
            target = -self.main if _send_signal(-self.main, 0) else self.main
            _send_signal(target, int(call.request or signal.SIGTERM))
            _send_signal(target, signal.SIGCONT)  # a stopped process could not react
        return None

    def _kill(self, ender: str) -> None:
        self.kill_at = 0
        if self.ended is None:
            self.ender = self.ender or ender

    def _group_is_gone(self) -> bool:
        """Whether nothing is left that needs the rest of the grace.

        A shell that is told to stop ends before the program it waits for, which also got the signal
        and is still cleaning up; without a stop nothing may outlive the command.
        """
        return self.ended is not None and not (self.stopping and _send_signal(-self.main, 0))

    def _reap(self) -> bool:
        """Whether no child is left, which proves that there are no descendants."""
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

    def _end(self) -> int:
        """Kill until nothing is left; returns the number of processes that did not die in time."""
        if sys.platform != "linux":  # orphans have another parent: their group is all that is known
            _send_signal(-self.main, signal.SIGKILL)
        if self._reap():
            return 0
        child_signal = self.supervisor.child_signal
        poll = select.poll()
        poll.register(child_signal, select.POLLIN)
        give_up_at = time.monotonic() + _PATIENCE
        survivors = 0
        while not self._reap():
            if time.monotonic() >= give_up_at:
                return survivors
            if self.ended is None:
                _send_signal(-self.main, signal.SIGKILL)
            survivors = max(1, _sweep())
            _poll(poll, 0.01)
            _drain(child_signal)
        return 0

    def _result(self) -> dict[str, object]:
        try:
            error = unpack_status(os.read(self.supervisor.report, STATUS_LIMIT))
        except BlockingIOError:  # it has reached its exec, or never will
            error = {}
        result = error or self.ended or {"error": "the command could not be stopped"}
        return {**result, "ended_by": self.ender} if self.ender else {**result}


def _describe_end(status: int) -> dict[str, object]:
    code = os.waitstatus_to_exitcode(status)
    return {"exit": code} if code >= 0 else {"signal": -code}


def _supervise(channel: socket.socket, spawner_alive: int) -> NoReturn:
    """The whole life of a supervisor; it must never return into the spawner's loop."""
    code = 1
    try:
        code = _Supervisor(channel, spawner_alive).run()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


# ------------------------------------------------------------ the spawner


class _Ward:
    """The spawner's view of a supervisor: its channel to the node, and what ended it."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.ender: str | None = None


class _Spawner:
    """Serves one node: starts commands, keeps the lease, and ends everything when the node is
    gone."""

    def __init__(self, node: socket.socket) -> None:
        self.node = node
        self.wards: dict[int, _Ward] = {}
        # reported once the families are gone
        self.owed: list[tuple[socket.socket, dict[str, object]]] = []
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
            # Poll's own clock stops while the machine is suspended, but the lease does not.
            return min(1.0, self.lease_ends - lease_clock())
        return 1.0 if self.looks_for_strays else math.inf

    def _strays_persist(self) -> bool:
        """Whether strays cannot be killed (sudo, a dead disk): they are then no reason to hurry, or
        to hold back a status."""
        return time.monotonic() >= self.strays_since + _PATIENCE

    def _lease_is_over(self) -> bool:
        return lease_clock() >= self.lease_ends

    def _receive(self) -> bool:
        try:
            message, fds = _receive(self.node, MESSAGE.size, 1)
        except ConnectionError:
            return False
        if len(message) != MESSAGE.size:
            return False
        word, value = MESSAGE.unpack(message)
        if word == LEASE:
            self.lease_ends = value
        for fd in fds:  # none when out of descriptors: the node sees its channel close silently
            self._start(socket.socket(fileno=fd))
        return True

    def _start(self, channel: socket.socket) -> None:
        if self._lease_is_over():
            return self._report(channel, {"ended_by": "lease"})
        try:
            pid = os.fork()
        except OSError as error:
            return self._report(channel, {"error": f"cannot fork: {error.strerror}"})
        if pid == 0:
            _supervise(channel, self.alive)
        self.wards[pid] = _Ward(channel)
        return None

    def _report(self, channel: socket.socket, fields: Mapping[str, object]) -> None:
        _write_status(channel.fileno(), fields)
        channel.close()

    def _end_all(self, ender: str) -> None:
        """End all commands. Without their supervisors all families become strays, which are swept;
        where strays are not inherited, each supervisor ends its own family."""
        number = signal.SIGKILL if sys.platform == "linux" else _ASKS[ender]
        for pid, ward in self.wards.items():
            ward.ender = ward.ender or ender
            _send_signal(pid, number)

    def _look_after_children(self) -> None:
        _drain(self.child_signal)
        self._reap()
        if self.looks_for_strays:
            # The kernel's list may skip one entry while others vanish: scan twice.
            self.looks_for_strays = 2 if _sweep(spared=self.wards) else self.looks_for_strays - 1
            self._reap()
        if not self.looks_for_strays or self._strays_persist():
            self._pay_owed()

    def _pay_owed(self) -> None:
        for channel, fields in self.owed:
            self._report(channel, fields)
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
        """A supervisor never stops by itself, but a command may have tried to stop it."""
        if pid in self.wards:
            _send_signal(pid, signal.SIGCONT)

    def _supervisor_ended(self, ward: _Ward, code: int) -> None:
        if code == 0:
            return ward.channel.close()
        self.strays_since = time.monotonic()
        self.looks_for_strays = 2
        if code == _LEFT_SURVIVORS:
            return ward.channel.close()
        is_unread = _start_is_unread(ward.channel)
        if ward.ender or is_unread:
            self.owed.append((ward.channel, {"ended_by": ward.ender or "spawner"}))
        else:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            told = f"the run's supervisor stopped with {how}"
            self.owed.append((ward.channel, {"error": told}))
        return None


def _watch_parent() -> list[int]:
    """A pidfd of the node: it reports the node's end even if a fork of it still holds the
    socket."""
    try:
        return [os.pidfd_open(os.getppid())]
    except (AttributeError, OSError):  # not Linux, or before 5.3: the socket has to suffice
        return []


def _fill_standard_fds() -> None:
    """Otherwise, if the node has closed its stderr, a run's pipe could get that number."""
    while (fd := os.open("/dev/null", os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def _load_vfork() -> VFork | None:
    """Load it from beside this file, whose directory contains names that no program should find."""
    path = f"{os.path.dirname(os.path.abspath(__file__))}/vfork.py"  # noqa: PTH100, PTH120
    module = ModuleType("vfork")
    found: VFork | None = None
    try:
        SourceFileLoader(module.__name__, path).exec_module(module)
        found = module.open_vfork()
    except OSError:  # it does not exist, or there is no process to try it in
        return None
    return found


def main(fd: int, user: str) -> None:
    _prctl(_HIDE_MEMORY)  # commands cannot read what this process, or a supervisor, has in memory
    _user.extend(read_user(user))
    _fill_standard_fds()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ignored = (n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN)
    _ignored_signals.extend(map(int, ignored))
    if (vfork := _load_vfork()) is not None:
        _vfork.append(vfork)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _prctl(_ADOPT_ORPHANS)
    os.set_inheritable(fd, False)
    _Spawner(socket.socket(fileno=fd)).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

"""Commands through the spawner, with real processes: their output, their end, their families."""

from __future__ import annotations

import gc
import math
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from duebook.errors import Invalid, Unavailable
from duebook.targets import spawner_process
from duebook.targets.command import perform_command
from duebook.targets.output_refs import OutputRefs
from duebook.targets.processes import Exit, Stop, supervise
from duebook.targets.spawner import Spawner, lease_clock
from duebook.targets.supervisors import open_channel
from tests.support.targets import claim_of
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.targets.supervisors import Process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="families are traced through /proc")

PATH = {"PATH": os.environ["PATH"]}
PYTHON = [sys.executable, "-I", "-S", "-c"]
GRACE = PATIENCE
"""Seconds; a run that took less has not waited for the end of it."""


@pytest.fixture(scope="module", params=["vfork", "fork"])
def shared(request: pytest.FixtureRequest) -> Iterator[Spawner]:
    """With both ways to start a command; without `vfork.py` beside it, a spawner forks."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if request.param == "fork":
            program = shutil.copy(spawner_process.__file__, folder)
            patch.setattr("duebook.targets.spawner._PROGRAM", Path(program))
        with Spawner() as spawner:
            yield spawner


@pytest.fixture
def own() -> Iterator[Spawner]:
    with Spawner() as spawner:
        yield spawner


@pytest.fixture
def mark() -> Iterator[str]:
    """A text by which the environment of a test's processes can be told from all others."""
    mark = f"duebook-test-{uuid.uuid4()}"
    yield mark
    for pid in marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """The processes that live (zombies have no environment) with `mark` in their environment."""
    return [pid for pid in pids() if mark.encode() in read(f"/proc/{pid}/environ")]


def pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def state(pid: int) -> str:
    return read(f"/proc/{pid}/stat").decode().rpartition(")")[2].split()[0]


def children_of(parent: int) -> list[int]:
    return [int(pid) for pid in read(f"/proc/{parent}/task/{parent}/children").split()]


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident() -> int:
    return int(read("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Run:
    """A command that is followed in the test's own thread; `stop_on` cancels it by its output, and
    with `ready` it is followed, and its timeout counts, once it has said something."""

    def __init__(self, spawner: Spawner, argv: list[str], **options: object) -> None:
        self.pieces: list[tuple[str, bytes]] = []
        self._stop_on = options.pop("stop_on", None)
        self._timeout = options.pop("timeout", None)
        self._grace = options.pop("grace", GRACE)
        ready = options.pop("ready", False)
        self._process = spawner.spawn(argv, **{"env": PATH, **options})  # type: ignore[arg-type]
        if ready:
            assert select.select([self._process.stdout], [], [], PATIENCE)[0]
        self._stop = Stop()
        started = time.monotonic()
        with self._stop:
            self.exit = self._follow()
        self.seconds = time.monotonic() - started

    def _follow(self) -> Exit:
        timeout, grace = self._timeout, self._grace
        assert timeout is None or isinstance(timeout, float)
        assert isinstance(grace, float)
        return supervise(self._process, self._take, self._stop, timeout, grace)

    def _take(self, stream: str, piece: bytes) -> None:
        self.pieces.append((stream, piece))
        if isinstance(self._stop_on, bytes) and self._stop_on in self.stdout:
            self._stop.set("cancelled")

    @property
    def stdout(self) -> bytes:
        return b"".join(piece for stream, piece in self.pieces if stream == "stdout")

    @property
    def stderr(self) -> bytes:
        return b"".join(piece for stream, piece in self.pieces if stream == "stderr")


# ------------------------------------------------------------ how a command starts and ends


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_an_exit_code_is_reported(shared: Spawner, code: int) -> None:
    exit_ = Run(shared, ["sh", "-c", f"exit {code}"]).exit
    assert (exit_.code, exit_.signal, exit_.error, exit_.stopped) == (code, None, None, None)


def test_death_by_a_signal_is_reported(shared: Spawner) -> None:
    exit_ = Run(shared, ["sh", "-c", "kill -SEGV $$"]).exit
    assert (exit_.code, exit_.signal, exit_.error) == (None, signal.SIGSEGV, None)


def test_what_a_command_used_is_reported(shared: Spawner) -> None:
    exit_ = Run(shared, [*PYTHON, "sum(range(3_000_000)); x = b'x' * 50_000_000"]).exit
    assert exit_.cpu_seconds is not None
    assert exit_.cpu_seconds > 0.01
    assert exit_.max_rss is not None
    assert exit_.max_rss > 50_000_000


def test_a_missing_program_is_an_error(shared: Spawner) -> None:
    assert Run(shared, ["no-such-program"]).exit == Exit(
        error="cannot start no-such-program: No such file or directory"
    )


def test_a_program_without_permission_is_an_error(shared: Spawner, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    assert Run(shared, [str(program)]).exit.error == f"cannot start {program}: Permission denied"


def test_a_missing_directory_is_an_error(shared: Spawner, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert Run(shared, ["true"], cwd=str(missing)).exit.error == (
        f"cannot enter the directory {missing}: No such file or directory"
    )


def test_a_command_runs_in_its_directory(shared: Spawner, tmp_path: Path) -> None:
    assert Run(shared, ["pwd", "-P"], cwd=str(tmp_path)).stdout.decode() == f"{tmp_path}\n"


def test_a_program_is_looked_up_in_the_given_path(shared: Spawner, tmp_path: Path) -> None:
    program = tmp_path / "greet"
    program.write_text("#!/bin/sh\necho hello")
    program.chmod(0o755)
    assert Run(shared, ["greet"], env={"PATH": str(tmp_path)}).stdout == b"hello\n"


def test_a_script_without_an_interpreter_is_not_given_to_a_shell(
    shared: Spawner, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("echo hello")
    program.chmod(0o755)
    assert Run(shared, [str(program)]).exit.error == f"cannot start {program}: Exec format error"


def test_stdin_is_empty(shared: Spawner) -> None:
    assert Run(shared, ["cat"], timeout=PATIENCE).exit.code == 0


def test_the_environment_is_passed_exactly(shared: Spawner) -> None:
    env = {"A": "1", "EMPTY": "", "EQUALS": "a=b", "LINES": "a\nb", "RAW": "\udcff", "é": "ü"}
    run = Run(shared, ["/usr/bin/env", "-0"], env=env)
    assert sorted(run.stdout.rstrip(b"\0").split(b"\0")) == sorted(
        os.fsencode(f"{key}={value}") for key, value in env.items()
    )


def test_arguments_never_go_through_a_shell(shared: Spawner) -> None:
    arguments = ["$(id)", "`id`", "; id", "a b", "'\"", "*", "-o", "", "new\nline", "\udcff"]
    run = Run(shared, ["printf", "%s\\0", *arguments])
    assert run.stdout.split(b"\0")[:-1] == [os.fsencode(text) for text in arguments]


def test_a_megabyte_of_arguments_and_environment_is_passed(shared: Spawner) -> None:
    arguments = ["x" * 100_000] * 5
    env = {**PATH, **{f"V{n}": "y" * 100_000 for n in range(5)}}
    run = Run(shared, ["sh", "-c", 'echo "${#1} ${#5} ${#V4}"', "sh", *arguments], env=env)
    assert run.stdout == b"100000 100000 100000\n"


@pytest.mark.parametrize(
    ("argv", "env"),
    [([], {}), ([""], {}), (["a\0b"], {}), (["true"], {"A": "\0"}), (["true"], {"A=B": "c"})],
)
def test_what_no_program_can_be_given_is_refused(
    shared: Spawner, argv: list[str], env: dict[str, str]
) -> None:
    with pytest.raises(Invalid):
        shared.spawn(argv, env)


def test_signals_are_as_a_program_expects_them(shared: Spawner) -> None:
    status = Run(shared, ["cat", "/proc/self/status"]).stdout.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    of_libc = 0b11 << 31  # 32 and 33 are its own: make may leave one ignored, nobody can reset it
    assert int(fields["SigBlk"], 16) == 0
    assert int(fields["SigIgn"], 16) & ~of_libc == 0


def test_a_command_inherits_no_descriptor_but_the_three(shared: Spawner) -> None:
    run = Run(shared, [*PYTHON, "import os; print(sorted(os.listdir('/proc/self/fd')))"])
    assert run.stdout == b"['0', '1', '2', '3']\n"  # 3 is the directory that is being listed


# ------------------------------------------------------------ output


def test_stdout_and_stderr_come_as_they_are_written(shared: Spawner) -> None:
    script = """
        import os
        for number in range(200):
            os.write(1 + number % 2, b"%d\\n" % number)
    """
    run = Run(shared, [*PYTHON, textwrap.dedent(script)])
    assert run.stdout.split() == [b"%d" % number for number in range(0, 200, 2)]
    assert run.stderr.split() == [b"%d" % number for number in range(1, 200, 2)]


def test_output_is_delivered_before_the_command_ends(shared: Spawner) -> None:
    assert Run(shared, ["sh", "-c", "echo ready; sleep 1000"], stop_on=b"ready").seconds < GRACE


def test_much_output_is_complete_and_needs_little_memory(shared: Spawner) -> None:
    sizes: list[int] = []
    before, most = resident(), 0

    def take(_stream: str, piece: bytes) -> None:
        nonlocal most
        sizes.append(len(piece))
        most = max(most, resident())

    process = shared.spawn(["head", "-c", "50000000", "/dev/zero"], PATH)
    with Stop() as stop:
        assert supervise(process, take, stop, None, 1.0).code == 0
    assert sum(sizes) == 50_000_000
    assert max(sizes) <= 65_536
    assert most - before < 10_000_000


def test_a_flood_is_stopped_in_time(shared: Spawner) -> None:
    before, most = resident(), 0

    def take(_stream: str, _piece: bytes) -> None:
        nonlocal most
        most = max(most, resident())

    with Stop() as stop:
        exit_ = supervise(shared.spawn(["yes"], PATH), take, stop, 0.3, GRACE)
    assert (exit_.signal, exit_.stopped) == (signal.SIGTERM, "timeout")
    assert most - before < 10_000_000


def test_an_error_in_the_consumer_kills_the_command(shared: Spawner, mark: str) -> None:
    def refuse(_stream: str, _piece: bytes) -> None:
        raise ConnectionError("the log is full")

    process = shared.spawn(["sh", "-c", "echo x; sleep 1000"], {**PATH, "MARK": mark})
    with Stop() as stop, pytest.raises(ConnectionError):
        supervise(process, refuse, stop, None, 60.0)
    eventually(lambda: not marked(mark))


# ------------------------------------------------------------ stop, timeout, families

DOUBLE_FORK = """
    import os, signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            print("ready", flush=True)
            signal.pause()
        os._exit(0)
    signal.pause()
"""
COMETS = """
    import os, signal
    def fly():
        os.setsid()
        while True:
            if os.fork():
                os._exit(0)
    for _ in range(3):
        if os.fork() == 0:
            fly()
    print("ready", flush=True)
    signal.pause()
"""
DEEP = 'if [ "$1" = 0 ]; then echo ready; else sh -c "$0" "$0" $(($1 - 1)); fi; sleep 1000'
FAMILIES = {
    "a double-forked daemon that ignores SIGTERM": [*PYTHON, textwrap.dedent(DOUBLE_FORK)],
    "processes that fork and exit all the time": [*PYTHON, textwrap.dedent(COMETS)],
    "setsid and nohup": [
        "sh",
        "-c",
        "nohup sleep 1000 >/dev/null & setsid nohup sleep 1000 & echo ready; wait",
    ],
    "a stopped process": ["sh", "-c", "sleep 1000 & kill -STOP $!; echo ready; wait"],
    "a deep family": ["sh", "-c", DEEP, DEEP, "12"],
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cancel_ends_all_of(shared: Spawner, mark: str, family: str) -> None:
    run = Run(shared, FAMILIES[family], env={**PATH, "MARK": mark}, stop_on=b"ready", grace=0.2)
    assert run.exit.stopped == "cancelled"
    assert run.exit.survivors == 0
    assert marked(mark) == []
    assert run.seconds < GRACE


@pytest.mark.parametrize("family", FAMILIES)
def test_a_kill_without_grace_ends_all_of(shared: Spawner, mark: str, family: str) -> None:
    run = Run(shared, FAMILIES[family], env={**PATH, "MARK": mark}, stop_on=b"ready", grace=0.0)
    assert (run.exit.signal, run.exit.stopped) == (signal.SIGKILL, "cancelled")
    assert marked(mark) == []


def test_a_timeout_stops_the_command(shared: Spawner) -> None:
    run = Run(shared, ["sleep", "1000"], timeout=0.1)
    assert (run.exit.signal, run.exit.stopped) == (signal.SIGTERM, "timeout")
    assert run.seconds < GRACE


def test_a_timeout_kills_what_ignores_the_stop(shared: Spawner) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 1000; done"
    run = Run(shared, ["sh", "-c", script], ready=True, timeout=0.1, grace=0.2)
    assert (run.exit.signal, run.exit.stopped) == (signal.SIGKILL, "timeout")
    assert run.seconds < GRACE


def test_a_command_that_handles_sigterm_ends_in_order(shared: Spawner) -> None:
    script = "trap 'echo tidy; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    run = Run(shared, ["sh", "-c", script], stop_on=b"ready")
    assert (run.exit.code, run.exit.stopped) == (7, "cancelled")
    assert run.stdout == b"ready\ntidy\n"


def test_the_grace_also_covers_the_program_a_shell_waits_for(shared: Spawner) -> None:
    """The shell dies of the SIGTERM at once; the program below it gets time to tidy up."""
    program = "trap 'sleep 0.2; echo tidy; exit' TERM; echo ready; while :; do sleep 0.01; done"
    run = Run(shared, ["sh", "-c", 'sh -c "$0"; true', program], stop_on=b"ready")
    assert run.exit.signal == signal.SIGTERM
    assert run.stdout == b"ready\ntidy\n"
    assert run.seconds < GRACE


def test_a_run_that_ended_by_itself_was_not_stopped(shared: Spawner) -> None:
    process = shared.spawn(["true"], PATH)
    with Stop() as stop:
        assert select.select([process.status], [], [], PATIENCE)[0]
        stop.set("too late")
        exit_ = supervise(process, lambda _stream, _piece: None, stop, 0.0, 1.0)
    assert (exit_.code, exit_.stopped) == (0, None)


def test_a_stop_before_the_start_is_not_lost(shared: Spawner) -> None:
    with Stop() as stop:
        stop.set("first")
        stop.set("second")
        process = shared.spawn(["sleep", "1000"], PATH)
        exit_ = supervise(process, lambda _stream, _piece: None, stop, None, 30.0)
    assert (exit_.signal, exit_.stopped) == (signal.SIGTERM, "first")


def test_what_a_command_leaves_behind_ends_with_it(shared: Spawner, mark: str) -> None:
    script = "sleep 1000 & setsid sleep 1000 & nohup sleep 1000 2>/dev/null & echo done"
    run = Run(shared, ["sh", "-c", script], env={**PATH, "MARK": mark})
    assert (run.exit.code, run.exit.stopped) == (0, None)
    assert run.stdout == b"done\n"
    assert marked(mark) == []
    assert run.seconds < GRACE


def test_an_outside_holder_of_the_pipe_blocks_nobody(shared: Spawner) -> None:
    process = shared.spawn(["sh", "-c", "echo said; read line < /dev/null"], PATH)
    held = os.open(f"/proc/self/fd/{process.stdout}", os.O_WRONLY)
    pieces: list[bytes] = []
    try:
        with Stop() as stop:
            exit_ = supervise(process, lambda _s, piece: pieces.append(piece), stop, PATIENCE, 1.0)
    finally:
        os.close(held)
    assert exit_.stopped is None
    assert pieces == [b"said\n"]


def test_a_command_that_kills_its_supervisor_dies_too(shared: Spawner, mark: str) -> None:
    script = "setsid sleep 1000 & sh -c 'sleep 1000' & kill -9 $PPID; sleep 1000"
    run = Run(shared, ["sh", "-c", script], env={**PATH, "MARK": mark})
    assert run.exit == Exit(error="the run's supervisor stopped with signal 9")
    assert marked(mark) == []


def test_a_command_cannot_stop_its_supervisor(shared: Spawner, mark: str) -> None:
    script = "kill -STOP $PPID; echo ready; sleep 1000"
    run = Run(shared, ["sh", "-c", script], env={**PATH, "MARK": mark}, stop_on=b"ready")
    assert run.exit.stopped == "cancelled"
    assert run.seconds < GRACE


def test_fifty_commands_at_once(shared: Spawner, mark: str) -> None:
    def sleep(number: int) -> Run:
        script = f"sleep 1000 & echo ready {number}; wait"
        env = {**PATH, "MARK": mark}
        return Run(shared, ["sh", "-c", script], env=env, stop_on=b"\n", timeout=PATIENCE)

    with ThreadPoolExecutor(50) as pool:
        runs = list(pool.map(sleep, range(50)))
    assert [run.stdout for run in runs] == [b"ready %d\n" % number for number in range(50)]
    assert {run.exit.stopped for run in runs} == {"cancelled"}
    assert marked(mark) == []


def test_nothing_is_left_of_a_hundred_runs(own: Spawner) -> None:
    assert own._process is not None
    spawner = own._process.pid
    gc.collect()  # what former tests have left
    mine, its = open_files(os.getpid()), open_files(spawner)
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: Run(own, ["sh", "-c", "sleep 9 &"]), range(100)))
    assert {run.exit.code for run in runs} == {0}
    own.tidy(longest_idle=0.0)  # as a node does, with supervisors that wait for another command
    eventually(lambda: open_files(os.getpid()) <= mine)
    eventually(lambda: open_files(spawner) == its)
    eventually(lambda: not children_of(spawner))  # zombies would still be among them


# ------------------------------------------------------------ supervisors that wait


def supervisors(spawner: Spawner) -> list[int]:
    assert spawner._process is not None
    return children_of(spawner._process.pid)


@contextmanager
def stopped(spawner: Spawner) -> Iterator[None]:
    """While the spawner cannot do anything."""
    assert spawner._process is not None
    os.kill(spawner._process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(spawner._process.pid, signal.SIGCONT)


def follow(process: Process) -> Exit:
    with Stop() as stop:
        return supervise(process, lambda _stream, _piece: None, stop, PATIENCE, GRACE)


def test_one_supervisor_serves_command_after_command(own: Spawner, tmp_path: Path) -> None:
    Run(own, ["true"])
    (supervisor,) = supervisors(own)
    scripts = ["exit 3", "kill -SEGV $$", "setsid sleep 1000 & exit 0", "pwd; echo oh >&2"]
    runs = [Run(own, ["sh", "-c", script], cwd=str(tmp_path)) for script in scripts]
    assert [run.exit.code for run in runs] == [3, None, 0, 0]
    assert (runs[-1].stdout, runs[-1].stderr) == (f"{tmp_path}\n".encode(), b"oh\n")
    assert Run(own, ["no-such-program"]).exit.error is not None
    assert Run(own, ["pwd"]).stdout.decode() == f"{Path.cwd()}\n"
    assert supervisors(own) == [supervisor]


def test_a_supervisor_that_had_to_kill_serves_the_next_command(own: Spawner, mark: str) -> None:
    env = {**PATH, "MARK": mark}
    family = FAMILIES["a double-forked daemon that ignores SIGTERM"]
    assert Run(own, family, env=env, stop_on=b"ready", grace=0.2).exit.stopped == "cancelled"
    (supervisor,) = supervisors(own)
    exit_ = Run(own, ["true"]).exit
    assert (exit_.code, exit_.stopped) == (0, None)
    assert supervisors(own) == [supervisor]


@pytest.mark.parametrize("grace", [0.0, 30.0])
def test_a_stop_that_comes_too_late_spares_the_next_command(own: Spawner, grace: float) -> None:
    process = own.spawn(["true"], PATH)
    assert select.select([process.status], [], [], PATIENCE)[0]
    process.stop(grace)
    assert follow(process).code == 0
    (supervisor,) = supervisors(own)
    exit_ = Run(own, ["sleep", "0.1"]).exit
    assert (exit_.code, exit_.stopped) == (0, None)
    assert supervisors(own) == [supervisor]


def test_a_command_sent_to_a_supervisor_that_has_died_is_handed_back(own: Spawner) -> None:
    """The spawner sees that nobody has read it: it was not begun, and says nothing of the work."""
    Run(own, ["true"])
    (supervisor,) = supervisors(own)
    with stopped(own):
        os.kill(supervisor, signal.SIGKILL)
        process = own.spawn(["true"], PATH)
    assert follow(process) == Exit(stopped="spawner")
    assert Run(own, ["true"]).exit.code == 0


def test_a_supervisor_that_died_while_it_waited_is_replaced(own: Spawner) -> None:
    Run(own, ["true"])
    (supervisor,) = supervisors(own)
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: supervisor not in supervisors(own))
    assert Run(own, ["true"]).exit.code == 0


def test_no_command_begins_when_the_lease_is_over_although_a_supervisor_waits(own: Spawner) -> None:
    """The spawner may be late to notice, as after the machine was suspended."""
    Run(own, ["true"])
    with stopped(own):
        own.extend_lease(30, since=lease_clock() - 31)
        assert Run(own, ["true"]).exit == Exit(stopped="lease")


def test_supervisors_that_wait_end_with_the_lease(own: Spawner) -> None:
    Run(own, ["true"])
    own.extend_lease(30, since=lease_clock() - 31)
    eventually(lambda: not supervisors(own))
    own.extend_lease(60)
    assert Run(own, ["true"]).exit.code == 0


def test_supervisors_that_wait_end_with_the_spawner(own: Spawner) -> None:
    Run(own, ["true"])
    (supervisor,) = supervisors(own)
    assert own._process is not None
    own._process.kill()
    eventually(lambda: not read(f"/proc/{supervisor}/cmdline"))


def test_nothing_is_started_for_a_node_that_dies_in_the_midst_of_asking(
    own: Spawner, tmp_path: Path
) -> None:
    channel, theirs = open_channel(PATIENCE)
    with channel, theirs:
        own._send(spawner_process.SUPERVISE, 0.0, [theirs.fileno()])
        request = spawner_process.pack_request(["touch", str(tmp_path / "begun")], PATH, None, True)
        head = spawner_process.CALL.pack(spawner_process.START, math.inf, len(request) + 1)
        socket.send_fds(channel, [head + request], [1, 2])
        (supervisor,) = eventually(lambda: supervisors(own))
    eventually(lambda: supervisor not in supervisors(own))
    assert not (tmp_path / "begun").exists()


def test_only_supervisors_that_have_waited_long_are_ended(own: Spawner) -> None:
    Run(own, ["true"])
    (supervisor,) = supervisors(own)
    own.tidy(longest_idle=PATIENCE)
    Run(own, ["true"])
    assert supervisors(own) == [supervisor]
    own.tidy(longest_idle=0.0)
    eventually(lambda: not supervisors(own))
    assert Run(own, ["true"]).exit.code == 0


# ------------------------------------------------------------ lease, node and spawner


def in_thread(call: Callable[[], Run]) -> Callable[[], Run]:
    """Begin `call` in a thread; the returned function waits for what it returns."""
    results: list[Run] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()

    def result() -> Run:
        thread.join(PATIENCE)
        assert results
        return results[0]

    return result


def test_commands_end_with_the_lease_and_start_again_with_the_next(own: Spawner, mark: str) -> None:
    own.extend_lease(0.3)
    script = "setsid sleep 1000 & sleep 1000"
    run = Run(own, ["sh", "-c", script], env={**PATH, "MARK": mark})
    assert run.exit == Exit(stopped="lease")
    assert marked(mark) == []
    assert Run(own, ["true"]).exit == Exit(stopped="lease")
    own.extend_lease(60)
    assert Run(own, ["true"]).exit.code == 0


def test_an_extended_lease_spares_the_commands(own: Spawner) -> None:
    for seconds in (1, 4, 16):  # a busy machine may take a while to extend it
        own.extend_lease(seconds)
        process = own.spawn(["sleep", str(seconds + 0.2)], PATH)
        own.extend_lease(60)
        with Stop() as stop:
            exit_ = supervise(process, lambda _stream, _piece: None, stop, None, 1.0)
        if exit_.code == 0:
            break
    assert exit_.code == 0


def test_a_lease_counts_from_the_time_it_was_asked_for(own: Spawner) -> None:
    own.extend_lease(30, since=lease_clock() - 31)
    assert Run(own, ["true"]).exit == Exit(stopped="lease")


def test_closing_the_spawner_ends_everything(own: Spawner, mark: str) -> None:
    script = "setsid sleep 1000 & echo ready; sleep 1000"
    env = {**PATH, "MARK": mark}
    result = in_thread(lambda: Run(own, ["sh", "-c", script], env=env))
    eventually(lambda: len(marked(mark)) == 3)
    own.close()
    assert marked(mark) == []
    assert result().exit == Exit(stopped="spawner")
    with pytest.raises(Unavailable, match="not running"):
        own.spawn(["true"], PATH)


def test_the_death_of_the_spawner_ends_everything_and_it_can_be_started_again(
    own: Spawner, mark: str
) -> None:
    script = "setsid sleep 1000 & echo ready; sleep 1000"
    env = {**PATH, "MARK": mark}
    result = in_thread(lambda: Run(own, ["sh", "-c", script], env=env))
    eventually(lambda: len(marked(mark)) == 3)
    assert own._process is not None
    os.kill(own._process.pid, signal.SIGKILL)
    eventually(lambda: not marked(mark))
    assert (result().exit.signal, result().exit.stopped) == (signal.SIGKILL, "spawner")
    eventually(lambda: not own.is_alive())
    with pytest.raises(Unavailable, match="has stopped"):
        own.spawn(["true"], PATH)
    with pytest.raises(Unavailable, match="has stopped"):
        own.extend_lease(30)
    assert Run(own.start(), ["true"]).exit.code == 0


NODE = """
    import os, signal, sys
    from duebook.errors import Conflict
    from duebook.targets.processes import Stop, supervise
    from duebook.targets.spawner import Spawner

    def follow(process):
        with Stop() as stop:
            return supervise(process, lambda stream, piece: None, stop, None, 1.0)

    def say(*words):
        print(*words, flush=True)

    spawner = Spawner().start()
    env = {"PATH": os.environ["PATH"], "MARK": sys.argv[1]}
    family = ["sh", "-c", "sleep 1000 & setsid nohup sleep 1000 & sleep 1000"]
"""


@contextmanager
def node(script: str, mark: str) -> Iterator[subprocess.Popen[str]]:
    """A process that owns a spawner, and does what `script` says."""
    argv = [sys.executable, "-c", textwrap.dedent(NODE) + textwrap.dedent(script), mark]
    process = subprocess.Popen(  # noqa: S603
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go on\n")
    process.stdin.flush()


def test_a_killed_node_leaves_nothing(mark: str) -> None:
    script = """
        processes = [spawner.spawn(family, env) for _ in range(5)]
        say(spawner._process.pid)
        signal.pause()
    """
    with node(script, mark) as process:
        spawner = int(hear(process))
        eventually(lambda: len(marked(mark)) == 20)
        process.kill()
        eventually(lambda: not marked(mark))
        eventually(lambda: not read(f"/proc/{spawner}/cmdline"))


def test_a_killed_node_leaves_nothing_although_a_fork_of_it_lives_on(mark: str) -> None:
    script = """
        process = spawner.spawn(family, env)
        child = os.fork()
        if child == 0:
            os.close(1)
            signal.alarm(600)
            signal.pause()
        say(child)
        signal.pause()
    """
    with node(script, mark) as process:
        child = int(hear(process))
        try:
            eventually(lambda: len(marked(mark)) == 4)
            process.kill()
            eventually(lambda: not marked(mark))
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_commands_of_a_stopped_node_end_with_its_lease_and_it_can_go_on(mark: str) -> None:
    script = """
        process = spawner.spawn(family, env)
        sys.stdin.readline()
        spawner.extend_lease(1.0)
        say("leased")
        sys.stdin.readline()
        say(follow(process).stopped)
        say(follow(spawner.spawn(["true"], env)).stopped)
        spawner.extend_lease(60)
        say(follow(spawner.spawn(["true"], env)).code)
    """
    with node(script, mark) as process:
        eventually(lambda: len(marked(mark)) == 4)
        tell(process)
        assert hear(process) == "leased"
        os.kill(process.pid, signal.SIGSTOP)
        eventually(lambda: state(process.pid) == "T")
        eventually(lambda: not marked(mark))
        assert state(process.pid) == "T"
        os.kill(process.pid, signal.SIGCONT)
        tell(process)
        assert [hear(process) for _ in range(3)] == ["lease", "lease", "0"]


def test_a_spawner_is_refused_after_a_fork_and_goes_on_in_its_owner(mark: str) -> None:
    script = """
        child = os.fork()
        if child == 0:
            try:
                spawner.spawn(["true"], env)
            except Conflict:
                spawner.close()
                code = follow(spawner.start().spawn(["true"], env)).code
                spawner.close()
                os._exit(10 + code)
            os._exit(1)
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        say(follow(spawner.spawn(["true"], env)).code)
        spawner.close()
    """
    with node(script, mark) as process:
        assert [hear(process) for _ in range(2)] == ["10", "0"]


def test_a_fork_of_the_node_lets_go_of_its_commands_and_supervisors_without_a_word(
    mark: str,
) -> None:
    script = """
        follow(spawner.spawn(["true"], env))
        process = spawner.spawn(["sleep", "1000"], env)
        follow(spawner.spawn(["true"], env))
        before = open(f"/proc/{spawner._process.pid}/task/{spawner._process.pid}/children").read()
        child = os.fork()
        if child == 0:
            process.close()
            spawner.close()
            os._exit(0)
        os.waitpid(child, 0)
        follow(spawner.spawn(["true"], env))
        after = open(f"/proc/{spawner._process.pid}/task/{spawner._process.pid}/children").read()
        say(before == after)
        process.stop(60.0)
        say(follow(process).signal)
        spawner.close()
    """
    with node(script, mark) as process:
        assert [hear(process) for _ in range(2)] == ["True", str(int(signal.SIGTERM))]


def test_interrupting_the_node_does_not_reach_the_spawner(mark: str) -> None:
    script = """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(spawner._process.pid, number)
        say(os.getsid(spawner._process.pid) != os.getsid(0))
        say(follow(spawner.spawn(["true"], env)).code)
        spawner.close()
    """
    with node(script, mark) as process:
        assert [hear(process) for _ in range(2)] == ["True", "0"]


def test_a_command_dies_even_if_spawner_and_supervisor_die_at_once(own: Spawner, mark: str) -> None:
    with own.spawn(["sleep", "1000"], {**PATH, "MARK": mark}):
        eventually(lambda: marked(mark))
        assert own._process is not None
        (supervisor,) = children_of(own._process.pid)
        own._process.send_signal(signal.SIGSTOP)  # so that it cannot do the supervisor's work
        os.kill(supervisor, signal.SIGKILL)
        eventually(lambda: not marked(mark))
        own._process.kill()


def test_a_kill_is_reported_as_such(shared: Spawner) -> None:
    process = shared.spawn(["sleep", "1000"], PATH)
    process.kill()
    with Stop() as stop:
        exit_ = supervise(process, lambda _stream, _piece: None, stop, None, 1.0)
    assert (exit_.signal, exit_.stopped) == (signal.SIGKILL, "killed")


def test_a_stopped_spawner_is_replaced(mark: str) -> None:
    """Its supervisors see it die, and end their families themselves."""
    with Spawner() as spawner:
        process = spawner.spawn(["sh", "-c", "sleep 1000 & sleep 1000"], {**PATH, "MARK": mark})
        with process:
            eventually(lambda: len(marked(mark)) == 3)
            assert spawner._process is not None
            os.kill(spawner._process.pid, signal.SIGSTOP)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("duebook.targets.spawner._END_WITHIN", 0.1)
                spawner.start()
            eventually(lambda: not marked(mark))
        assert Run(spawner, ["true"]).exit.code == 0


def test_a_command_leaves_a_reference_to_its_output(shared: Spawner) -> None:
    claim = claim_of({"shell": 'printf "s3://reports/$DUEBOOK_NAMESPACE" > "$DUEBOOK_OUTPUT"'})
    with OutputRefs() as refs, Stop() as stop:
        outcome = perform_command(claim, shared, stop, lambda *_: None, refs)
    assert (outcome.status, outcome.output_ref) == ("succeeded", "s3://reports/team")

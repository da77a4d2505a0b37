"""Commands through the spawner with all taken away that only Linux has, as on macOS: no subreaper,
no signal at the parent's death, no pidfd, no /proc, no vfork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from duebook.errors import Unavailable
from duebook.targets import spawner as node_side
from duebook.targets import spawner_process
from duebook.targets.processes import Exit, Stop, supervise
from duebook.targets.spawner import Spawner
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.targets.supervisors import Process

PATH = {"PATH": os.environ["PATH"]}
ELSEWHERE = f"""
import ctypes, os, runpy, select, socket, sys, time

sys.platform = "darwin"
for module, name in ((os, "pidfd_open"), (os, "O_PATH"), (time, "CLOCK_BOOTTIME"),
                     (socket, "MSG_CMSG_CLOEXEC"), (socket, "SOCK_SEQPACKET"), (select, "epoll")):
    if hasattr(module, name):
        delattr(module, name)


class Libc:
    def __init__(self, *given): pass
    def __getattr__(self, name): raise AttributeError(f"{{name}} is not there")


def without_proc(call):
    def refuse(path=".", *given, **named):
        if str(path).startswith("/proc"):
            raise FileNotFoundError(path)
        return call(path, *given, **named)
    return refuse


ctypes.CDLL = Libc
for name in ("open", "listdir", "access"):
    setattr(os, name, without_proc(getattr(os, name)))
os.access = lambda *given: False
runpy.run_path({spawner_process.__file__!r}, run_name="__main__")
"""
NODE = """
import sys, time
from pathlib import Path
from duebook.targets import spawner
spawner._PROGRAM = Path(sys.argv[1])
sys.platform = "darwin"
held = spawner.Spawner().start()
script = "echo $$ > " + sys.argv[2] + "; sleep 1000; :"
process = held.spawn(["/bin/sh", "-c", script], {"PATH": "/bin:/usr/bin"})
time.sleep(1000)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "spawner_elsewhere.py"
    path.write_text(ELSEWHERE)
    return path


@pytest.fixture
def spawner(program: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spawner]:
    monkeypatch.setattr(node_side, "_PROGRAM", program)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(spawner_process, "_LEASE_CLOCK", time.CLOCK_MONOTONIC)
    with Spawner() as spawner:
        yield spawner


@pytest.fixture
def marks(tmp_path: Path) -> Iterator[Path]:
    """Where commands write their pids, all of which are gone after the test."""
    folder = tmp_path / "pids"
    folder.mkdir()
    yield folder
    for path in folder.iterdir():
        with suppress(OSError, ValueError):
            os.kill(int(path.read_text()), signal.SIGKILL)


def sleeping(marks: Path) -> list[str]:
    """A shell and its child, both of which would go on."""
    return ["/bin/sh", "-c", f"sleep 1000 & echo $! > {marks}/child; echo $$ > {marks}/shell; wait"]


def pids(marks: Path) -> list[int]:
    texts = [path.read_text() for path in marks.iterdir()]
    return [int(text) for text in texts if text.endswith("\n")]


def all_gone(marks: Path) -> bool:
    return not any(map(lives, pids(marks)))


def lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def end_of(process: Process, lines: list[bytes] | None = None) -> Exit:
    kept = [] if lines is None else lines
    with Stop() as stop:
        return supervise(process, lambda _, piece: kept.append(bytes(piece)), stop, None, 1.0)


def test_a_command_runs_and_its_output_and_end_are_told(spawner: Spawner) -> None:
    lines: list[bytes] = []
    argv = ["/bin/sh", "-c", "echo out; exit 3"]
    ended = end_of(spawner.spawn(argv, PATH), lines)
    assert (ended.code, b"".join(lines)) == (3, b"out\n")


def test_what_a_command_leaves_behind_in_its_group_ends_with_it(
    spawner: Spawner, marks: Path
) -> None:
    argv = ["/bin/sh", "-c", f"sleep 1000 & echo $! > {marks}/child"]
    assert end_of(spawner.spawn(argv, PATH)).code == 0
    assert len(pids(marks)) == 1
    eventually(lambda: all_gone(marks))


def test_a_command_that_is_killed_goes_with_its_group(spawner: Spawner, marks: Path) -> None:
    process = spawner.spawn(sleeping(marks), PATH)
    eventually(lambda: len(pids(marks)) == 2)
    process.kill()
    assert end_of(process).stopped == "killed"
    eventually(lambda: all_gone(marks))


def test_commands_end_with_the_lease_and_new_ones_start_once_it_is_extended(
    spawner: Spawner, marks: Path
) -> None:
    process = spawner.spawn(sleeping(marks), PATH)
    eventually(lambda: len(pids(marks)) == 2)
    spawner.extend_lease(-1.0)
    assert end_of(process).stopped == "lease"
    eventually(lambda: all_gone(marks))
    spawner.extend_lease(1_000.0)
    assert end_of(spawner.spawn(["true"], PATH)).code == 0


def test_commands_end_when_the_spawner_is_closed(spawner: Spawner, marks: Path) -> None:
    process = spawner.spawn(sleeping(marks), PATH)
    eventually(lambda: len(pids(marks)) == 2)
    spawner.close()
    assert end_of(process).stopped == "spawner"
    eventually(lambda: all_gone(marks))
    with pytest.raises(Unavailable, match="is not running"):
        spawner.spawn(["true"], PATH)


def test_commands_end_when_the_spawner_is_killed(spawner: Spawner, marks: Path) -> None:
    process = spawner.spawn(sleeping(marks), PATH)
    eventually(lambda: len(pids(marks)) == 2)
    assert spawner._process is not None
    spawner._process.kill()
    assert end_of(process).stopped == "spawner"
    eventually(lambda: all_gone(marks))


def test_commands_end_when_their_node_is_killed(program: Path, marks: Path) -> None:
    argv = [sys.executable, "-c", NODE, str(program), f"{marks}/shell"]
    with subprocess.Popen(argv) as node:  # noqa: S603
        eventually(lambda: len(pids(marks)) == 1)
        node.kill()
    eventually(lambda: all_gone(marks))

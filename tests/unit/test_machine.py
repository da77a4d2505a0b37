"""Whether a process of this machine is gone: by its pid and when it began, and never by a guess."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from duebook import machine
from duebook.machine import ProcessId, Seen, helper_mark, is_gone, process_is_gone, this_process
from duebook.targets.spawner import Spawner
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")


@pytest.mark.parametrize(
    ("seen", "gone"),
    [
        (Seen(exists=False), True),
        (Seen(exists=True, started=7), False),
        (Seen(exists=True, started=8), True),
        (Seen(exists=True, started=7, is_zombie=True), True),
        (Seen(exists=True, started=None), False),
        (Seen(exists=False, helpers=True), False),
        (Seen(exists=True, started=8, helpers=True), False),
    ],
    ids=["no process", "it", "another with its pid", "zombie", "hidden", "commands", "both"],
)
def test_a_process_is_gone_when_its_pid_is_nobody_s_or_another_s(seen: Seen, gone: bool) -> None:
    assert is_gone(7, seen) is gone


def test_this_process_is_there() -> None:
    this = this_process()
    assert this is not None
    assert this.pid == os.getpid()
    assert not process_is_gone(this.pid, this.started)
    assert this_process() == this


def test_without_proc_nobody_can_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "_PROC", tmp_path)
    assert this_process() is None
    with child() as process:
        assert not process_is_gone(process.pid, 1)


@pytest.mark.parametrize(("pid", "started"), [(0, 5), (-1, 5), (5, 0), (1 << 80, 5)])
def test_what_names_no_process_is_not_gone(pid: int, started: int) -> None:
    assert not process_is_gone(pid, started)


@contextmanager
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])  # noqa: S607
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def started(pid: int) -> int:
    seen = machine._look(pid)
    assert seen.started is not None
    return seen.started


def test_a_process_that_is_stopped_is_there_and_one_that_was_killed_is_not() -> None:
    with child() as process:
        began = started(process.pid)
        assert not process_is_gone(process.pid, began)
        assert process_is_gone(process.pid, began - 1), "its pid was another's"
        process.send_signal(signal.SIGSTOP)
        assert not process_is_gone(process.pid, began)
        process.kill()
        eventually(lambda: process_is_gone(process.pid, began))  # nobody has waited for it yet
        process.wait()
        assert process_is_gone(process.pid, began)


def test_a_node_is_not_gone_while_its_commands_may_be_under_way() -> None:
    """The spawner and what it forks bear the node's mark; commands do not, and end with them."""
    this = this_process()
    assert this is not None
    with Spawner().start() as spawner:
        assert machine._has_helpers(this.pid, this.started)
        assert not machine._has_helpers(this.pid, this.started + 1)
        spawner.close()
    assert not machine._has_helpers(this.pid, this.started)
    assert helper_mark(this) == helper_mark(ProcessId("", this.pid, this.started))


def test_where_processes_are_hidden_nobody_counts_as_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With `hidepid` the helpers of a node are not to be seen: nobody reads their memory."""
    monkeypatch.setattr(machine, "_PROC", tmp_path)
    with child() as process:
        process.kill()
        process.wait()
        assert not process_is_gone(process.pid, 1)
        (tmp_path / "1").mkdir()
        assert process_is_gone(process.pid, 1)
